package members_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// created is a held Lease with an age.
func created(namespace, name string, seconds int, uid types.UID) *coordinationv1.Lease {
	l := lease(namespace, name, name, start)
	l.CreationTimestamp, l.UID = metav1.NewTime(start.Add(time.Duration(seconds)*time.Second)), uid
	return l
}

func released(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease.Spec.HolderIdentity = new("")
	return lease
}

// permutations are all orders in which n Leases can be seen.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, shorter := range permutations(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), i, n-1))
		}
	}
	return all
}

// TestIncumbentStays has Leases of one name in several namespaces, seen in all orders: replicas do not see
// Leases in the same order, and one that restarts sees them in any.
func TestIncumbentStays(t *testing.T) {
	for name, test := range map[string]struct {
		leases     []*coordinationv1.Lease
		namespaces []string
		incumbent  string // its namespace
		member     bool
	}{
		"the older one, not the first in the alphabet": {
			leases:    []*coordinationv1.Lease{created("bench", "r-0", 0, "b"), created("aaa", "r-0", 100, "a")},
			incumbent: "bench", member: true,
		},
		"created in the same second": {
			leases:    []*coordinationv1.Lease{created("aaa", "r-0", 0, "b"), created("bench", "r-0", 0, "a")},
			incumbent: "bench", member: true,
		},
		"it restarts, and does not hold its Lease": {
			leases:    []*coordinationv1.Lease{released(created("bench", "r-0", 0, "b")), created("aaa", "r-0", 100, "a")},
			incumbent: "bench",
		},
		"three, two of which hold theirs": {
			leases:    []*coordinationv1.Lease{created("c", "r-0", 7, "b"), released(created("b", "r-0", 5, "b")), created("a", "r-0", 9, "a")},
			incumbent: "b",
		},
		"the oldest is where the ring takes no shards from": {
			leases:     []*coordinationv1.Lease{created("other", "r-0", 0, "a"), created("bench", "r-0", 50, "b"), created("aaa", "r-0", 100, "c")},
			namespaces: []string{"aaa", "bench"}, incumbent: "bench", member: true,
		},
		"the oldest lasts for too long": {
			leases: []*coordinationv1.Lease{lasting(created("bench", "r-0", 0, "a"), 1<<31-1), created("aaa", "r-0", 100, "c")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range permutations(len(test.leases)) {
				f := newFixture()
				f.Declare("ring", test.namespaces)
				listed := make([]coordinationv1.Lease, 0, len(order))
				for _, i := range order {
					f.Observe(test.leases[i])
					listed = append(listed, *test.leases[i])
				}
				var got []string
				for _, lease := range test.leases {
					if _, counts := f.Shard(types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}); counts {
						got = append(got, lease.Namespace)
					}
				}
				var want []string
				if test.incumbent != "" {
					want = []string{test.incumbent}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seen in the order %v:\n%s", order, diff)
				}
				if current, _ := f.Ring("ring"); current.Has("r-0") != test.member {
					t.Fatalf("seen in the order %v: its being a member is %t", order, !test.member)
				}
				// A shard that holds a Lease of the name may still work, also a newcomer that is refused.
				held := slices.ContainsFunc(test.leases, func(lease *coordinationv1.Lease) bool {
					return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == lease.Name
				})
				if holders := f.Holders("ring", listed); holders["r-0"] != held {
					t.Fatalf("seen in the order %v: the holders are %v", order, holders)
				}
			}
		})
	}
}

