package command

import (
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/run"
)

func TestConclude(t *testing.T) {
	t.Parallel()
	valid := &run.Result{Setup: fleet.External, Instances: 3, Verdicts: []run.Verdict{{Holds: true}}}
	saturated := &run.Result{Setup: fleet.External, Instances: 5, Verdicts: []run.Verdict{{Holds: true}}, Invalid: []string{"the machine was saturated"}}
	slow := &run.Result{Verdicts: []run.Verdict{{Holds: false}}}
	incomplete := &run.Result{Errors: []string{"sharder: no metrics"}}
	for name, test := range map[string]struct {
		results     []*run.Result
		interrupted bool
		want        string // a part of the error; none if it is empty
		code        int
	}{
		"valid":                {[]*run.Result{valid, valid}, false, "", 0},
		"invalid":              {[]*run.Result{valid, saturated, saturated}, false, "the result is invalid: external, 5×: the machine was saturated: choose", 1},
		"invalid and slow":     {[]*run.Result{slow, saturated}, false, "the result is invalid", 1},
		"slow":                 {[]*run.Result{valid, slow}, false, "not all objectives hold", 3},
		"incomplete":           {[]*run.Result{saturated, incomplete}, false, "not everything was executed or measured", 1},
		"interrupted":          {[]*run.Result{valid}, true, "interrupted: the report covers", 1},
		"interrupted and slow": {[]*run.Result{slow}, true, "interrupted: the report covers", 1},
		"interrupted, nothing": {nil, true, "interrupted before anything", 1},
	} {
		err := conclude(test.results, test.interrupted)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if code := ExitCode(err); code != test.code {
			t.Errorf("%s: got the exit code %d, want %d", name, code, test.code)
		}
	}
}

// All configurations run before the first one repeats, and each repetition has another seed.
func TestRepeat(t *testing.T) {
	t.Parallel()
	o := &options{
		setups: []string{"external"}, instances: []int{1, 5}, repeat: 2, scale: 1, interval: 5e9, projects: 1, limits: run.DefaultLimits(),
		given: func(string) bool { return false },
	}
	plan, err := o.plan("scale-out")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range plan {
		got = append(got, p.String(), p.file())
	}
	want := "external, 1 instance, run 1|external-1-0-run1|external, 5 instances, run 1|external-5-0-run1|external, 1 instance, run 2|external-1-0-run2|external, 5 instances, run 2|external-5-0-run2"
	if strings.Join(got, "|") != want {
		t.Errorf("got %v", got)
	}
	if plan[0].seed(7) != 7 || plan[2].seed(7) != 8 {
		t.Errorf("got the seeds %d and %d, want 7 and 8", plan[0].seed(7), plan[2].seed(7))
	}
}

// A report that is committed must not have paths of the machine.
func TestCommandLineHasNoPaths(t *testing.T) {
	t.Parallel()
	args := []string{"basic", "--out", "/somewhere", "--scale=0.2", "--assets=/else", "--programs", "bin", "--summary", "docs", "--quiet", "--setups", "lead,external"}
	if got, want := commandLine(args), "ringmaster experiment basic --scale=0.2 --setups lead,external"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
