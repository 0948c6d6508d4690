package sharder_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

const (
	patience = 90 * time.Second
	// leaseSeconds is short, so that a test need not wait long for a death.
	leaseSeconds = 3
)

// fixture is a ring with its sharder. Shards are played by the test, so that it can make them ill.
type fixture struct {
	*rig.Rig
	*WithT
	t    *testing.T
	ring *shardingv1alpha1.ControllerRing
}

func setUp(t *testing.T, roles ...string) *fixture {
	t.Helper()
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t}
	f.SetDefaultEventuallyTimeout(patience)
	f.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	f.ring = &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: f.Namespace},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: []shardingv1alpha1.RingResource{{
				GroupResource:       shardingv1alpha1.GroupResource{Resource: "configmaps"},
				ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "secrets"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.Namespace}},
			ShardNamespaces:   []string{f.Namespace},
		},
	}
	f.Expect(f.Client.Create(t.Context(), f.ring)).To(Succeed())
	t.Cleanup(func() { _ = f.Client.Delete(context.Background(), f.ring) })
	return f
}

// start runs a replica of the sharder, with the roles from config/ and one for the ring.
func (f *fixture) start(name string, roles ...string) *rig.Running {
	f.t.Helper()
	port, err := process.ReservePort("127.0.0.1")
	f.Expect(err).NotTo(HaveOccurred())
	f.t.Cleanup(port.Release)
	config := filepath.Join(f.t.TempDir(), "config.yaml")
	f.Expect(os.WriteFile(config, fmt.Appendf(nil, `
apiVersion: config.sharding.timebertt.dev/v1alpha1
kind: SharderConfig
leaderElection:
  leaderElect: true
  resourceNamespace: %s
  resourceName: sharder
  resourceLock: leases
  leaseDuration: 3s
  renewDeadline: 2s
  retryPeriod: 500ms
health: {bindAddress: "0"}
metrics: {bindAddress: "0"}
webhook:
  config:
    clientConfig:
      url: https://127.0.0.1:%d
`, f.Namespace, port.Number), 0o600)).To(Succeed())
	return f.Start(f.t, rig.Process{
		Name: name, ServiceAccount: "sharder",
		Binary: rig.Build(f.t, "./cmd/sharder", rig.Race),
		Args:   []string{"--config", config, "--development", "--webhook-port", strconv.Itoa(port.Number)},
		Roles:  append([]string{"config/rbac"}, roles...),
	})
}

const ringRole = "test/sharder/testdata/ring-role.yaml"

// condition waits for a condition of the ring.
func (f *fixture) condition(kind, reason string) {
	f.t.Helper()
	f.Eventually(func() string {
		ring := &shardingv1alpha1.ControllerRing{}
		if err := f.Client.Get(context.Background(), client.ObjectKeyFromObject(f.ring), ring); err != nil {
			return err.Error()
		}
		if found := meta.FindStatusCondition(ring.Status.Conditions, kind); found != nil {
			return found.Reason
		}
		return ""
	}).Should(Equal(reason))
}

// shard is a shard that only keeps its lease.
type shard struct {
	f    *fixture
	name string
	stop context.CancelFunc
	done sync.WaitGroup
}

// join makes a shard, whose clock may be off.
func (f *fixture) join(name string, clockOff time.Duration) *shard {
	f.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &shard{f: f, name: name, stop: stop}
	duration := int32(leaseSeconds)
	now := metav1.NewMicroTime(time.Now().Add(clockOff))
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: name,
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
	f.t.Cleanup(s.die)
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
	return lease, s.f.Client.Get(context.Background(), client.ObjectKey{Namespace: s.f.Namespace, Name: s.name}, lease)
}

// die stops renewing.
func (s *shard) die() {
	s.stop()
	s.done.Wait()
}

// leave releases the lease.
func (s *shard) leave() {
	s.die()
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

// create makes n ConfigMaps with a Secret each, as a user does, and none of the requests may fail.
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

// owners counts the objects of each shard. Children that are not with their controller count as "apart".
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

// ownedBy waits until all objects belong to the given shards, children with their controllers.
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
