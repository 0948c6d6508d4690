package skew_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/seed"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

const (
	testTimeout = rig.Timeout
	// The Leases of shards and sharders are short, so that tests do not wait long after a kill, and long enough
	// for a busy machine.
	leaseDuration, renewDeadline, retryPeriod = 12 * time.Second, 9 * time.Second, time.Second
	// resyncPeriod is shorter than the idle time in which nothing may be written, to reveal a sharder that
	// disagrees with the other version.
	resyncPeriod, restFor = time.Second, 3 * time.Second
)

// fixture is a ring with shards and sharders of two versions. It records a history.
type fixture struct {
	*rig.Rig
	*WithT
	t        *testing.T
	ring     *shardingv1alpha1.ControllerRing
	frontend *frontend
	seed     uint64

	folder   string
	recorder *history.Recorder
	shards   []*shardProcess
	sharders int
	objects  int
}

// shardProcess is the process of a shard.
type shardProcess struct {
	*rig.Running
	name, id, record string
	endExpected      bool
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t, folder: rig.TempDir(t), frontend: newFrontend(t), seed: seed.ForRun(t)}
	f.SetDefaultEventuallyTimeout(testTimeout)
	f.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	f.recorder, err = history.NewRecorder(f.writes(), time.Now)
	f.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = f.recorder.Close() })
	f.watch()
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

// writes returns the path of the test's record.
func (f *fixture) writes() string { return filepath.Join(f.folder, "writes") }

// watch records every write of the ring's objects, of its Leases and of the ring itself.
func (f *fixture) watch() {
	f.t.Helper()
	dynamicClient, err := dynamic.NewForConfig(f.Config)
	f.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	f.t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	objects := &history.Watcher{Client: dynamicClient, Recorder: f.recorder, Ring: f.Namespace, Namespace: f.Namespace}
	ring := &history.Watcher{Client: dynamicClient, Recorder: f.recorder, Ring: f.Namespace}
	for resource, watcher := range map[schema.GroupVersionResource]*history.Watcher{
		corev1.SchemeGroupVersion.WithResource("configmaps"): objects,
		corev1.SchemeGroupVersion.WithResource("secrets"):    objects,
		history.Leases: objects,
		shardingv1alpha1.SchemeGroupVersion.WithResource("controllerrings"): ring,
	} {
		f.Expect(watcher.Watch(ctx, resource, &done)).To(Succeed())
	}
}

// startSharder starts a replica of the sharder, and waits until it is ready.
func (f *fixture) startSharder(v version) *rig.Sharder {
	f.t.Helper()
	f.sharders++
	replica := f.StartSharder(f.t, rig.SharderOptions{
		Name: fmt.Sprintf("sharder-%s-%d", v.name, f.sharders), Binary: v.sharder,
		Roles: []string{"test/skew/testdata/ring-role.yaml"},
		Config: fmt.Sprintf(`
leaderElection: {leaseDuration: %s, renewDeadline: %s, retryPeriod: %s}
webhook: {config: {clientConfig: {url: %q}}}
controller: {sharder: {syncPeriod: %s}}
`, leaseDuration, renewDeadline, retryPeriod, f.frontend.url(), resyncPeriod),
	})
	f.Eventually(func() int { return replica.Probe("/readyz") }).Should(Equal(200), replica.Name())
	return replica
}

// leader returns the identity of the sharder's leader, or "".
func (f *fixture) leader() string {
	lease := &coordinationv1.Lease{}
	err := f.Client.Get(context.Background(), client.ObjectKey{Namespace: f.Namespace, Name: "sharder"}, lease)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// join starts a shard, and waits until it holds its Lease.
func (f *fixture) join(v version) *shardProcess {
	f.t.Helper()
	name := fmt.Sprintf("%s-%d", v.name, len(f.shards))
	record := filepath.Join(f.folder, name)
	p := &shardProcess{name: name, record: record, Running: f.Start(f.t, rig.Process{
		Name: name, ServiceAccount: "operator", Binary: v.operator,
		Roles: []string{"test/skew/testdata/operator-role.yaml"},
		Args: []string{
			"--ring", f.ring.Name, "--record", record, "--lease-duration", leaseDuration.String(),
			"--renew-deadline", renewDeadline.String(), "--retry-period", retryPeriod.String(),
		},
		Env: []string{fmt.Sprint(seed.Variable, "=", f.seed)},
	})}
	p.id = fmt.Sprintf("%s/%d", name, p.PID())
	f.shards = append(f.shards, p)
	var recorded sync.WaitGroup
	recorded.Go(func() {
		<-p.Done()
		f.recorder.Record(history.Event{Type: history.Gone, Process: p.id, Shard: p.name})
	})
	f.t.Cleanup(func() {
		_ = p.Kill()
		recorded.Wait()
	})
	f.Eventually(func() bool {
		events, err := history.Read(p.record)
		return err == nil && slices.ContainsFunc(events, func(e history.Event) bool { return e.Type == history.Joined })
	}).Should(BeTrue(), "%s joins", p.name)
	return p
}

// stop terminates a shard, and waits until it has ended.
func (f *fixture) stop(p *shardProcess) {
	f.t.Helper()
	p.endExpected = true
	f.end(p.Running)
}

func (f *fixture) end(p *rig.Running) {
	f.t.Helper()
	f.Expect(p.Terminate()).To(Succeed())
	ctx, cancel := context.WithTimeout(f.t.Context(), testTimeout)
	defer cancel()
	f.Expect(p.Wait(ctx)).To(Succeed(), p.Name())
}

func (f *fixture) kill(p *shardProcess) {
	f.t.Helper()
	p.endExpected = true
	f.Expect(p.Kill()).To(Succeed())
}

func (f *fixture) configMap() *corev1.ConfigMap {
	f.objects++
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprint("object-", f.objects)},
		Data:       map[string]string{"number": strconv.Itoa(f.objects)},
	}
}

// create creates objects, and returns the owners that the webhook assigned. Objects that the webhook missed are
// not in the result: the sharder assigns them later.
func (f *fixture) create(n int) (owners map[string]string) {
	f.t.Helper()
	owners = map[string]string{}
	for range n {
		object := f.configMap()
		began := time.Now()
		err := f.Client.Create(f.t.Context(), object)
		request := &history.Request{
			Verb: "create", Took: time.Since(began), Object: history.Object{Kind: "ConfigMap", Namespace: f.Namespace, Name: object.Name},
		}
		if err != nil {
			request.Error = err.Error()
		}
		f.recorder.Record(history.Event{Type: history.Requested, Request: request})
		if owner := object.Labels[shardingv1alpha1.LabelShard(f.ring.Name)]; owner != "" {
			owners[object.Name] = owner
		}
	}
	return owners
}

// createWith creates objects that the webhook of a replica assigns.
func (f *fixture) createWith(replica *rig.Sharder, n int) (owners map[string]string) {
	f.t.Helper()
	f.frontend.use(replica.Webhook)
	f.Eventually(func(g Gomega) string {
		probe := f.configMap()
		g.Expect(f.Client.Create(f.t.Context(), probe, client.DryRunAll)).To(Succeed())
		return probe.Labels[shardingv1alpha1.LabelShard(f.ring.Name)]
	}).ShouldNot(BeEmpty(), "the webhook of %s", replica.Name())
	owners = f.create(n)
	f.Expect(owners).NotTo(BeEmpty(), "the webhook of %s", replica.Name())
	return owners
}
