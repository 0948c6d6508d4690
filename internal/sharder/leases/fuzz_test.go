package leases_test

import (
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ringmaster-project/ringmaster/internal/sharder/leases"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// FuzzLease observes any two versions of a Lease, which any client may have written. Only a Lease that its shard holds
// makes a member.
func FuzzLease(f *testing.F) {
	for _, seed := range []string{
		"{}", `{"metadata":{"name":"a","namespace":"n","labels":{"alpha.sharding.timebertt.dev/controllerring":"ring"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":15}}`,
		`{"metadata":{"name":"a","labels":{"alpha.sharding.timebertt.dev/controllerring":"ring"}},"spec":{"holderIdentity":"a","leaseDurationSeconds":-1,"renewTime":"0001-01-01T00:00:00.000000Z"}}`,
		`{"metadata":{"name":"a","annotations":{"ringmaster.sharding.timebertt.dev/leaving":"","ringmaster.sharding.timebertt.dev/resources":"[","ringmaster.sharding.timebertt.dev/pod":"none"}}}`,
		`{"metadata":{"name":"\u0000","labels":{"alpha.sharding.timebertt.dev/controllerring":"ring"}},"spec":{"holderIdentity":"\u0000","leaseDurationSeconds":2147483647}}`,
	} {
		f.Add([]byte(seed), []byte("{}"))
		f.Add([]byte("{}"), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
		tracker := members.New(clock, func(string) {})
		tracker.Declare("ring", nil)
		for _, content := range [][]byte{first, second} {
			lease := &coordinationv1.Lease{}
			if json.Unmarshal(content, lease) != nil {
				continue
			}
			stripped, err := leases.Strip(lease)
			if err != nil {
				t.Fatal(err)
			}
			tracker.Observe(stripped.(*coordinationv1.Lease))
			for _, shard := range tracker.Shards("ring") {
				if shard.State.Member() && shard.Name == lease.Name && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != lease.Name) {
					t.Errorf("the Lease of shard %q makes a member: %s", shard.Name, content)
				}
			}
			clock.SetTime(clock.Now().Add(time.Minute))
			tracker.Forget(types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name})
		}
	})
}
