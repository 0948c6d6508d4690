package moves_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

var drainLabel = shardingv1alpha1.LabelDrain(simulated)

// setMembers changes the members.
func (s *simulation) setMembers(members ring.Members) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = ring.Of(members)
	close(s.changed)
	s.changed = make(chan struct{})
}

// owners creates objects with a child each where they belong, and returns the shards of the objects.
func (s *simulation) owners(n int) map[string]string {
	owners := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("object-%d", i)
		owners[name] = s.members.Owner(assignment.Key(configMaps.GroupKind, "simulation", name))
		s.api.create("configmaps", name, map[string]string{shardLabel: owners[name]})
		s.api.create("secrets", "child-of-"+name, map[string]string{shardLabel: owners[name]}, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID("configmaps/" + name), Controller: new(true),
		})
	}
	return owners
}

// TestCordonedShardIsDrained cordons a shard of a ring at rest, also while another one leaves. Its objects are drained at
// once, and not reassigned before it has released them or died.
func TestCordonedShardIsDrained(t *testing.T) {
	for name, leaving := range map[string][]string{"at rest": nil, "while another shard leaves": {"l"}} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation()
			s.members = ring.New([]string{"a", "b", "c", "l"})
			before := s.owners(100)
			s.run(t, time.Minute, func() {
				if _, patches := s.api.requests(); patches["configmaps"] != 0 {
					t.Fatal("all objects are where they belong")
				}
				shards := []string{"a", "b"}
				if leaving == nil {
					shards = append(shards, "l")
				}
				s.setMembers(ring.Members{Shards: shards, Leaving: leaving, Cordoned: []string{"c"}})
				time.Sleep(time.Second)
				synctest.Wait()
				asked := 0
				for object, owner := range before {
					if got := s.api.label("configmaps", object, shardLabel); got != owner {
						t.Errorf("%s was taken from %s, which is alive, by %s", object, owner, got)
					}
					if got := s.api.label("secrets", "child-of-"+object, shardLabel); got != owner {
						t.Errorf("a child was taken from %s by %s", owner, got)
					}
					to := s.api.label("configmaps", object, drainLabel)
					if want := owner == "c"; (to != "") != want || want && to != s.members.Owner(assignment.Key(configMaps.GroupKind, "simulation", object)) {
						t.Errorf("%s of %s is drained to %q", object, owner, to)
					}
					if to != "" {
						asked++
					}
				}
				t.Logf("%d objects are drained", asked)
				s.setMembers(ring.Members{Shards: shards, Leaving: leaving}) // it dies
				time.Sleep(time.Second)
				synctest.Wait()
				for object, owner := range before {
					got := s.api.label("configmaps", object, shardLabel)
					if got != owner && owner != "c" || got == "c" || s.api.label("configmaps", object, drainLabel) != "" {
						t.Errorf("%s of %s is with %s", object, owner, got)
					}
				}
			})
		})
	}
}

// TestEmptyCordonedShardCostsNothing has a departure while a shard is cordoned that has released all its objects: as without
// it, only the objects of the departed shard are listed.
func TestEmptyCordonedShardCostsNothing(t *testing.T) {
	lists := func(cordoned ...string) (n int) {
		s := newSimulation()
		s.members = ring.Of(ring.Members{Shards: []string{"a", "b"}, Cordoned: cordoned})
		s.owners(100)
		s.run(t, time.Minute, func() {
			before, _ := s.api.requests()
			s.setMembers(ring.Members{Shards: []string{"a"}, Cordoned: cordoned})
			time.Sleep(time.Second)
			synctest.Wait()
			after, _ := s.api.requests()
			n = after["configmaps"] - before["configmaps"]
		})
		return n
	}
	if with, without := lists("c"), lists(); with != without {
		t.Errorf("%d lists with a cordoned shard, %d without", with, without)
	}
}

// TestCordonedShardsKeepObjectsWithoutOtherShard has no shard to move objects to.
func TestCordonedShardsKeepObjectsWithoutOtherShard(t *testing.T) {
	s := newSimulation()
	s.members = ring.New([]string{"a", "b"})
	before := s.owners(20)
	s.members = ring.Of(ring.Members{Cordoned: []string{"a", "b"}})
	s.run(t, 10*time.Minute, func() {
		for object, owner := range before {
			if got := s.api.label("configmaps", object, shardLabel); got != owner || s.api.label("configmaps", object, drainLabel) != "" {
				t.Errorf("%s of %s is with %s", object, owner, got)
			}
		}
	})
}
