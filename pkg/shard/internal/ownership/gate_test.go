package ownership

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var object = Key{schema.GroupKind{Kind: "ConfigMap"}, types.NamespacedName{Namespace: "default", Name: "home"}}

func entered(g *gate) bool {
	_, leave, ok := g.enter(context.Background(), object)
	if ok {
		leave()
	}
	return ok
}

func TestGateWaitsForReconciles(t *testing.T) {
	g := newGate()
	running, leave, ok := g.enter(t.Context(), object)
	if !ok {
		t.Fatal("it is closed from the start")
	}
	idle, _ := g.block(object)
	select {
	case <-idle:
		t.Fatal("it is idle while somebody works")
	default:
	}
	if entered(g) {
		t.Error("a run began that nobody waits for")
	}
	g.interrupt(object)
	<-running.Done()
	if !errors.Is(context.Cause(running), ErrOwnershipLost) {
		t.Errorf("the cause is %v", context.Cause(running))
	}
	leave()
	<-idle
	g.open(object)
	g.endRelease(object)
	if !entered(g) || len(g.objects) != 0 {
		t.Errorf("it stays blocked, or its state is never forgotten: %v", g.objects)
	}
}

func TestGateAllowsOneReleaseAtATime(t *testing.T) {
	g := newGate()
	if _, ok := g.block(object); !ok {
		t.Fatal("it is busy from the start")
	}
	if _, ok := g.block(object); ok {
		t.Error("two hand the same object over")
	}
	g.endRelease(object)
	if entered(g) {
		t.Error("it opened by itself")
	}
	if _, ok := g.block(object); !ok {
		t.Error("its release never ends")
	}
}

// TestGateStaysBlockedUntilCacheShowsRelease keeps an object blocked until the cache shows that it was released.
func TestGateStaysBlockedUntilCacheShowsRelease(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*gate)
		open bool
	}{
		"nothing yet":               {func(*gate) {}, false},
		"an old version":            {func(g *gate) { g.observe(object, "9", 0) }, false},
		"that very version":         {func(g *gate) { g.observe(object, "10", 0) }, false},
		"a later one: it came back": {func(g *gate) { g.observe(object, "11", 0) }, true},
		"gone":                      {func(g *gate) { g.observeDeletion(object, "10", 0) }, true},
		"gone, nobody knows when":   {func(g *gate) { g.observeDeletion(object, "", 0) }, true},
		"gone once before":          {func(g *gate) { g.observeDeletion(object, "5", 0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			g.block(object)
			g.markReleased(object, "10", 1)
			g.endRelease(object)
			if !g.isReleased(object) {
				t.Error("its release is not recorded")
			}
			test.then(g)
			if got := entered(g); got != test.open {
				t.Errorf("a run may begin: %t", got)
			}
		})
	}
}
