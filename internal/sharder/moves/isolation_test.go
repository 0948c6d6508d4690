package moves_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

func controlledBy(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: "parent", Controller: new(true)}
}

// TestObjectsBehindRefusedOnesAreAssigned has more refused objects than are remembered, all before the healthy ones of their kind.
// How many passes that takes depends on the order in which writes that run at the same time are answered.
func TestObjectsBehindRefusedOnesAreAssigned(t *testing.T) {
	for refused, within := range map[int]time.Duration{100: time.Minute, 300: 3 * time.Minute, 2000: 20 * time.Minute} {
		t.Run(strconv.Itoa(refused), func(t *testing.T) {
			s := newSimulation()
			for i := range refused {
				s.api.create("configmaps", fmt.Sprintf("aaa-%04d", i), nil)
			}
			s.api.patchFails = func(_ context.Context, resource, name string) error {
				if strings.HasPrefix(name, "aaa") {
					return forbidden(resource, name)
				}
				return nil
			}
			s.run(t, 20*time.Minute, func() {
				const healthy = 20
				for i := range healthy {
					s.api.create("configmaps", fmt.Sprintf("zzz-%d", i), map[string]string{shardLabel: "dead"})
				}
				time.Sleep(within)
				synctest.Wait()
				orphaned := 0
				for i := range healthy {
					if s.api.label("configmaps", fmt.Sprintf("zzz-%d", i), shardLabel) == "dead" {
						orphaned++
					}
				}
				if orphaned > 0 {
					t.Errorf("%d of %d healthy objects are still orphaned after %s", orphaned, healthy, within)
				}
			})
		})
	}
}

// TestDrainEndsAlthoughAnotherKindFails has a main kind that cannot be listed. A released object of another one and its child
// are not delayed.
func TestDrainEndsAlthoughAnotherKindFails(t *testing.T) {
	s := newSimulation()
	wrong := s.wrongShard("parent")
	s.api.create("configmaps", "parent", map[string]string{shardLabel: wrong})
	s.api.create("secrets", "child", map[string]string{shardLabel: wrong}, controlledBy("parent"))
	s.api.listFails = func(resource string, _ metav1.ListOptions) error {
		if resource == "services" {
			return errors.New("its conversion webhook is gone")
		}
		return nil
	}
	s.run(t, 10*time.Minute, func() {
		to := s.api.label("configmaps", "parent", shardingv1alpha1.LabelDrain(simulated))
		if to == "" {
			t.Fatal("it is not drained")
		}
		before, _ := s.api.requests()
		s.api.create("configmaps", "parent", map[string]string{shardLabel: to}) // released
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if child := s.api.label("secrets", "child", shardLabel); child != to {
			t.Errorf("its child is with %q, not with %q", child, to)
		}
		if after, _ := s.api.requests(); after["services"]-before["services"] > 10 {
			t.Errorf("%d lists of the kind that fails", after["services"]-before["services"])
		}
	})
}

// TestFailedLocationsAreBounded has many children on the wrong shard, and controllers that cannot be read.
func TestFailedLocationsAreBounded(t *testing.T) {
	s := newSimulation()
	for i := range 2000 {
		parent := fmt.Sprintf("parent-%d", i)
		s.api.create("secrets", fmt.Sprintf("child-%d", i), map[string]string{shardLabel: s.wrongShard(parent)}, controlledBy(parent))
	}
	s.api.listFails = func(resource string, _ metav1.ListOptions) error {
		if resource == "configmaps" {
			return forbidden(resource, "")
		}
		return nil
	}
	s.run(t, 5*time.Minute, func() {
		lists, _ := s.api.requests()
		t.Logf("%d lists", lists["configmaps"])
		if lists["configmaps"] > 200 {
			t.Errorf("%d lists of the kind that fails in 5 minutes", lists["configmaps"])
		}
	})
}

