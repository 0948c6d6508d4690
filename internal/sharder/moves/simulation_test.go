package moves_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

const simulated = "simulated" // the ring

// simulation is a mover in fake time, with an API server in memory. Main objects are ConfigMaps, with Secrets as children,
// and Services beside them.
type simulation struct {
	api      *fakeAPI
	mu       sync.Mutex // for the members, where they change
	members  *ring.Ring
	changed  chan struct{} // made in the bubble
	holders  func() (map[string]bool, error)
	progress atomic.Pointer[moves.Progress]
	logged   atomic.Int64
	rings    catalog.Catalog
	requests chan struct{} // made in the bubble
}

func (s *simulation) Ring(string) (*ring.Ring, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members, s.changed
}

func newSimulation() *simulation {
	s := &simulation{
		api: newFakeAPI(), members: ring.New([]string{"a", "b"}),
		holders: func() (map[string]bool, error) { return nil, nil },
	}
	s.rings.Set(&catalog.Ring{Name: simulated, Namespaces: labels.Everything(), Resources: []catalog.Resource{
		{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: configMaps},
		{
			Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Controllers: []catalog.Kind{configMaps},
			Kind: catalog.Kind{GroupKind: schema.GroupKind{Kind: "Secret"}, Namespaced: true},
		},
		{
			Resource: corev1.SchemeGroupVersion.WithResource("services"),
			Kind:     catalog.Kind{GroupKind: schema.GroupKind{Kind: "Service"}, Namespaced: true},
		},
	}})
	return s
}

// run runs the mover for a time, in a bubble of fake time, and then calls check.
func (s *simulation) run(t *testing.T, duration time.Duration, check func()) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ctx = logf.IntoContext(ctx, s.logger(t))
		s.requests, s.changed = make(chan struct{}, 1), make(chan struct{})
		mover := moves.New(moves.Options{
			Metadata: s.api, Rings: &s.rings, Members: s,
			Holders: func(context.Context, string) (map[string]bool, error) { return s.holders() },
			Selects: func(*catalog.Ring, string) bool { return true },
			OnWrite: func(string, schema.GroupResource, assignment.Action, time.Duration) {},
			OnSynced: func(_ string, counts moves.Counts, err error) {
				s.progress.Store(&moves.Progress{Synced: true, Counts: counts, Err: err})
			},
			OnDrained:  func(string, moves.DrainReport) {},
			SyncPeriod: 5 * time.Minute, ConcurrentMoves: 20, Clock: clock.RealClock{},
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			mover.Run(ctx, simulated, s.requests)
		}()
		time.Sleep(duration)
		synctest.Wait()
		check()
		cancel()
		<-done
	})
}

func (s *simulation) logger(t *testing.T) logr.Logger {
	return funcr.New(func(prefix, args string) {
		if s.logged.Add(1) <= 5 {
			t.Log(prefix, args)
		}
	}, funcr.Options{})
}

func forbidden(resource, name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("a policy refuses it"))
}

var shardLabel = shardingv1alpha1.LabelShard(simulated)

