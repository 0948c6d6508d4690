package shard

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var object = key{schema.GroupKind{Kind: "ConfigMap"}, types.NamespacedName{Namespace: "default", Name: "home"}}

func entered(g *guard) bool {
	_, leave, ok := g.enter(context.Background(), object)
	if ok {
		leave()
	}
	return ok
}

func TestGuardWaitsForRuns(t *testing.T) {
	g := newGuard()
	running, leave, ok := g.enter(t.Context(), object)
	if !ok {
		t.Fatal("it is closed from the start")
	}
	idle, _ := g.close(object)
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
	if !errors.Is(context.Cause(running), ErrTaken) {
		t.Errorf("the cause is %v", context.Cause(running))
	}
	leave()
	<-idle
	g.open(object)
	g.done(object)
	if !entered(g) || len(g.objects) != 0 {
		t.Errorf("it stays closed, or remembers for ever: %v", g.objects)
	}
}

func TestGuardIsForOneAtATime(t *testing.T) {
	g := newGuard()
	if _, ok := g.close(object); !ok {
		t.Fatal("it is busy from the start")
	}
	if _, ok := g.close(object); ok {
		t.Error("two hand the same object over")
	}
	g.done(object)
	if entered(g) {
		t.Error("it opened by itself")
	}
	if _, ok := g.close(object); !ok {
		t.Error("it is busy for ever")
	}
}

// TestGuardAfterGiving keeps an object closed until the cache knows that it was given away.
func TestGuardAfterGiving(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*guard)
		open bool
	}{
		"nothing yet":               {func(*guard) {}, false},
		"an old version":            {func(g *guard) { g.saw(object, "9") }, false},
		"that very version":         {func(g *guard) { g.saw(object, "10") }, false},
		"a later one: it came back": {func(g *guard) { g.saw(object, "11") }, true},
		"gone":                      {func(g *guard) { g.lost(object, "10") }, true},
		"gone, nobody knows when":   {func(g *guard) { g.lost(object, "") }, true},
		"gone once before":          {func(g *guard) { g.lost(object, "5") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard()
			g.close(object)
			g.gave(object, "10")
			g.done(object)
			if !g.gone(object) {
				t.Error("it is not known to be given away")
			}
			test.then(g)
			if got := entered(g); got != test.open {
				t.Errorf("a run may begin: %t", got)
			}
		})
	}
}

// TestNarrow has all places at which a user's cache options can have a selector.
func TestNarrow(t *testing.T) {
	own := labels.SelectorFromSet(labels.Set{"shard": "a"})
	theirs := labels.SelectorFromSet(labels.Set{"app": "x"})
	both := "app=x,shard=a"
	options := cache.Options{
		DefaultLabelSelector: theirs,
		DefaultNamespaces:    map[string]cache.Config{"one": {LabelSelector: theirs}, "two": {}},
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}:    {Label: theirs, Namespaces: map[string]cache.Config{"one": {LabelSelector: theirs}}},
			&corev1.ConfigMap{}: {},
		},
	}
	narrowed := narrow(options, own)
	if got := narrowed.DefaultLabelSelector.String(); got != both {
		t.Errorf("by default %s", got)
	}
	if got := narrowed.DefaultNamespaces["one"].LabelSelector.String(); got != both {
		t.Errorf("in a namespace %s", got)
	}
	if narrowed.DefaultNamespaces["two"].LabelSelector != nil {
		t.Error("a namespace without a selector does not get the default one any more")
	}
	for of, config := range narrowed.ByObject {
		if _, secret := of.(*corev1.Secret); !secret {
			if config.Label != nil {
				t.Error("a kind without a selector does not get the default one any more")
			}
			continue
		}
		if got := config.Label.String(); got != both {
			t.Errorf("of a kind %s", got)
		}
		if got := config.Namespaces["one"].LabelSelector.String(); got != both {
			t.Errorf("of a kind in a namespace %s", got)
		}
	}
	if options.DefaultNamespaces["one"].LabelSelector.String() != "app=x" {
		t.Error("the user's options were changed")
	}
	if got := narrow(cache.Options{}, own).DefaultLabelSelector.String(); got != "shard=a" {
		t.Errorf("without any options %s", got)
	}
}
