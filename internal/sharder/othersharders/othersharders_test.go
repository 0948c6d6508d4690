package othersharders_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/othersharders"
)

func lease(holder string, renewed int64) *coordinationv1.Lease {
	seconds, at := int32(10), metav1.NewMicroTime(time.Unix(renewed, 0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ring-sharder", Labels: map[string]string{shardingv1alpha1.LabelSharder: "ring"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
}

func everywhere(string) bool { return true }

// TestSharderInForeignNamespaceIsNotActive observes a Lease in a namespace from which the ring accepts no shards.
func TestSharderInForeignNamespaceIsNotActive(t *testing.T) {
	tracker := othersharders.New(clocktesting.NewFakePassiveClock(time.Now()), func(string) {})
	tracker.Observe(lease("a", 1))
	if active := tracker.Active("ring", func(namespace string) bool { return namespace != "ns" }); active != nil {
		t.Errorf("the sharder in namespace %s is active", active.Namespace)
	}
	if tracker.Active("ring", everywhere) == nil {
		t.Error("no sharder is active")
	}
}

func TestActiveSharderRenewsItsLease(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	var changed []string
	tracker := othersharders.New(clock, func(ring string) { changed = append(changed, ring) })
	expect := func(when, holder string, changes int) {
		t.Helper()
		got := ""
		if sharder := tracker.Active("ring", everywhere); sharder != nil {
			got = sharder.Namespace + "/" + sharder.Holder
		}
		if diff := cmp.Diff(holder, got); diff != "" {
			t.Errorf("%s: sharder (-want +got):\n%s", when, diff)
		}
		if len(changed) != changes {
			t.Errorf("%s: changed was called for %v, want %d calls", when, changed, changes)
		}
		changed = nil
	}
	step := func(by time.Duration) { clock.SetTime(clock.Now().Add(by)) }

	expect("no lease was observed", "", 0)
	tracker.Observe(lease("a", 1))
	expect("one is active", "ns/a", 1)
	step(9 * time.Second)
	tracker.Observe(lease("a", 2))
	expect("it renews", "ns/a", 0)
	step(9 * time.Second)
	tracker.Observe(lease("a", 2))
	expect("observed again, but not renewed", "ns/a", 0)
	step(2 * time.Second)
	expect("it is dead", "", 0)
	tracker.Observe(lease("a", 3))
	expect("it was only slow", "ns/a", 1)
	tracker.Observe(lease("b", 4))
	expect("another one is elected", "ns/b", 1)
	tracker.Observe(lease("", 5))
	expect("it has stopped", "", 1)
	tracker.Observe(lease("b", 6))
	tracker.Forget(types.NamespacedName{Namespace: "ns", Name: "ring-sharder"})
	expect("its lease is gone", "", 2)
	if tracker.Active("other", everywhere) != nil {
		t.Error("another ring has a sharder")
	}
	moved, years := lease("b", 7), int32(1<<31-1)
	moved.Labels[shardingv1alpha1.LabelSharder], moved.Spec.LeaseDurationSeconds = "other", &years
	tracker.Observe(lease("b", 7))
	tracker.Observe(moved)
	expect("it changed its ring", "", 3)
	if sharder := tracker.Active("other", everywhere); sharder == nil || sharder.ExpiresAt.Sub(clock.Now()) > time.Hour {
		t.Errorf("the sharder of the other ring is %v", sharder)
	}
}
