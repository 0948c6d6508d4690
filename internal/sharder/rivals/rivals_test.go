package rivals_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/rivals"
)

func lease(holder string, renewed int64) *coordinationv1.Lease {
	seconds, at := int32(10), metav1.NewMicroTime(time.Unix(renewed, 0))
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ring-sharder", Labels: map[string]string{shardingv1alpha1.LabelSharder: "ring"}},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at},
	}
}

func TestTracker(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	var told []string
	tracker := rivals.New(clock, func(ring string) { told = append(told, ring) })
	expect := func(when, holder string, news int) {
		t.Helper()
		got := ""
		if rival := tracker.Of("ring"); rival != nil {
			got = rival.Namespace + "/" + rival.Holder
		}
		if diff := cmp.Diff(holder, got); diff != "" {
			t.Errorf("%s: rival (-want +got):\n%s", when, diff)
		}
		if len(told) != news {
			t.Errorf("%s: told %v, want %d times", when, told, news)
		}
		told = nil
	}
	step := func(by time.Duration) { clock.SetTime(clock.Now().Add(by)) }

	expect("nothing was seen", "", 0)
	tracker.Observe(lease("a", 1))
	expect("one works", "ns/a", 1)
	step(9 * time.Second)
	tracker.Observe(lease("a", 2))
	expect("it renews, whatever its clock says", "ns/a", 0)
	step(9 * time.Second)
	tracker.Observe(lease("a", 2))
	expect("seen again, but not renewed", "ns/a", 0)
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
	if tracker.Of("other") != nil {
		t.Error("another ring has a rival")
	}
	moved, years := lease("b", 7), int32(1<<31-1)
	moved.Labels[shardingv1alpha1.LabelSharder], moved.Spec.LeaseDurationSeconds = "other", &years
	tracker.Observe(lease("b", 7))
	tracker.Observe(moved)
	expect("it is another ring's", "", 3)
	if rival := tracker.Of("other"); rival == nil || rival.Until.Sub(clock.Now()) > time.Hour {
		t.Errorf("the rival of the other ring is %v", rival)
	}
}
