package ownership

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var object = Key{schema.GroupKind{Kind: "ConfigMap"}, types.NamespacedName{Namespace: "default", Name: "home"}}

func canEnter(g *gate) bool {
	_, leave, ok := g.enter(context.Background(), object)
	if ok {
		leave()
	}
	return ok
}

func TestGateWaitsForReconciles(t *testing.T) {
	g := newGate()
	reconcileCtx, leave, ok := g.enter(t.Context(), object)
	if !ok {
		t.Fatal("it is blocked from the start")
	}
	idle, _ := g.block(object)
	select {
	case <-idle:
		t.Fatal("it is idle during a reconcile")
	default:
	}
	if canEnter(g) {
		t.Error("a reconcile began for which the release does not wait")
	}
	g.interrupt(object)
	<-reconcileCtx.Done()
	if !errors.Is(context.Cause(reconcileCtx), ErrOwnershipLost) {
		t.Errorf("the cause is %v", context.Cause(reconcileCtx))
	}
	leave()
	<-idle
	g.open(object)
	g.endRelease(object)
	if !canEnter(g) || len(g.objects) != 0 {
		t.Errorf("it stays blocked, or its state is not deleted: %v", g.objects)
	}
}

func TestGateAllowsOneReleaseAtATime(t *testing.T) {
	g := newGate()
	if _, ok := g.block(object); !ok {
		t.Fatal("a release is in progress from the start")
	}
	if _, ok := g.block(object); ok {
		t.Error("two releases of one object are in progress")
	}
	g.endRelease(object)
	if canEnter(g) {
		t.Error("it is unblocked after a release that did not open it")
	}
	if _, ok := g.block(object); !ok {
		t.Error("the release does not end")
	}
}

func TestGateStaysBlockedUntilCacheShowsRelease(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*gate)
		open bool
	}{
		"no event":                   {func(*gate) {}, false},
		"an earlier version":         {func(g *gate) { g.observe(object, "9", 0) }, false},
		"the version of the release": {func(g *gate) { g.observe(object, "10", 0) }, false},
		"a later version":            {func(g *gate) { g.observe(object, "11", 0) }, true},
		"deleted":                    {func(g *gate) { g.observeDeletion(object, "10", 0) }, true},
		"deleted, version unknown":   {func(g *gate) { g.observeDeletion(object, "", 0) }, true},
		"deleted before the release": {func(g *gate) { g.observeDeletion(object, "5", 0) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			g.block(object)
			g.markReleased(object, "10", 1)
			g.endRelease(object)
			if !g.isReleased(object) {
				t.Error("the release is not recorded")
			}
			test.then(g)
			if got := canEnter(g); got != test.open {
				t.Errorf("a reconcile may begin: %t, want %t", got, test.open)
			}
		})
	}
}
