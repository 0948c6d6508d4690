package rings

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// TestTimesOfPermissionReviews checks at each second of an hour and counts.
func TestTimesOfPermissionReviews(t *testing.T) {
	missing := []MissingRule{{Resource: schema.GroupResource{Resource: "configmaps"}, Verbs: []string{"list"}}}
	for name, test := range map[string]struct {
		missing   []MissingRule
		forbidden bool
		spec      func(second int) int64
		asked     int
		early     int // within the first minute
	}{
		"granted":                        {asked: 6, early: 1},
		"refused":                        {missing: missing, asked: 34, early: 4},
		"granted, but a write forbidden": {forbidden: true, asked: 34, early: 4},
		"spec changes every minute":      {spec: func(second int) int64 { return int64(second / 60) }, asked: 60, early: 1},
		"refused, then the spec changes": {missing: missing, spec: func(second int) int64 { return int64(second / 1800) }, asked: 38, early: 4},
	} {
		t.Run(name, func(t *testing.T) {
			var last *review
			asked, early := 0, 0
			for second := range 3600 {
				q := reviewKey{uid: "ring"}
				if test.spec != nil {
					q.generation = test.spec(second)
				}
				at := now.Add(time.Duration(second) * time.Second)
				if last.valid(q, test.forbidden, at) {
					continue
				}
				last = last.after(q, test.missing, test.forbidden, at)
				asked++
				if second < 60 {
					early++
				}
			}
			if asked != test.asked || early != test.early {
				t.Errorf("asked %d times in an hour and %d times in the first minute, want %d and %d", asked, early, test.asked, test.early)
			}
		})
	}
}

func TestGrantedPermissionsResetTheBackoff(t *testing.T) {
	q := reviewKey{uid: "ring"}
	refused := (*review)(nil).after(q, []MissingRule{{}}, false, now)
	granted := refused.after(q, nil, false, now)
	if granted.refusals != 0 || granted.next(false) != now.Add(recheckAfter) {
		t.Errorf("the next review after a granted role is at %s, with %d refusals", granted.next(false), granted.refusals)
	}
	if got := granted.next(true); got != now.Add(minRefusedDelay) {
		t.Errorf("after a forbidden write the next review is at %s", got)
	}
}

func TestIsForbidden(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("no"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("changed"))
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"none":       {nil, false},
		"plain":      {errors.New("x"), false},
		"conflict":   {conflict, false},
		"forbidden":  {refused, true},
		"wrapped":    {fmt.Errorf("listing: %w", refused), true},
		"one of two": {fmt.Errorf("x: %w", errors.Join(fmt.Errorf("y: %w", conflict), fmt.Errorf("z: %w", refused))), true},
		"none of two": {
			errors.Join(conflict, errors.New("x")), false,
		},
	} {
		if got := isForbidden(test.err); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestPermittedResources omits resources that may not be listed and patched, and those that only such objects control.
func TestPermittedResources(t *testing.T) {
	resource := func(name string, controllers ...string) catalog.Resource {
		r := catalog.Resource{
			Resource: schema.GroupVersionResource{Version: "v1", Resource: name},
			Kind:     catalog.Kind{GroupKind: schema.GroupKind{Kind: name}},
		}
		for _, controller := range controllers {
			r.Controllers = append(r.Controllers, catalog.Kind{GroupKind: schema.GroupKind{Kind: controller}})
		}
		return r
	}
	known := &catalog.Ring{Resources: []catalog.Resource{resource("websites"), resource("themes"), resource("configmaps", "websites", "themes"), resource("secrets", "themes")}}
	for name, test := range map[string]struct {
		missing []string
		want    []catalog.Resource
	}{
		"all":                   {nil, known.Resources},
		"not a controlled one":  {[]string{"configmaps"}, []catalog.Resource{resource("websites"), resource("themes"), resource("secrets", "themes")}},
		"not a main one":        {[]string{"themes"}, []catalog.Resource{resource("websites"), resource("configmaps", "websites")}},
		"no main one":           {[]string{"themes", "websites"}, nil},
		"a main one alone left": {[]string{"websites", "configmaps", "secrets"}, []catalog.Resource{resource("themes")}},
	} {
		var missing []MissingRule
		for _, refused := range test.missing {
			missing = append(missing, MissingRule{Resource: schema.GroupResource{Resource: refused}, Verbs: []string{"patch"}})
		}
		if diff := cmp.Diff(test.want, permitted(known, missing)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]catalog.Kind{{GroupKind: schema.GroupKind{Kind: "websites"}}, {GroupKind: schema.GroupKind{Kind: "themes"}}}, known.Resources[2].Controllers); diff != "" {
		t.Errorf("the ring in the catalog has changed (-want +got):\n%s", diff)
	}
}
