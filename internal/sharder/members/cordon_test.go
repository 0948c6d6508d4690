package members_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// expectMembers compares the members of the ring.
func (f *fixture) expectMembers(t *testing.T, when string, want ring.Members) {
	t.Helper()
	current, _ := f.Ring("ring")
	got := ring.Members{Shards: current.Shards(), Cordoned: current.CordonedShards()}
	for _, member := range current.Members() {
		if current.IsLeaving(member) {
			got.Leaving = append(got.Leaving, member)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s:\n%s", when, diff)
	}
}

func key(lease *coordinationv1.Lease) types.NamespacedName {
	return types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
}

// TestExcludedMembersAreCordoned takes namespaces from a ring. A member stays one until it releases its Lease;
// others do not become members.
func TestExcludedMembersAreCordoned(t *testing.T) {
	f := newFixture()
	a, b, c := created("new", "a", 0, "a"), created("old", "b", 1, "b"), created("old", "c", 2, "c")
	stranger := created("old", "stranger", 3, "s")
	f.Declare("ring", nil)
	for _, lease := range []*coordinationv1.Lease{a, b, c, released(created("old", "absent", 1, "d"))} {
		f.Observe(lease)
	}
	f.expectMembers(t, "all may join", ring.Members{Shards: []string{"a", "b", "c"}})
	_, changed := f.Ring("ring")

	f.Declare("ring", []string{"new"})
	<-changed
	want := ring.Members{Shards: []string{"a"}, Cordoned: []string{"b", "c"}}
	f.expectMembers(t, "only one namespace counts", want)
	f.Observe(stranger)
	f.Observe(created("old", "absent", 1, "d"))
	f.expectMembers(t, "others come from there", want)
	for lease, why := range map[*coordinationv1.Lease]members.Refusal{b: members.NotRefused, stranger: members.WrongNamespace} {
		if got := f.Refusal(key(lease)); got != why {
			t.Errorf("%s is refused because of %q", lease.Name, got)
		}
	}
	if shard, found := f.Shard(key(b)); !found || !shard.Cordoned || shard.State != membership.Ready {
		t.Errorf("b is %+v", shard)
	}
	holders := f.Holders("ring", []coordinationv1.Lease{*a, *b, *c, *stranger, *created("old", "b", 50, "another b")})
	if diff := cmp.Diff(map[string]bool{"a": true, "b": true, "c": true}, holders); diff != "" {
		t.Errorf("holders:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"new", "old"}, f.Namespaces("ring")); diff != "" {
		t.Error(diff)
	}

	renewed := created("old", "b", 1, "b")
	renewed.Spec.RenewTime.Time = start.Add(membership.DefaultDuration)
	f.Observe(renewed)
	f.expectMembers(t, "b renews", want)
	renewed.Annotations = map[string]string{shardingv1alpha1.AnnotationLeaving: "true"}
	f.Observe(renewed)
	f.expectMembers(t, "b is reported to stop", ring.Members{Shards: []string{"a"}, Leaving: []string{"b"}, Cordoned: []string{"c"}})
	f.Observe(released(created("old", "b", 1, "b")))
	want = ring.Members{Shards: []string{"a"}, Cordoned: []string{"c"}}
	f.expectMembers(t, "b has left", want)
	f.Observe(created("old", "b", 1, "b"))
	f.expectMembers(t, "b is started again", want)
	if why := f.Refusal(key(b)); why != members.WrongNamespace {
		t.Errorf("b is refused because of %q", why)
	}

	f.Declare("ring", []string{"newer"})
	f.expectMembers(t, "no namespace has a shard", ring.Members{Cordoned: []string{"a", "c"}})
	f.Declare("ring", []string{"new", "newer"})
	f.expectMembers(t, "a may join again", ring.Members{Shards: []string{"a"}, Cordoned: []string{"c"}})
	f.Declare("ring", nil)
	f.expectMembers(t, "all may", ring.Members{Shards: []string{"a", "absent", "b", "c", "stranger"}})
	if diff := cmp.Diff([]string{members.AllNamespaces}, f.Namespaces("ring")); diff != "" {
		t.Error(diff)
	}
	f.Drop("ring")
	f.Declare("ring", []string{"new"})
	f.expectMembers(t, "another ring of that name took shards from there", ring.Members{Shards: []string{"a"}})
}

// TestCordonedShardKeepsItsName moves a ring from one namespace to another, with shards of the same names in both. The one that
// has objects stays, whichever Lease is older.
func TestCordonedShardKeepsItsName(t *testing.T) {
	for name, ages := range map[string][2]int{"the older Lease": {0, 100}, "the newer Lease": {100, 0}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture()
			f.Declare("ring", []string{"old"})
			incumbent, successor := created("old", "r-0", ages[0], "a"), created("new", "r-0", ages[1], "b")
			f.Observe(incumbent)
			f.Observe(successor)
			f.Declare("ring", []string{"new"})
			f.expectMembers(t, "both are alive", ring.Members{Cordoned: []string{"r-0"}})
			if why := f.Refusal(key(successor)); why != members.NameTaken {
				t.Errorf("its successor is refused because of %q", why)
			}
			if namespace, _ := f.Incumbent(key(successor)); namespace != "old" {
				t.Errorf("its name is taken in %q", namespace)
			}
			f.Observe(released(incumbent))
			f.expectMembers(t, "it has left", ring.Members{Shards: []string{"r-0"}})
		})
	}
}

