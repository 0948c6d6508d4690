package sharder_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

// shard is a shard that only renews its Lease.
type shard struct {
	f    *fixture
	key  client.ObjectKey
	name string
	stop context.CancelFunc
	done sync.WaitGroup
}

// join starts a shard, whose clock may be wrong.
func (f *fixture) join(name string, clockOff time.Duration) *shard {
	f.t.Helper()
	return f.joinFrom(f.Namespace, name, clockOff)
}

// joinFrom starts a shard in a namespace.
func (f *fixture) joinFrom(namespace, name string, clockOff time.Duration) *shard {
	f.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &shard{f: f, name: name, stop: stop, key: client.ObjectKey{Namespace: namespace, Name: name}}
	duration := int32(leaseSeconds)
	now := metav1.NewMicroTime(time.Now().Add(clockOff))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{shardingv1alpha1.LabelControllerRing: f.ring.Name},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &duration, AcquireTime: &now, RenewTime: &now},
	}
	f.Expect(f.Client.Create(ctx, lease)).To(Succeed())
	s.done.Go(func() {
		for ctx.Err() == nil {
			_ = s.renew(ctx, clockOff)
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	f.t.Cleanup(s.stopRenewing)
	return s
}

func (s *shard) renew(ctx context.Context, clockOff time.Duration) error {
	lease, err := s.lease()
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != s.name {
		return err
	}
	now := metav1.NewMicroTime(time.Now().Add(clockOff))
	lease.Spec.RenewTime = &now
	return s.f.Client.Update(ctx, lease)
}

func (s *shard) lease() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, s.f.Client.Get(context.Background(), s.key, lease)
}

// stopRenewing stops renewing.
func (s *shard) stopRenewing() {
	s.stop()
	s.done.Wait()
}

// leave releases the lease.
func (s *shard) leave() {
	s.stopRenewing()
	s.f.Eventually(func() error {
		lease, err := s.lease()
		if err != nil {
			return err
		}
		nobody := ""
		lease.Spec.HolderIdentity = &nobody
		return s.f.Client.Update(context.Background(), lease)
	}).Should(Succeed())
}

// create creates n ConfigMaps with a Secret each. None of the requests may fail.
func (f *fixture) create(from, n int) {
	f.t.Helper()
	for i := from; i < from+n; i++ {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("object-%d", i)}}
		f.Expect(f.Client.Create(context.Background(), object)).To(Succeed())
		yes := true
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, GenerateName: object.Name + "-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: object.Name, UID: object.UID, Controller: &yes}},
		}}
		f.Expect(f.Client.Create(context.Background(), child)).To(Succeed())
	}
}

// admits creates objects until one is assigned at admission, because the API server has to observe the webhook
// configuration first. It returns the number of objects.
func (f *fixture) admits() (created int) {
	f.t.Helper()
	f.Eventually(func() map[string]string {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: fmt.Sprintf("admitted-%d", time.Now().UnixNano()),
		}}
		f.Expect(f.Client.Create(context.Background(), object)).To(Succeed())
		created++
		return object.Labels
	}).Should(HaveKey(shardingv1alpha1.LabelShard(f.ring.Name)))
	return created
}

// owners counts the objects of each shard. Children with another owner than their controller count as "apart".
func (f *fixture) owners() map[string]int {
	count, controllers := map[string]int{}, map[string]string{}
	label := shardingv1alpha1.LabelShard(f.ring.Name)
	configMaps, secrets := &corev1.ConfigMapList{}, &corev1.SecretList{}
	f.Expect(f.Client.List(context.Background(), configMaps, client.InNamespace(f.Namespace))).To(Succeed())
	f.Expect(f.Client.List(context.Background(), secrets, client.InNamespace(f.Namespace))).To(Succeed())
	for _, object := range configMaps.Items {
		controllers[object.Name] = object.Labels[label]
		count[object.Labels[label]]++
	}
	for _, object := range secrets.Items {
		if owner := metav1.GetControllerOf(&object); owner != nil && controllers[owner.Name] != object.Labels[label] {
			count["apart"]++
		}
	}
	return count
}

// ownedBy waits until the shards own all objects, with their children.
func (f *fixture) ownedBy(n int, shards ...string) {
	f.t.Helper()
	f.Eventually(func() map[string]int { return f.owners() }).Should(Satisfy(func(count map[string]int) bool {
		sum := 0
		for _, shard := range shards {
			if count[shard] == 0 {
				return false
			}
			sum += count[shard]
		}
		return sum == n && len(count) == len(shards)
	}))
}

// releaseDrained acts as shards that acknowledge every drain as the contract says: they remove both labels in one
// write, in which the webhook assigns the object to the next shard.
func (f *fixture) releaseDrained() {
	list := &corev1.ConfigMapList{}
	drain := shardingv1alpha1.LabelDrain(f.ring.Name)
	f.Expect(f.Client.List(context.Background(), list, client.InNamespace(f.Namespace), client.HasLabels{drain})).To(Succeed())
	for i := range list.Items {
		object := &list.Items[i]
		delete(object.Labels, drain)
		delete(object.Labels, shardingv1alpha1.LabelShard(f.ring.Name))
		_ = f.Client.Update(context.Background(), object) // after a conflict, the next call
	}
}

// awaitOwners waits until the owners of all objects are as the ring says, with their children. Meanwhile, shards acknowledge
// every drain.
func (f *fixture) awaitOwners(shards ...string) {
	f.t.Helper()
	members := ring.New(shards)
	f.Eventually(func() (elsewhere []string) {
		f.releaseDrained()
		list := &corev1.ConfigMapList{}
		f.Expect(f.Client.List(context.Background(), list, client.InNamespace(f.Namespace))).To(Succeed())
		for i := range list.Items {
			object := &list.Items[i]
			_, draining := object.Labels[shardingv1alpha1.LabelDrain(f.ring.Name)]
			owner := members.Owner(assignment.Key(schema.GroupKind{Kind: "ConfigMap"}, object.Namespace, object.Name))
			if draining || object.Labels[shardingv1alpha1.LabelShard(f.ring.Name)] != owner {
				elsewhere = append(elsewhere, object.Name)
			}
		}
		if f.owners()["apart"] > 0 {
			elsewhere = append(elsewhere, "a child")
		}
		return elsewhere
	}).Should(BeEmpty())
}
