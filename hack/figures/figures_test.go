package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompare(t *testing.T) {
	one := accepted{Benchmark: "BenchmarkMove", Unit: "x-plain", Ratio: 2, Tolerance: 0.1}
	higher := one
	higher.HigherIsBetter = true
	small := one
	small.Args = "-objects 100"
	at := func(values ...float64) map[id][]float64 { return map[id][]float64{one.id(): values} }
	for name, test := range map[string]struct {
		accepted accepted
		measured run
		want     verdict
	}{
		"equal":                                {one, run{values: at(2)}, same},
		"within the tolerance":                 {one, run{values: at(2.19)}, same},
		"worse":                                {one, run{values: at(2.21)}, worse},
		"better":                               {one, run{values: at(1.79)}, better},
		"higher is better, and it is":          {higher, run{values: at(2.21)}, better},
		"higher is better, and it is lower":    {higher, run{values: at(1.79)}, worse},
		"median of several":                    {one, run{values: at(9, 2, 2)}, same},
		"missing":                              {one, run{}, missing},
		"not selected":                         {one, run{args: "-bench Other"}, omitted},
		"selected, and worse":                  {one, run{values: at(3), args: "-bench Move"}, worse},
		"other sizes":                          {one, run{values: at(3), args: "-objects 7"}, omitted},
		"accepted with sizes, run with them":   {small, run{values: at(3), args: "-objects 100"}, worse},
		"accepted with sizes, run without":     {small, run{values: at(3)}, worse},
		"accepted with sizes, run with others": {small, run{values: at(3), args: "-bench . -objects 7"}, omitted},
	} {
		t.Run(name, func(t *testing.T) {
			got := compare([]accepted{test.accepted}, test.measured)
			if len(got) != 1 || got[0].verdict != test.want {
				t.Errorf("got %+v, want %s", got, test.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for args, want := range map[string]struct {
		selected bool
		sizes    string
	}{
		"":                                   {false, ""},
		"-bench Move":                        {true, ""},
		"-bench=Move -v":                     {true, ""},
		"-count 3 -benchtime=1x -timeout 1h": {false, ""},
		"-bench Move -objects 100":           {true, "-objects 100"},
		"-objects 100 -rest=10s":             {false, "-objects 100 -rest=10s"},
	} {
		if selected, sizes := split(args); selected != want.selected || sizes != want.sizes {
			t.Errorf("%q: %v, %q", args, selected, sizes)
		}
	}
}

const output = `# ARGS: -bench Move
goos: linux
cpu: Some CPU @ 2 GHz
BenchmarkMove/handover-2         	       1	34567890 ns/op	         1.500 x-plain	         0.9 s-ownerless
--- BENCH: BenchmarkMove/handover-2
    moves_test.go:9: BenchmarkMove is fine
BenchmarkMove/handover-2         	       1	34567890 ns/op	         1.700 x-plain
BenchmarkOther             	       1	34567890 ns/op	         3 x-new
PASS
`

func TestParse(t *testing.T) {
	got, err := parse(output)
	if err != nil {
		t.Fatal(err)
	}
	want := map[id][]float64{
		{"BenchmarkMove/handover", "ns/op"}:       {34567890, 34567890},
		{"BenchmarkMove/handover", "x-plain"}:     {1.5, 1.7},
		{"BenchmarkMove/handover", "s-ownerless"}: {0.9},
		{"BenchmarkOther", "ns/op"}:               {34567890},
		{"BenchmarkOther", "x-new"}:               {3},
	}
	if diff := cmp.Diff(want, got.values, cmp.AllowUnexported(id{})); diff != "" || got.args != "-bench Move" {
		t.Error(got.args, diff)
	}
}

// TestGate reports a worse ratio, and accepts it.
func TestGate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accepted.yaml")
	const before = `- {benchmark: BenchmarkMove/handover, unit: x-plain, ratio: 1.2, tolerance: 0.2, measured: before}
- {benchmark: BenchmarkRest, unit: x-plain, ratio: 1, tolerance: 0.2, measured: before}
`
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := gate(path, false, strings.NewReader(output), &out); err == nil || !strings.Contains(err.Error(), "1 ratios are worse") {
		t.Errorf("1.6 passes although the limit is 1.44: %v", err)
	}
	if !strings.Contains(out.String(), "1 ratios are better than accepted, or new") {
		t.Errorf("the output does not mention the new ratio:\n%s", &out)
	}
	if err := gate(path, true, strings.NewReader(output), &out); err != nil {
		t.Fatal(err)
	}
	if err := gate(path, false, strings.NewReader(output), &out); err != nil {
		t.Errorf("an accepted ratio fails: %v", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"ratio: 1.6\n  tolerance: 0.2\n", "measured: before\n  ratio: 1\n", "ratio: 3\n  tolerance: 0.25\n", "Some CPU @ 2 GHz"} {
		if !strings.Contains(string(content), part) {
			t.Errorf("%q is missing in:\n%s", part, content)
		}
	}
}
