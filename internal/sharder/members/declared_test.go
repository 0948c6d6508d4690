package members_test

import (
	"testing"
	"time"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// TestDeclarationIsTold has a shard that declares resources, renews its Lease, and declares others.
func TestDeclarationIsTold(t *testing.T) {
	f, told := newFixture(), 0
	f.Redeclared = func(string) { told++ }
	f.Declare("ring", nil)
	for i, test := range []struct {
		resources string
		told      int
	}{{"", 0}, {"[]", 1}, {"[]", 1}, {"[{}]", 2}, {"[{}]", 2}, {"", 3}} {
		made := lease("default", "a", "a", start.Add(time.Duration(i)*time.Second))
		made.Annotations = map[string]string{shardingv1alpha1.AnnotationResources: test.resources}
		f.Observe(made)
		if shard, _ := f.Shard(key(made)); shard.Resources != test.resources || told != test.told {
			t.Errorf("write %d: it has declared %q, which was told %d times", i, shard.Resources, told)
		}
	}
}
