package rings

import (
	"testing"
	"unicode/utf8"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// FuzzResources compares a ring with any declaration of resources on a Lease. The message fits into an event.
func FuzzResources(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "[", "null", `[{"resource":"configmaps"}]`, `[{"group":"apps","resource":"deployments","controlledResources":[{"resource":"secrets"},{}]}]`,
		`[{"resource":"\u0000"}]`, `[{"resource":"a","controlledResources":null}]`,
	} {
		f.Add(seed)
	}
	listed := []shardingv1alpha1.RingResource{{
		GroupResource:       shardingv1alpha1.GroupResource{Resource: "configmaps"},
		ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "secrets"}},
	}}
	f.Fuzz(func(t *testing.T, declared string) {
		shards := []members.Shard{{Name: "a", State: membership.Ready, Resources: declared, Pod: declared}}
		for _, found := range differences(listed, shards) {
			if found.String() == "" {
				t.Error("a difference without a text")
			}
		}
		if condition := matchingCondition(differences(listed, shards)); condition != nil && (len(condition.Message) > maxEventNote || !utf8.ValidString(condition.Message)) {
			t.Errorf("the message has %d bytes: %q", len(condition.Message), condition.Message)
		}
		if names := unboundShards(shards); len(names) > 1 {
			t.Errorf("one shard is reported as %q", names)
		}
	})
}