// overdue is a ring whose drains may be forced, with objects whose shard does not release them.
func overdue(n int) *simulation {
	s := newSimulation()
	declared := *s.rings.Get(simulated)
	declared.Drain = shardingv1alpha1.DrainPolicy{Timeout: &metav1.Duration{Duration: time.Minute}, OnTimeout: shardingv1alpha1.DrainMove}
	s.rings.Set(&declared)
	for i := range n {
		name := fmt.Sprintf("object-%d", i)
		s.api.create("configmaps", name, map[string]string{shardLabel: s.wrongShard(name), shardingv1alpha1.LabelDrain(simulated): "true"})
	}
	return s
}

// TestHangingForcedMovesDelayNothing has writes of overdue objects time out.
func TestHangingForcedMovesDelayNothing(t *testing.T) {
	s := overdue(200)
	s.api.patchFails = func(ctx context.Context, resource, _ string) error {
		if resource != "configmaps" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
	s.run(t, 5*time.Minute, func() {
		s.api.create("services", "late", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.api.label("services", "late", shardLabel) == "" {
			t.Error("another kind was delayed")
		}
	})
}

// TestRefusedForcedMovesBackOff has a policy refuse to move overdue objects.
func TestRefusedForcedMovesBackOff(t *testing.T) {
	const n = 200
	s := overdue(n)
	s.api.patchFails = func(_ context.Context, resource, name string) error {
		if resource == "configmaps" {
			return forbidden(resource, name)
		}
		return nil
	}
	s.run(t, time.Hour, func() {
		_, patches := s.api.requests()
		t.Logf("%d patches, %d log lines", patches["configmaps"], s.logged.Load())
		if patches["configmaps"] > 40*n || s.logged.Load() > 200 {
			t.Errorf("%d patches of %d objects and %d log lines in an hour", patches["configmaps"], n, s.logged.Load())
		}
	})
}

// TestFailedSweepIsRepeated has one page of the first sweep fail.
func TestFailedSweepIsRepeated(t *testing.T) {
	s := newSimulation()
	for i := range 50 * 500 {
		s.api.create("secrets", fmt.Sprintf("foreign-%05d", i), nil)
	}
	s.api.create("configmaps", "parent", map[string]string{shardLabel: "a"})
	s.api.create("secrets", "zzz", nil, controlledBy("parent"))
	var failed atomic.Bool
	s.api.listFails = func(resource string, options metav1.ListOptions) error {
		if resource == "secrets" && strings.HasPrefix(options.Continue, "foreign-2") && !failed.Swap(true) {
			return errors.New("internal error")
		}
		return nil
	}
	s.run(t, 30*time.Second, func() {
		if progress := s.progress.Load(); progress == nil || progress.Err == nil {
			t.Error("the failure is not reported")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.api.label("secrets", "zzz", shardLabel) == "" {
			t.Error("the child behind that page was not found")
		}
		if err := s.progress.Load().Err; err != nil {
			t.Errorf("still reported: %v", err)
		}
	})
}

// TestRefusedObjectCausesNoSweeps has an unassigned object that stays so. It does not indicate an outage of the webhook.
func TestRefusedObjectCausesNoSweeps(t *testing.T) {
	s := newSimulation()
	for i := range 50 * 500 {
		s.api.create("secrets", fmt.Sprintf("foreign-%05d", i), nil)
	}
	s.api.create("configmaps", "refused", nil)
	s.api.patchFails = func(_ context.Context, resource, name string) error { return forbidden(resource, name) }
	s.run(t, 5*time.Minute, func() {
		before, _ := s.api.requests()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if after, _ := s.api.requests(); after["secrets"]-before["secrets"] > 50 {
			t.Errorf("%d lists of the controlled kind", after["secrets"]-before["secrets"])
		}
	})
}

// TestControlledKindsAreNotRescuedAtRest counts lists of a controlled kind while the members stay the same: those of sweeps,
// one a minute here, and of resyncs.
func TestControlledKindsAreNotRescuedAtRest(t *testing.T) {
	s := newSimulation()
	s.run(t, time.Minute, func() {
		before, _ := s.api.requests()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		after, _ := s.api.requests()
		if n := after["secrets"] - before["secrets"]; n > 20 {
			t.Errorf("%d lists in 10 minutes", n)
		}
		if n := after["configmaps"] - before["configmaps"]; n < 20 {
			t.Errorf("only %d lists of the main kind in 10 minutes", n)
		}
	})
}
