package sharder_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// duplicateShard is a shard of the same name in a namespace that sorts before the incumbent's.
type duplicateShard struct {
	f   *fixture
	key client.ObjectKey
}

func (f *fixture) newcomer(name string) *duplicateShard {
	f.t.Helper()
	n := &duplicateShard{f, client.ObjectKey{Namespace: "aaa-" + f.Namespace, Name: name}}
	f.Expect(f.Client.Create(f.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.key.Namespace}})).To(Succeed())
	duration := int32(leaseSeconds)
	f.Expect(f.Client.Create(f.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: n.key.Namespace, Name: name,
			Labels: map[string]string{shardingv1alpha1.LabelControllerRing: f.ring.Name},
		},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &duration},
	})).To(Succeed())
	n.acquire()
	return n
}

func (n *duplicateShard) lease() *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	n.f.Expect(n.f.Client.Get(context.Background(), n.key, lease)).To(Succeed())
	return lease
}

// acquire acquires the Lease, as its process does when it starts.
func (n *duplicateShard) acquire() {
	n.f.t.Helper()
	n.f.Eventually(func() error {
		lease, now := n.lease(), metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = &n.key.Name, &now, &now
		return n.f.Client.Update(context.Background(), lease)
	}).Should(Succeed())
}

// stopped waits until its Lease is taken over, so that its process stops.
func (n *duplicateShard) stopped() {
	n.f.t.Helper()
	n.f.Eventually(func() string { return holder(n.lease()) }).Should(Equal(shardingv1alpha1.IdentityShardLeaseController))
	n.f.Expect(n.lease().Labels).NotTo(HaveKey(shardingv1alpha1.LabelState))
}

// refusals returns the notes of the events about the refused shard.
func (n *duplicateShard) refusals() (notes []string) {
	list, err := n.f.Clientset.EventsV1().Events(n.key.Namespace).List(context.Background(), metav1.ListOptions{})
	n.f.Expect(err).NotTo(HaveOccurred())
	for i := range list.Items {
		if list.Items[i].Reason == "ShardRefused" && list.Items[i].Regarding.Name == n.key.Name {
			notes = append(notes, list.Items[i].Note)
		}
	}
	return notes
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// keeps asserts that a shard holds its Lease for a while and owns all objects.
func (s *shard) keeps(objects int) {
	s.f.t.Helper()
	s.f.Consistently(func() string {
		lease, err := s.lease()
		s.f.Expect(err).NotTo(HaveOccurred())
		return holder(lease)
	}, "2s", "100ms").Should(Equal(s.name))
	s.f.ownedBy(objects, s.name)
}

// shows waits until a Lease has a state label.
func (f *fixture) shows(key client.ObjectKey, state string) {
	f.t.Helper()
	f.Eventually(func() string {
		lease := &coordinationv1.Lease{}
		f.Expect(f.Client.Get(context.Background(), key, lease)).To(Succeed())
		return lease.Labels[shardingv1alpha1.LabelState]
	}).Should(Equal(state))
}

// TestIncumbentStays has two shards of one name. The newcomer does not replace the incumbent, not even when the
// sharder restarts and observes both at once, or when the incumbent restarts and does not hold its Lease.
func TestIncumbentStays(t *testing.T) {
	f := setUp(t, func(ring *shardingv1alpha1.ControllerRing) { ring.Spec.ShardNamespaces = nil })
	first := f.run(rig.SharderOptions{Name: "sharder-0", Roles: []string{ringRole}})
	incumbent := f.join("r-0", 0)
	key := client.ObjectKey{Namespace: f.Namespace, Name: "r-0"}
	f.shows(key, "ready")
	n := f.admits()
	f.ownedBy(n, "r-0")
	time.Sleep(time.Second) // creation timestamps have a precision of one second

	newcomer := f.newcomer("r-0")
	newcomer.stopped()
	incumbent.keeps(n)
	f.Eventually(newcomer.refusals).Should(ContainElement(And(
		ContainSubstring("an older shard of this name in namespace "+f.Namespace), ContainSubstring("another name"))))

	t.Log("The sharder restarts")
	f.Expect(first.Stop(t.Context())).To(Succeed())
	newcomer.acquire()
	f.start("sharder-1", ringRole)
	newcomer.stopped()
	incumbent.keeps(n)

	t.Log("The incumbent restarts")
	incumbent.leave()
	newcomer.acquire()
	newcomer.stopped()
	f.Eventually(func() error {
		lease, err := incumbent.lease()
		if err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime, lease.Spec.RenewTime = &key.Name, &now, &now
		return f.Client.Update(t.Context(), lease)
	}).Should(Succeed())
	f.shows(key, "ready")
	f.ownedBy(n, "r-0")

	t.Log("The incumbent is gone")
	lease, err := incumbent.lease()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.Client.Delete(t.Context(), lease)).To(Succeed())
	f.Eventually(func() string { // its process is stopped and started again until the incumbent's lease has run out
		if holder(newcomer.lease()) != newcomer.key.Name {
			newcomer.acquire()
		}
		return newcomer.lease().Labels[shardingv1alpha1.LabelState]
	}).Should(Equal("ready"))
}

// TestLongLeaseIsRefused has a Lease with which a dead shard would stay ready for 68 years.
func TestLongLeaseIsRefused(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	f.join("a", 0)
	name, seconds, now := "b", int32(1<<31-1), metav1.NowMicro()
	long := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: name, Labels: map[string]string{shardingv1alpha1.LabelControllerRing: f.ring.Name},
			Annotations: map[string]string{"note": strings.Repeat("x", 1000)},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	f.Expect(f.Client.Create(t.Context(), long)).To(Succeed())
	f.Eventually(func() []string { return f.eventReasons("Lease", name) }).Should(ContainElement("Warning ShardRefused"))
	f.Eventually(func() string {
		f.Expect(f.Client.Get(t.Context(), client.ObjectKeyFromObject(long), long)).To(Succeed())
		return holder(long)
	}).Should(Equal(shardingv1alpha1.IdentityShardLeaseController))
	f.Expect(long.Annotations).To(HaveKey("note"), "the sharder must not remove annotations that it does not read")
	n := f.admits()
	f.ownedBy(n, "a")
}