// TestIncumbentRestarts has two shards of one name, of which the older one restarts.
func TestIncumbentRestarts(t *testing.T) {
	f := newFixture()
	f.Declare("ring", nil)
	incumbent, newcomer := created("bench", "r-0", 0, "b"), created("aaa", "r-0", 100, "a")
	refused := types.NamespacedName{Namespace: "aaa", Name: "r-0"}
	expect := func(when string, why members.Refusal, shards ...string) {
		t.Helper()
		if got := f.Refusal(refused); got != why {
			t.Errorf("%s: the newcomer's refusal is %q, want %q", when, got, why)
		}
		if diff := cmp.Diff(shards, f.shards(t)); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	f.Observe(incumbent)
	f.Observe(newcomer)
	expect("at first", members.NameTaken, "r-0")
	if namespace, found := f.Incumbent(refused); !found || namespace != "bench" {
		t.Errorf("its namesake is in %q", namespace)
	}
	f.Observe(released(incumbent.DeepCopy()))
	expect("the incumbent stops", members.NameTaken)
	f.Observe(incumbent)
	expect("the incumbent is back", members.NameTaken, "r-0")
	f.Forget(types.NamespacedName{Namespace: "bench", Name: "r-0"})
	expect("the incumbent is gone", members.NotRefused, "r-0")
	restored := created("bench", "r-0", 200, "c")
	f.Observe(restored)
	expect("another one where the incumbent was", members.NotRefused, "r-0")
	if why := f.Refusal(types.NamespacedName{Namespace: "bench", Name: "r-0"}); why != members.NameTaken {
		t.Errorf("the name has another owner now, but the refusal is %q", why)
	}
}

func lasting(lease *coordinationv1.Lease, seconds int32) *coordinationv1.Lease {
	lease.Spec.LeaseDurationSeconds = &seconds
	return lease
}

func TestDurationIsCapped(t *testing.T) {
	longest := int32(membership.MaxDuration / time.Second)
	for name, test := range map[string]struct {
		seconds int32
		want    members.Refusal
	}{
		"as usual":    {15, members.NotRefused},
		"the longest": {longest, members.NotRefused},
		"longer":      {longest + 1, members.DurationTooLong},
		"for 68 years": {
			1<<31 - 1, members.DurationTooLong,
		},
		"none":     {0, members.NotRefused},
		"negative": {-1, members.NotRefused},
	} {
		f := newFixture()
		f.Declare("ring", nil)
		f.Observe(lasting(created("default", "a", 0, "a"), test.seconds))
		key := types.NamespacedName{Namespace: "default", Name: "a"}
		_, counts := f.Shard(key)
		if why := f.Refusal(key); why != test.want || counts != (why == members.NotRefused) || counts != (len(f.shards(t)) == 1) {
			t.Errorf("%s: %q; it counts: %t; the shards are %v", name, why, counts, f.shards(t))
		}
		f.Observe(created("default", "a", 0, "a")) // it has learned
		if diff := cmp.Diff([]string{"a"}, f.shards(t)); diff != "" {
			t.Errorf("%s, then 15 s: %s", name, diff)
		}
	}
}

// TestShardsAreCapped has more shards than a ring can have, in any order.
func TestShardsAreCapped(t *testing.T) {
	const extra = 5
	for _, reverse := range []bool{false, true} {
		f := newFixture()
		f.Declare("ring", nil)
		leases := make([]*coordinationv1.Lease, membership.MaxShards+extra)
		for i := range leases {
			leases[i] = created("default", fmt.Sprintf("shard-%d", i), i, "")
		}
		order := slices.Clone(leases)
		if reverse {
			slices.Reverse(order)
		}
		for _, lease := range order {
			f.Observe(lease)
		}
		refusal := func(i int) members.Refusal {
			return f.Refusal(types.NamespacedName{Namespace: "default", Name: leases[i].Name})
		}
		if current, _ := f.Ring("ring"); len(current.Shards()) != membership.MaxShards || len(f.Shards("ring")) != membership.MaxShards {
			t.Fatalf("the ring has %d shards, and %d are shown", len(current.Shards()), len(f.Shards("ring")))
		}
		for i := range leases {
			want := members.NotRefused
			if i >= membership.MaxShards {
				want = members.RingFull
			}
			if got := refusal(i); got != want {
				t.Errorf("the refusal of number %d is %q, want %q", i, got, want)
			}
		}
		f.Observe(released(leases[3].DeepCopy()))
		if refusal(membership.MaxShards) != members.NotRefused || refusal(membership.MaxShards+1) != members.RingFull || refusal(3) != members.NotRefused {
			t.Error("a shard has left, and the oldest of those that wait is not a member")
		}
		if current, _ := f.Ring("ring"); !current.Has(leases[membership.MaxShards].Name) || current.Has(leases[3].Name) {
			t.Error("the ring does not follow")
		}
	}
}
