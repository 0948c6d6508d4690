package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A module whose test checks one of two functions.
var module = map[string]string{
	"go.mod": "module example.com/limits\n\ngo 1.26\n",
	"limits.go": `package limits

func Limit(n int) int {
	if n > 10 {
		return 10
	}
	return n
}

func Unchecked(n int) int { return n }
`,
	"limits_test.go": `package limits

import "testing"

func TestLimit(t *testing.T) {
	for name, n := range map[string]int{"below": 5, "above": 50} {
		t.Run(name, func(t *testing.T) {
			t.Log("Unchecked is called")
			if got := Limit(n); got > 10 || Unchecked(n) == 0 {
				t.Errorf("the limit of %d is %d", n, got)
			}
		})
	}
}

func TestBroken(t *testing.T) { t.Error("it always fails") }
`,
}

// TestVerdicts applies a mutant of each sort.
func TestVerdicts(t *testing.T) {
	root, list := t.TempDir(), filepath.Join(t.TempDir(), "mutants.yaml")
	for name, content := range module {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var mutants, want strings.Builder
	for _, test := range []struct {
		name, mutant string
		want         verdict
	}{
		{"caught", `old: "n > 10", new: "false", test: TestLimit, message: the limit of 50 is 50`, killed},
		{"caught by a subtest", `old: "n > 10", new: "false", test: TestLimit/above, message: is 50`, killed},
		{"not checked", `old: "{ return n }", new: "{ return -n }", test: TestLimit, message: the limit`, survived},
		{"checked by another subtest", `old: "n > 10", new: "false", test: TestLimit/below, message: is 50`, survived},
		{"not there", `old: "n > 11", new: "false", test: TestLimit, message: the limit`, stale},
		{"there twice", `old: "return n", new: "return 0", test: TestLimit, message: the limit`, stale},
		{"invalid", `old: "n > 10", new: "n >", test: TestLimit, message: the limit`, notCompiled},
		{"calls panic", `old: "return 10", new: "panic(n)", test: TestLimit, message: the limit`, panicked},
		{"another message", `old: "n > 10", new: "false", test: TestLimit, message: always fails`, otherFailure},
		{"not a message", `old: "n > 10", new: "false", test: TestLimit, message: FAIL`, otherFailure},
		{"the test fails anyway", `old: "n > 10", new: "false", test: TestBroken, message: always fails`, failsAlways},
		{"no such test", `old: "n > 10", new: "false", test: TestLimits, message: the limit`, failsAlways},
	} {
		fmt.Fprintf(&mutants, "- {name: %s, file: limits.go, package: ., %s}\n", test.name, test.mutant)
		fmt.Fprintf(&want, "%s: %s\n", test.name, test.want)
	}
	if err := os.WriteFile(list, []byte(mutants.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := check(t.Context(), root, list, "", false, &out); err == nil || !strings.Contains(err.Error(), "10 of 12 mutants were not killed") {
		t.Errorf("got error %v", err)
	}
	var got strings.Builder
	for _, row := range regexp.MustCompile(`(?m)^ *\d+/12 +(\w.*?)  +(\w.*?)  +\d+\.\ds  `).FindAllStringSubmatch(out.String(), -1) {
		fmt.Fprintf(&got, "%s: %s\n", row[1], row[2])
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s\n%s", diff, out.String())
	}
	if err := check(t.Context(), root, list, "^caught", false, &out); err != nil {
		t.Errorf("all chosen mutants were killed, and yet: %v", err)
	}
	if err := check(t.Context(), root, list, "", true, &out); err == nil || !strings.Contains(err.Error(), "no mutant") {
		t.Errorf("none is for each change, and the error is %v", err)
	}
}

// TestTimeoutIsNoAssertion has the output of a test that hung after it had failed.
func TestTimeoutIsNoAssertion(t *testing.T) {
	found := parse([]byte(`{"Action":"output","Test":"TestX","Output":"    x_test.go:7: as expected\n"}
{"Action":"output","Test":"TestX","Output":"panic: test timed out after 1s\n"}
{"Action":"fail","Test":"TestX"}
{"Action":"fail"}
`))
	if got := judge(found, "TestX", "as expected"); got != timedOut {
		t.Errorf("got %q", got)
	}
}

// TestListIsComplete reads the list of this project: each mutant still applies, and some are for each change.
func TestListIsComplete(t *testing.T) {
	all, err := read("mutants.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ci := 0
	for _, m := range all {
		content, err := os.ReadFile(filepath.Join("..", "..", m.File))
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := m.apply(string(content)); err != nil {
			t.Errorf("mutant %q: %v", m.Name, err)
		}
		if m.CI {
			ci++
		}
	}
	if len(all) < 20 || ci < 5 {
		t.Errorf("there are %d mutants, %d of them for each change", len(all), ci)
	}
}

func TestInvalidLists(t *testing.T) {
	const complete = "{name: x, file: x.go, old: a, new: b, package: ., test: TestX, message: failed}"
	for name, test := range map[string]struct{ list, want string }{
		"unknown field":   {"- {named: x}", "unknown field"},
		"no message":      {"- " + strings.Replace(complete, "failed", `""`, 1), "required"},
		"changes nothing": {"- " + strings.Replace(complete, "new: b", "new: a", 1), "changes nothing"},
		"a name twice":    {"- " + complete + "\n- " + complete, "two mutants"},
		"not a pattern":   {"- " + strings.Replace(complete, "failed", `"("`, 1), "missing closing"},
	} {
		t.Run(name, func(t *testing.T) {
			list := filepath.Join(t.TempDir(), "mutants.yaml")
			if err := os.WriteFile(list, []byte(test.list), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := read(list); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestPattern(t *testing.T) {
	m := mutant{Test: "TestX/a (b)"}
	if diff := cmp.Diff(`^TestX$/^a \(b\)$`, m.pattern()); diff != "" {
		t.Error(diff)
	}
}