// TestPermanentFailuresAreBounded has every kind of failure last for an hour, and bounds the lists, writes and log
// lines. At rest an hour has 120 rescues and 12 resyncs of two lists each.
func TestPermanentFailuresAreBounded(t *testing.T) {
	const hour = time.Hour
	type bounds struct{ lists, patches, lines int } // of the resource concerned, and of all
	for name, test := range map[string]struct {
		prepare  func(s *simulation)
		resource string
		bounds   bounds
		// healthy is whether the other kinds work as if nothing were wrong.
		healthy bool
		wantErr string
	}{
		"nothing": {
			prepare: func(*simulation) {}, resource: "configmaps", bounds: bounds{150, 0, 0}, healthy: true,
		},
		"one object is refused": {
			prepare: func(s *simulation) {
				s.api.create("configmaps", "refused", nil)
				s.api.patchFails = func(_ context.Context, resource, name string) error {
					if name == "refused" {
						return forbidden(resource, name)
					}
					return nil
				}
			}, resource: "configmaps", bounds: bounds{150, 40, 2}, healthy: true, wantErr: "configmaps simulation/refused cannot be written",
		},
		"all objects of a kind are refused": {
			prepare: func(s *simulation) {
				for i := range 2000 {
					s.api.create("configmaps", fmt.Sprintf("refused-%d", i), nil)
				}
				s.api.patchFails = func(_ context.Context, resource, name string) error {
					if resource == "configmaps" {
						return forbidden(resource, name)
					}
					return nil
				}
			}, resource: "configmaps", bounds: bounds{750, 22000, 200}, healthy: true, wantErr: "cannot be written, among them",
		},
		"writes hang": {
			prepare: func(s *simulation) {
				for i := range 100 {
					s.api.create("configmaps", fmt.Sprintf("hangs-%d", i), nil)
				}
				s.api.patchFails = func(ctx context.Context, resource, _ string) error {
					if resource != "configmaps" {
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
			}, resource: "configmaps", bounds: bounds{150, 4000, 200}, healthy: true, wantErr: "deadline exceeded",
		},
		"others write an object all the time": {
			prepare: func(s *simulation) {
				s.api.create("configmaps", "contended", nil)
				s.api.patchFails = func(_ context.Context, resource, name string) error {
					if name == "contended" {
						return apierrors.NewConflict(schema.GroupResource{Resource: resource}, name, errors.New("written"))
					}
					return nil
				}
			}, resource: "configmaps", bounds: bounds{400, 200, 2}, healthy: true, wantErr: "other clients keep changing the object",
		},
		"a kind cannot be listed": {
			prepare: func(s *simulation) {
				s.api.listFails = func(resource string, _ metav1.ListOptions) error {
					if resource == "configmaps" {
						return forbidden(resource, "")
					}
					return nil
				}
			}, resource: "configmaps", bounds: bounds{150, 0, 80}, healthy: true, wantErr: "listing configmaps",
		},
		"nothing can be listed": {
			prepare: func(s *simulation) {
				s.api.listFails = func(resource string, _ metav1.ListOptions) error { return forbidden(resource, "") }
			}, resource: "secrets", bounds: bounds{150, 0, 240}, wantErr: "listing services",
		},
		"a list expires in the middle, without a token to continue": {
			prepare: func(s *simulation) {
				for i := range 1100 {
					s.api.create("configmaps", fmt.Sprintf("object-%d", i), map[string]string{shardLabel: s.members.Owner(assignment.Key(configMaps.GroupKind, "simulation", fmt.Sprintf("object-%d", i)))})
				}
				s.api.listFails = func(_ string, options metav1.ListOptions) error {
					if options.Continue != "" {
						return apierrors.NewResourceExpired("compacted")
					}
					return nil
				}
			}, resource: "configmaps", bounds: bounds{300, 0, 80}, healthy: true, wantErr: "compacted",
		},
		"leases cannot be listed": {
			prepare: func(s *simulation) {
				s.api.create("configmaps", "orphaned", map[string]string{shardLabel: "dead"})
				s.holders = func() (map[string]bool, error) { return nil, errors.New("leases cannot be listed") }
			}, resource: "configmaps", bounds: bounds{200, 0, 80}, healthy: true, wantErr: "leases cannot be listed",
		},
		"a drain is never acknowledged": {
			prepare: func(s *simulation) {
				s.api.create("configmaps", "stuck", map[string]string{shardLabel: s.wrongShard("stuck")})
			}, resource: "configmaps", bounds: bounds{300, 1, 0}, healthy: true,
		},
		"an owner cannot be located": {
			prepare: func(s *simulation) {
				s.api.create("secrets", "child", map[string]string{shardLabel: s.wrongShard("parent")}, metav1.OwnerReference{
					APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "parent", Controller: new(true),
				})
				s.api.listFails = func(resource string, options metav1.ListOptions) error {
					if options.FieldSelector != "" {
						return forbidden(resource, "")
					}
					return nil
				}
			}, resource: "configmaps", bounds: bounds{300, 0, 80}, healthy: true, wantErr: "locating the controller",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation()
			test.prepare(s)
			s.run(t, hour, func() {
				lists, patches := s.api.requests()
				logged := s.logged.Load()
				t.Logf("in an hour: %d lists of %s, %d patches, %d log lines", lists[test.resource], test.resource, patches[test.resource], logged)
				if lists[test.resource] > test.bounds.lists || patches[test.resource] > test.bounds.patches || int(logged) > test.bounds.lines {
					t.Errorf("more than %+v", test.bounds)
				}
				if test.healthy {
					s.api.create("services", "late", nil)
					time.Sleep(time.Minute) // the period of rescues, and one pass with writes that time out
					synctest.Wait()
					if s.api.label("services", "late", shardLabel) == "" {
						t.Error("another kind was delayed")
					}
				}
				err := ""
				if progress := s.progress.Load(); progress == nil {
					t.Fatal("nothing was reported")
				} else if progress.Err != nil {
					err = progress.Err.Error()
				}
				if !strings.Contains(err, test.wantErr) || test.wantErr == "" && err != "" {
					t.Errorf("reported %q, want %q", err, test.wantErr)
				}
			})
		})
	}
}

// wrongShard is a member that does not own a ConfigMap by the ring.
func (s *simulation) wrongShard(name string) string {
	if s.members.Owner(assignment.Key(configMaps.GroupKind, "simulation", name)) == "a" {
		return "b"
	}
	return "a"
}

// TestExpiredListIsResumed has every page after the first expire. The API server returns a token to continue with, so all objects
// are listed, and each page is requested at most twice.
func TestExpiredListIsResumed(t *testing.T) {
	s := newSimulation()
	const n = 1700
	for i := range n {
		s.api.create("configmaps", fmt.Sprintf("object-%d", i), nil)
	}
	s.api.listFails = func(_ string, options metav1.ListOptions) error {
		if options.Continue == "" || strings.HasPrefix(options.Continue, "fresh:") {
			return nil
		}
		expired := apierrors.NewResourceExpired("the continue token is too old")
		expired.ErrStatus.Continue = "fresh:" + options.Continue
		return expired
	}
	s.run(t, time.Second, func() {
		for i := range n {
			if s.api.label("configmaps", fmt.Sprintf("object-%d", i), shardLabel) == "" {
				t.Fatalf("object-%d was not assigned", i)
			}
		}
		if lists, _ := s.api.requests(); lists["configmaps"] > 20 {
			t.Errorf("%d lists", lists["configmaps"])
		}
	})
}

// TestRefusedObjectIsAssignedWhenThePolicyGoes within its backoff.
func TestRefusedObjectIsAssignedWhenThePolicyGoes(t *testing.T) {
	s := newSimulation()
	for _, name := range []string{"refused-1", "refused-2", "refused-3"} {
		s.api.create("configmaps", name, nil)
	}
	var lifted atomic.Bool
	s.api.patchFails = func(_ context.Context, resource, name string) error {
		if lifted.Load() {
			return nil
		}
		return forbidden(resource, name)
	}
	s.run(t, 20*time.Minute, func() {
		if found := s.progress.Load(); found.Counts.Unassigned != 3 || found.Err == nil {
			t.Errorf("before: %d unassigned, %v", found.Counts.Unassigned, found.Err)
		}
		lifted.Store(true)
		time.Sleep(2*time.Minute + 5*time.Second)
		synctest.Wait()
		for _, name := range []string{"refused-1", "refused-2", "refused-3"} {
			if s.api.label("configmaps", name, shardLabel) == "" {
				t.Errorf("%s was not assigned", name)
			}
		}
		if found := s.progress.Load(); found.Counts.Unassigned != 0 || found.Err != nil {
			t.Errorf("after: %d unassigned, %v", found.Counts.Unassigned, found.Err)
		}
	})
}

// TestForeignObjectsOfControlledKindsAreRarelyRead has many Secrets that are not the ring's. After the first sweep they are
// read the more rarely the more there are: a page takes 18 s of the time between two sweeps.
func TestForeignObjectsOfControlledKindsAreRarelyRead(t *testing.T) {
	s := newSimulation()
	const pages = 40
	for i := range pages * 500 {
		s.api.create("secrets", fmt.Sprintf("foreign-%d", i), nil)
	}
	var read atomic.Int64
	s.api.listFails = func(resource string, options metav1.ListOptions) error {
		if selector, err := labels.Parse(options.LabelSelector); err == nil && resource == "secrets" && selector.Matches(labels.Set{}) {
			read.Add(1)
		}
		return nil
	}
	s.run(t, time.Minute, func() {
		first := read.Load()
		if first < pages {
			t.Errorf("%d pages: children that were there before the ring are not found", first)
		}
		time.Sleep(8 * time.Minute)
		synctest.Wait()
		if repeated := read.Load() - first; repeated > 0 {
			t.Errorf("%d lists selected foreign objects while nothing happened", repeated)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if repeated := read.Load() - first; repeated > 300 {
			t.Errorf("%d lists selected foreign objects in an hour", repeated)
		}
	})
}

// TestChildrenThatWebhookMissedAreAssigned creates objects without labels. A main object among them indicates an outage of
// the webhook, which causes a sweep for children.
func TestChildrenThatWebhookMissedAreAssigned(t *testing.T) {
	s := newSimulation()
	s.run(t, 10*time.Minute, func() {
		s.api.create("configmaps", "parent", nil)
		s.api.create("secrets", "child", nil, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "parent", Controller: new(true)})
		s.api.create("secrets", "foreign", nil)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		if parent, child := s.api.label("configmaps", "parent", shardLabel), s.api.label("secrets", "child", shardLabel); parent == "" || child != parent {
			t.Errorf("the parent is assigned to %q, its child to %q", parent, child)
		}
		if s.api.label("secrets", "foreign", shardLabel) != "" {
			t.Error("a foreign object was assigned")
		}
		s.api.create("secrets", "later", nil, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "parent", Controller: new(true)})
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.api.label("secrets", "later", shardLabel) == "" {
			t.Error("a child that nothing revealed was not found by the next sweep")
		}
	})
}

