package ringfile_test

import (
	"strings"
	"testing"

	"github.com/ringmaster-project/ringmaster/internal/ringfile"
)

const (
	first = `
apiVersion: sharding.timebertt.dev/v1alpha1
kind: ControllerRing
metadata: {name: first}
spec:
  resources:
  - {group: apps, resource: deployments}
`
	second = `
apiVersion: sharding.timebertt.dev/v1alpha1
kind: ControllerRing
metadata: {name: second}
spec: {}
`
	other = `
apiVersion: example.com/v1
kind: Thing
metadata: {name: thing}
`
	separator = "\n---\n"
)

func TestFind(t *testing.T) {
	for name, test := range map[string]struct {
		content, ring string
		want, problem string
	}{
		"the only one":             {content: first, want: "first"},
		"the only one, by name":    {content: first, ring: "first", want: "first"},
		"one of two":               {content: first + separator + second, ring: "second", want: "second"},
		"among other things":       {content: separator + other + separator + first, want: "first"},
		"as JSON":                  {content: `{"apiVersion":"sharding.timebertt.dev/v1alpha1","kind":"ControllerRing","metadata":{"name":"first"}}`, want: "first"},
		"unknown name":             {content: first, ring: "second", problem: `ControllerRing "second" not found (available: first)`},
		"one of two, without name": {content: first + separator + second, problem: "name one of first, second"},
		"none":                     {content: other, problem: "no ControllerRing of sharding.timebertt.dev/v1alpha1 found"},
		"an empty file":            {problem: "no ControllerRing of sharding.timebertt.dev/v1alpha1 found"},
		"a misspelt field":         {content: strings.Replace(first, "resources", "resuorces", 1), problem: `unknown field "spec.resuorces"`},
		"not YAML":                 {content: "a: b: c", problem: "yaml"},
		"the kind of a newer API":  {content: strings.Replace(first, "v1alpha1", "v7", 1), problem: "no ControllerRing"},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := ringfile.Find(strings.NewReader(test.content), test.ring)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("error %v, want one with %q", err, test.problem)
				}
				return
			}
			if err != nil || ring.Name != test.want {
				t.Errorf("found %v, %v; want %s", ring, err, test.want)
			}
		})
	}
}
