package webhosting

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ringmaster-project/ringmaster/demo/observer"
	"github.com/ringmaster-project/ringmaster/demo/view"
)

func TestAllReconciled(t *testing.T) {
	state := func(total, ready int, instances ...view.Instance) view.State {
		return view.State{Objects: view.Objects{Total: total, Ready: ready}, Instances: instances}
	}
	failed := state(3, 2, view.Instance{Objects: 3})
	failed.Objects.Failed = 1
	for name, test := range map[string]struct {
		state view.State
		want  bool
	}{
		"all are":               {state(3, 3, view.Instance{Objects: 2}, view.Instance{Objects: 1}), true},
		"one is missing":        {state(2, 2, view.Instance{Objects: 2}), false},
		"one is not ready":      {state(3, 2, view.Instance{Objects: 3}), false},
		"one has no owner":      {state(3, 3, view.Instance{Objects: 2}), false},
		"one is draining":       {state(3, 3, view.Instance{Objects: 3, Draining: 1}), false},
		"more than the minimum": {state(4, 4, view.Instance{Objects: 4}), true},
		"one more, not ready":   {state(4, 3, view.Instance{Objects: 4}), false},
		"one has failed":        {failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := allReconciled(test.state, 3); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestFailedObjectsGetGracePeriod expects to wait some seconds for a failed object, and to start
// again when it recovers.
func TestFailedObjectsGetGracePeriod(t *testing.T) {
	w := waiter{minimum: 2}
	for i, step := range []struct {
		after         time.Duration
		ready, failed int
		want          bool
	}{
		{0, 1, 1, false},
		{4 * time.Second, 1, 1, false},
		{5 * time.Second, 1, 0, false},
		{6 * time.Second, 1, 1, false},
		{10 * time.Second, 1, 1, false},
		{11 * time.Second, 1, 1, true},
		{11 * time.Second, 2, 0, true},
	} {
		state := view.State{
			Now:       time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(step.after),
			Objects:   view.Objects{Total: 2, Ready: step.ready, Failed: step.failed},
			Instances: []view.Instance{{Objects: 2}},
		}
		if got := w.done(state); got != step.want {
			t.Errorf("step %d: got %t", i, got)
		}
	}
}

func TestUnready(t *testing.T) {
	object := func(name, phase string) observer.Object {
		return observer.Object{NamespacedName: types.NamespacedName{Namespace: "p", Name: name}, Phase: phase, Ready: phase == "Ready"}
	}
	for name, test := range map[string]struct {
		objects []observer.Object
		want    string
	}{
		"all are ready": {[]observer.Object{object("a", "Ready")}, ""},
		"two are not":   {[]observer.Object{object("a", "Error"), object("b", "Ready"), object("c", "")}, "p/a (Error), p/c (new)"},
		"many are not": {
			[]observer.Object{object("a", "Error"), object("b", "Error"), object("c", "Error"), object("d", "Error"), object("e", "Error"), object("f", "Error")},
			"p/a (Error), p/b (Error), p/c (Error), p/d (Error), p/e (Error), and 1 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := unready(test.objects); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
