package members_test

import (
	"testing"
	"time"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestChangedResourcesAreReported has a shard that declares resources, renews its Lease, and declares others.
func TestChangedResourcesAreReported(t *testing.T) {
	f, reported := newFixture(), 0
	f.ResourcesChanged = func(string) { reported++ }
	f.Declare("ring", nil)
	for i, test := range []struct {
		resources string
		reported  int
	}{{"", 0}, {"[]", 1}, {"[]", 1}, {"[{}]", 2}, {"[{}]", 2}, {"", 3}} {
		l := lease("default", "a", "a", start.Add(time.Duration(i)*time.Second))
		l.Annotations = map[string]string{shardingv1alpha1.AnnotationResources: test.resources}
		f.Observe(l)
		if shard, _ := f.Shard(key(l)); shard.Resources != test.resources || reported != test.reported {
			t.Errorf("write %d: it has declared %q, which was reported %d times", i, shard.Resources, reported)
		}
	}
}