// TestRestartedRingKeepsItsDrains stops a ring and starts it again while its drains are outstanding. The end of the earlier
// worker must not remove the drains of the later one.
func TestRestartedRingKeepsItsDrains(t *testing.T) {
	s := newSimulation()
	for i := range 20 {
		name := fmt.Sprintf("object-%d", i)
		s.api.create("configmaps", name, map[string]string{shardLabel: s.wrongShard(name)})
	}
	synctest.Test(t, func(t *testing.T) {
		var outstanding atomic.Int64
		group := moves.NewGroup(moves.Options{
			Metadata: s.api, Rings: &s.rings, Members: s,
			Holders:  func(context.Context, string) (map[string]bool, error) { return nil, nil },
			Selects:  func(*catalog.Ring, string) bool { return true },
			OnWrite:  func(string, schema.GroupResource, assignment.Action, time.Duration) {},
			OnSynced: func(string, moves.Counts, error) {},
			OnDrained: func(_ string, report moves.DrainReport) {
				outstanding.Store(int64(report.Outstanding))
			},
			SyncPeriod: 5 * time.Minute, ConcurrentMoves: 20, Clock: clock.RealClock{},
		}, func(string) {})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- group.Start(ctx) }()
		for i := range 5 {
			group.Ensure(simulated, "", int64(i), 3)
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := outstanding.Load(); n != 20 {
				t.Errorf("%d of 20 drains are known", n)
			}
			group.Stop(simulated)
			outstanding.Store(0)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestOneFailingForcedMoveDoesNotStopTheOthers has drains that exceed their timeout, and an object that cannot be moved.
func TestOneFailingForcedMoveDoesNotStopTheOthers(t *testing.T) {
	s := newSimulation()
	declared := *s.rings.Get(simulated)
	declared.Drain = shardingv1alpha1.DrainPolicy{Timeout: &metav1.Duration{Duration: time.Minute}, OnTimeout: shardingv1alpha1.DrainMove}
	s.rings.Set(&declared)
	const n = 10
	for i := range n {
		name := fmt.Sprintf("object-%d", i)
		s.api.create("configmaps", name, map[string]string{shardLabel: s.wrongShard(name), shardingv1alpha1.LabelDrain(simulated): "true"})
	}
	s.api.patchFails = func(_ context.Context, resource, name string) error {
		if name == "object-0" {
			return forbidden(resource, name)
		}
		return nil
	}
	s.run(t, 2*time.Minute, func() {
		for i := range n {
			name := fmt.Sprintf("object-%d", i)
			if moved := s.api.label("configmaps", name, shardLabel) != s.wrongShard(name); moved == (i == 0) {
				t.Errorf("%s was moved: %t", name, moved)
			}
		}
		if _, patches := s.api.requests(); patches["configmaps"] > 2*n {
			t.Errorf("%d writes for %d objects", patches["configmaps"], n)
		}
	})
}

// TestResourceThatLeftTheRingIsNotReported has a kind that cannot be listed, and is then taken out of the ring's spec.
func TestResourceThatLeftTheRingIsNotReported(t *testing.T) {
	s := newSimulation()
	s.api.listFails = func(resource string, _ metav1.ListOptions) error {
		if resource == "services" {
			return forbidden(resource, "")
		}
		return nil
	}
	s.run(t, 10*time.Minute, func() {
		if s.progress.Load().Err == nil {
			t.Error("it is not reported")
		}
		declared := *s.rings.Get(simulated)
		declared.Resources = declared.Resources[:2]
		s.rings.Set(&declared)
		s.requests <- struct{}{}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := s.progress.Load().Err; err != nil {
			t.Errorf("it is still reported: %v", err)
		}
	})
}
