package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

func TestLabelSince(t *testing.T) {
	applied := written(website("a", "x"), "kubectl", time.Minute, byUs("app"))
	applied.CreationTimestamp = *before(time.Hour)
	shard, drain := shardingv1alpha1.LabelShard("ring"), shardingv1alpha1.LabelDrain("ring")
	for name, test := range map[string]struct {
		object *metav1.PartialObjectMetadata
		since  *metav1.Time
		exact  bool
	}{
		"no managed fields":         {website("a", "x"), nil, false},
		"by a shard":                {written(website("a", "x"), "shard", time.Minute, byUs(shard)), before(time.Minute), true},
		"of another ring":           {written(website("a", "x"), "shard", time.Minute, byUs(shard+"-2")), nil, false},
		"at creation":               {written(website("a", "x"), "kubectl", time.Minute, `{"f:metadata":{"f:labels":{"f:`+shard+`":{}}},"f:spec":{"f:theme":{}}}`), before(time.Minute), false},
		"at creation, by admission": {applied, before(time.Hour), true},
		"with an annotation":        {written(website("a", "x"), "m", time.Minute, `{"f:metadata":{"f:labels":{"f:`+shard+`":{}},"f:annotations":{}}}`), before(time.Minute), false},
		"before the drain":          {written(website("a", "x", "y"), "sharder", time.Minute, byUs(shard, drain)), before(time.Minute), false},
		"by another manager":        {written(written(website("a", "x"), "m", time.Second, byUs("app")), "sharder", time.Hour, byUs(shard)), before(time.Hour), true},
		"by two managers":           {written(written(website("a", "x"), "m", time.Hour, byUs(shard, "app")), "n", time.Minute, byUs(shard)), before(time.Hour), false},
		"invalid fields":            {written(website("a", "x"), "m", time.Hour, "f:metadata"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			since, exact := labelSince(test.object, shard)
			if !since.Equal(test.since) || exact != test.exact {
				t.Errorf("since %v, exact %t; want %v, %t", since, exact, test.since, test.exact)
			}
		})
	}
}
