package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/ring"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // the shards in this process
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{Programs: map[string]rig.Program{"shard": runShard}})
}

const (
	ringName = "bench"
	timeout  = 5 * time.Minute
)

var (
	mains    = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	children = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// fixture is a control plane with a ring, whose main objects are ConfigMaps with a Secret as the child of each.
type fixture struct {
	*rig.Rig
	*WithT
	b        *testing.B
	metadata metadata.Interface
}

func setUp(b *testing.B) *fixture {
	b.Helper()
	f := &fixture{Rig: rig.Private(b, rig.Options{CRDs: []string{"config/crds"}}), WithT: NewWithT(b), b: b}
	f.SetDefaultEventuallyTimeout(timeout)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	config := rest.CopyConfig(f.Config)
	config.QPS = -1
	var err error
	f.metadata, err = metadata.NewForConfig(config)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.Client.Create(b.Context(), &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: ringName},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: []shardingv1alpha1.RingResource{{
				GroupResource:       shardingv1alpha1.GroupResource{Resource: mains.Resource},
				ControlledResources: []shardingv1alpha1.GroupResource{{Resource: children.Resource}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: f.Namespace}},
		},
	})).To(Succeed())
	return f
}

// sharder starts the sharder, built as for a release.
func (f *fixture) sharder(syncPeriod time.Duration) *rig.Running {
	f.b.Helper()
	return f.StartSharder(f.b, rig.SharderOptions{
		Roles:   []string{"test/bench/testdata/ring-role.yaml"},
		Config:  fmt.Sprintf("controller: {sharder: {syncPeriod: %s}}", syncPeriod),
		Shipped: true,
	}).Running
}

// join starts shards and waits until they are members.
func (f *fixture) join(env []string, names ...string) map[string]*rig.Running {
	f.b.Helper()
	running := map[string]*rig.Running{}
	for _, name := range names {
		running[name] = f.Start(f.b, rig.Process{
			Name: name, ServiceAccount: "shard", Program: "shard", Env: append([]string{"SHARD=" + name}, env...),
			Roles: []string{"test/bench/testdata/shard-role.yaml"},
		})
	}
	for _, name := range names {
		f.Eventually(func() string { return f.holder(name) }).Should(Equal(name))
	}
	return running
}

func (f *fixture) holder(name string) string {
	lease, err := f.Clientset.CoordinationV1().Leases(f.Namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// ready waits until the ring has a number of available shards.
func (f *fixture) ready(shards int) {
	f.b.Helper()
	f.Eventually(func(g Gomega) {
		declared := &shardingv1alpha1.ControllerRing{}
		g.Expect(f.Client.Get(context.Background(), client.ObjectKey{Name: ringName}, declared)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(declared.Status.Conditions, shardingv1alpha1.ConditionReady)).To(BeTrue())
		g.Expect(declared.Status.AvailableShards).To(BeEquivalentTo(shards))
	}).Should(Succeed())
}

// key returns the key of a main object, which is also that of its child.
func (f *fixture) key(name string) string {
	return assignment.Key(schema.GroupKind{Kind: "ConfigMap"}, f.Namespace, name)
}

// populate creates main objects with a child each, which are already assigned.
func (f *fixture) populate(from, to int, shards ...string) {
	f.b.Helper()
	spread := ring.New(shards)
	f.parallel(to-from, 32, func(i int) error {
		name := fmt.Sprintf("main-%06d", from+i)
		labels := map[string]string{shardingv1alpha1.LabelShard(ringName): spread.Owner(f.key(name))}
		main := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: labels}}
		main, err := f.Clientset.CoreV1().ConfigMaps(f.Namespace).Create(context.Background(), main, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(main, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		}}
		_, err = f.Clientset.CoreV1().Secrets(f.Namespace).Create(context.Background(), child, metav1.CreateOptions{})
		return err
	})
}

// plainWrites returns the reference for moves: the time for merge patches of n objects, half of them children.
func (f *fixture) plainWrites(n, concurrency int) time.Duration {
	f.b.Helper()
	content := fmt.Appendf(nil, `{"metadata":{"annotations":{"plain":"%d"}}}`, time.Now().UnixNano())
	began := time.Now()
	f.parallel(n, concurrency, func(i int) error {
		resource := mains
		if i%2 == 1 {
			resource = children
		}
		_, err := f.metadata.Resource(resource).Namespace(f.Namespace).
			Patch(context.Background(), fmt.Sprintf("main-%06d", i/2), types.MergePatchType, content, metav1.PatchOptions{})
		return err
	})
	return time.Since(began)
}

// parallel calls work n times, with a number of concurrent calls.
func (f *fixture) parallel(n, concurrency int, work func(i int) error) {
	f.b.Helper()
	var (
		group  sync.WaitGroup
		next   atomic.Int64
		failed atomic.Pointer[error]
	)
	for range concurrency {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := work(i); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		f.b.Fatal(*err)
	}
}

// figure reports a measured value with its expectation.
func (f *fixture) figure(name string, value float64, unit, wanted string) {
	f.b.Helper()
	f.b.ReportMetric(value, unit)
	f.b.Logf("%-70s %8.3f %-14s %s", name, value, unit, wanted)
}