// TestRecordDecidesWhichShardsWereMembers for a sharder that starts after a ring has changed, whatever the Leases say.
func TestRecordDecidesWhichShardsWereMembers(t *testing.T) {
	forged := created("foreign", "f", 0, "f")
	forged.Labels[shardingv1alpha1.LabelState] = string(membership.Ready)
	leases := []*coordinationv1.Lease{created("new", "a", 0, "a"), created("old", "b", 1, "b"), forged, released(created("old", "gone", 1, "g"))}
	for name, test := range map[string]struct {
		recorded []string
		want     ring.Members
	}{
		"nothing is recorded":            {nil, ring.Members{Shards: []string{"a"}}},
		"the same as declared":           {[]string{"new"}, ring.Members{Shards: []string{"a"}}},
		"another namespace":              {[]string{"old"}, ring.Members{Shards: []string{"a"}, Cordoned: []string{"b"}}},
		"one more namespace":             {[]string{"new", "old"}, ring.Members{Shards: []string{"a"}, Cordoned: []string{"b"}}},
		"it took shards from everywhere": {[]string{"*"}, ring.Members{Shards: []string{"a"}, Cordoned: []string{"b", "f"}}},
	} {
		t.Run(name, func(t *testing.T) {
			for observed := range len(leases) + 1 { // before the ring
				f := newFixture()
				for _, lease := range leases[:observed] {
					f.ObserveListed(lease)
				}
				f.Declare("ring", []string{"new"}, test.recorded...)
				for _, lease := range leases[observed:] {
					f.Observe(lease) // a controller may observe it before the list is delivered
					f.ObserveListed(lease)
				}
				when := fmt.Sprintf("%d leases are seen first", observed)
				f.expectMembers(t, when, test.want)
				f.Observe(created("old", "late", 5, "l")) // it is not listed
				f.expectMembers(t, when+", and one joins", test.want)
				f.Declare("ring", []string{"new"}, members.AllNamespaces) // written meanwhile
				f.expectMembers(t, when+", and the ring is written", test.want)
			}
		})
	}
}

// TestCordonedShardsTakeNoRoom excludes a full ring, and fills it again.
func TestCordonedShardsTakeNoRoom(t *testing.T) {
	f := newFixture()
	f.Declare("ring", []string{"old"})
	for i := range membership.MaxShards {
		f.Observe(created("old", fmt.Sprint("old-", i), 1000+i, ""))
	}
	f.Declare("ring", []string{"new"})
	for i := range membership.MaxShards + 1 {
		f.Observe(created("new", fmt.Sprint("new-", i), i, ""))
	}
	current, _ := f.Ring("ring")
	if len(current.CordonedShards()) != membership.MaxShards || len(current.Shards()) != membership.MaxShards {
		t.Errorf("%d cordoned, %d others", len(current.CordonedShards()), len(current.Shards()))
	}
}
