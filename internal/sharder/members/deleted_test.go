package members_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// stopsAfter is when a shard has stopped after its last renewal.
const stopsAfter = membership.DefaultDuration + membership.DefaultDuration/10

// has compares the members of a ring.
func (f *timedTracker) has(when, name string, want ring.Members) {
	f.t.Helper()
	synctest.Wait()
	current, _ := f.Ring(name)
	got := ring.Members{Shards: current.Shards(), Cordoned: current.CordonedShards()}
	for _, member := range current.Members() {
		if current.IsLeaving(member) {
			got.Leaving = append(got.Leaving, member)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		f.t.Errorf("%s:\n%s", when, diff)
	}
}

// TestShardOfDeletedLeaseStaysMemberUntilStopped deletes the Lease of a shard that holds it: the shard stays a member until it has stopped for certain,
// and gets nothing more.
func TestShardOfDeletedLeaseStaysMemberUntilStopped(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		a, b := created("default", "a", 0, "a"), created("default", "b", 1, "b")
		f.ObserveListed(a)
		f.ObserveListed(b)
		time.Sleep(5 * time.Second)
		b.Spec.RenewTime.Time = start.Add(5 * time.Second)
		f.Observe(b)
		time.Sleep(2 * time.Second)
		f.Forget(key(b))
		waiting := ring.Members{Shards: []string{"a"}, Leaving: []string{"b"}}
		f.has("deleted", "ring", waiting)
		if holders := f.Holders("ring", []coordinationv1.Lease{*a}); !holders["b"] {
			t.Errorf("the holders are %v: b may still work", holders)
		}
		time.Sleep(stopsAfter - 2*time.Second - time.Millisecond)
		f.has("not yet stopped for certain", "ring", waiting)
		a.Spec.RenewTime.Time = start.Add(time.Hour)
		f.Observe(a)
		time.Sleep(time.Millisecond)
		f.has("stopped", "ring", ring.Members{Shards: []string{"a"}})
		if holders := f.Holders("ring", []coordinationv1.Lease{*a}); holders["b"] {
			t.Errorf("the holders are %v", holders)
		}
	})
}

// TestDeletedLeaseOfNonMemberChangesNothing and starts no timer.
func TestDeletedLeaseOfNonMemberChangesNothing(t *testing.T) {
	taken := created("default", "b", 1, "b")
	taken.Spec.HolderIdentity = new(shardingv1alpha1.IdentityShardLeaseController)
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		after time.Duration
	}{
		"released":                    {released(created("default", "b", 1, "b")), 0},
		"taken over":                  {taken, 0},
		"of a ring that is not there": {lease("default", "b", "b", start), 0},
		"silent for long":             {created("default", "b", 1, "b"), stopsAfter},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *timedTracker) {
				f.ObserveListed(created("default", "a", 0, "a"))
				if name == "of a ring that is not there" {
					test.lease.Labels[shardingv1alpha1.LabelControllerRing] = "other"
				} else {
					f.ObserveListed(created("default", "b", 1, "b"))
				}
				f.Observe(test.lease)
				time.Sleep(test.after)
				f.Observe(lease("default", "a", "a", start.Add(time.Hour))) // it renews
				f.Forget(key(test.lease))
				f.has("deleted", "ring", ring.Members{Shards: []string{"a"}})
				f.Declare("other", nil)
				f.has("deleted", "other", ring.Members{})
			})
		})
	}
}

// TestRestoredLeaseKeepsMembership restores the Lease of a shard in time, or another process of its name makes one.
func TestRestoredLeaseKeepsMembership(t *testing.T) {
	for name, restored := range map[string]*coordinationv1.Lease{
		"the label was removed, and is there again": created("default", "b", 1, "b"),
		"another process of that name":              created("default", "b", 9, "another"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *timedTracker) {
				f.ObserveListed(created("default", "a", 0, "a"))
				f.ObserveListed(created("default", "b", 1, "b"))
				f.Forget(key(restored))
				f.has("gone", "ring", ring.Members{Shards: []string{"a"}, Leaving: []string{"b"}})
				time.Sleep(2 * time.Second)
				f.Observe(restored)
				f.has("back", "ring", ring.Members{Shards: []string{"a", "b"}})
				time.Sleep(time.Minute)
				f.has("later", "ring", ring.Members{Shards: []string{"a", "b"}})
			})
		})
	}
}

// TestLeaseChangesItsRing has a shard that works for a ring while its Lease names another one.
func TestLeaseChangesItsRing(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		f.Declare("other", nil)
		f.ObserveListed(created("default", "a", 0, "a"))
		f.ObserveListed(created("default", "b", 1, "b"))
		moved := created("default", "b", 1, "b")
		moved.Labels[shardingv1alpha1.LabelControllerRing] = "other"
		f.Observe(moved)
		f.has("moved", "ring", ring.Members{Shards: []string{"a"}, Leaving: []string{"b"}})
		f.has("moved", "other", ring.Members{Shards: []string{"b"}})
		f.Observe(created("default", "b", 1, "b")) // its next renewal
		f.has("back", "ring", ring.Members{Shards: []string{"a", "b"}})
		f.has("back", "other", ring.Members{Leaving: []string{"b"}})
		time.Sleep(stopsAfter)
		f.has("later", "ring", ring.Members{Shards: []string{"a", "b"}})
		f.has("later", "other", ring.Members{})
	})
}

// TestDeletedShardKeepsItsName until it has stopped: a shard of the same name elsewhere would work on the same objects.
func TestDeletedShardKeepsItsName(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		incumbent, newcomer := created("old", "r-0", 0, "a"), created("new", "r-0", 1, "b")
		f.ObserveListed(incumbent)
		f.ObserveListed(newcomer)
		f.Forget(key(incumbent))
		f.has("deleted", "ring", ring.Members{Leaving: []string{"r-0"}})
		if why := f.Refusal(key(newcomer)); why != members.NameTaken {
			t.Errorf("the newcomer is refused because of %q", why)
		}
		time.Sleep(stopsAfter - time.Second)
		newcomer.Spec.RenewTime.Time = start.Add(time.Hour)
		f.Observe(newcomer)
		time.Sleep(time.Second)
		f.has("stopped", "ring", ring.Members{Shards: []string{"r-0"}})
	})
}

// TestDeletedLeaseOfCordonedShard has another process of its name, which the ring does not take.
func TestDeletedLeaseOfCordonedShard(t *testing.T) {
	inBubble(t, func(f *timedTracker) {
		f.ObserveListed(created("new", "a", 0, "a"))
		f.ObserveListed(created("old", "b", 1, "b"))
		f.Declare("ring", []string{"new"})
		f.has("cordoned", "ring", ring.Members{Shards: []string{"a"}, Cordoned: []string{"b"}})
		restored := created("old", "b", 9, "another")
		f.Forget(key(restored))
		f.Observe(restored)
		f.has("deleted", "ring", ring.Members{Shards: []string{"a"}, Leaving: []string{"b"}})
		if why := f.Refusal(key(restored)); why != members.WrongNamespace {
			t.Errorf("the other process is refused because of %q", why)
		}
		f.Forget(key(restored))
		time.Sleep(stopsAfter - time.Second)
		renewed := created("new", "a", 0, "a")
		renewed.Spec.RenewTime.Time = start.Add(time.Hour)
		f.Observe(renewed)
		time.Sleep(time.Second)
		f.has("stopped", "ring", ring.Members{Shards: []string{"a"}})
	})
}
