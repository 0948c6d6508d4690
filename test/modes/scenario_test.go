package modes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

const (
	// instances is the number of instances, and population the number of permanent Websites.
	instances, population = 3, 24

	testTimeout = rig.Timeout
	polling     = 250 * time.Millisecond
)

// The times of Leases: short, so that tests do not wait long for a death, and long enough for a busy machine.
const leaseDuration, retryPeriod = 10 * time.Second, time.Second

// deadline returns the renew deadline for a lease duration.
func deadline(lease time.Duration) time.Duration { return lease * 3 / 4 }

// environment is a control plane with instances of the operator in one of the modes. It records a history.
type environment struct {
	*rig.Rig
	t        *testing.T
	mode     mode
	lease    time.Duration     // of the instances
	build    []rig.BuildOption // of them
	folder   string
	recorder *history.Recorder
	sharder  *rig.Sharder

	mu sync.Mutex
	// launched are all instances, including ended ones.
	launched []*instance
	colors   int
}

// instance is a process of the operator.
type instance struct {
	*rig.Running
	name, id string
	health   int
	// endExpected is whether the test ends it.
	endExpected bool
}

// scenario is an environment in one test.
type scenario struct {
	*environment
	*WithT
	t *testing.T
}

func (s *environment) scenario(t *testing.T) *scenario {
	created := &scenario{environment: s, WithT: NewWithT(t), t: t}
	created.SetDefaultEventuallyTimeout(testTimeout)
	created.SetDefaultEventuallyPollingInterval(polling)
	return created
}

// newScenario prepares everything except the instances, and starts to record.
func newScenario(t *testing.T, m mode) *scenario {
	t.Helper()
	environment := &environment{
		Rig: rig.Private(t, rig.Options{CRDs: []string{"config/crds", manifests + "crds"}}),
		t:   t, mode: m, lease: leaseDuration, build: []rig.BuildOption{rig.Race}, folder: rig.TempDir(t),
	}
	s := environment.scenario(t)
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"webhosting.timebertt.dev/project":"true"}}}`))
	s.Expect(s.Client.Patch(t.Context(), project, label)).To(Succeed()) // without a precondition, because no other client writes it
	var err error
	s.recorder, err = history.NewRecorder(s.writes(), time.Now)
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = s.recorder.Close() })
	s.watch()
	if m.external {
		s.startSharder()
	}
	return s
}

// writes returns the path of the test's record.
func (s *environment) writes() string { return filepath.Join(s.folder, "writes") }

// The sharded kinds, and the recorded resources.
var (
	website    = schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"}
	theme      = website.GroupVersion().WithKind("Theme")
	controlled = []schema.GroupKind{
		{Kind: "ConfigMap"}, {Group: appsv1.GroupName, Kind: "Deployment"}, {Kind: "Service"}, {Group: networkingv1.GroupName, Kind: "Ingress"},
	}
	watched = []schema.GroupVersionResource{
		website.GroupVersion().WithResource("websites"),
		corev1.SchemeGroupVersion.WithResource("configmaps"),
		corev1.SchemeGroupVersion.WithResource("services"),
		appsv1.SchemeGroupVersion.WithResource("deployments"),
		networkingv1.SchemeGroupVersion.WithResource("ingresses"),
		history.Leases,
	}
)

func (s *scenario) watch() {
	s.t.Helper()
	access, err := dynamic.NewForConfig(s.Config)
	s.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s.t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	watcher := &history.Watcher{Client: access, Recorder: s.recorder, Ring: ring, Namespace: s.Namespace}
	for _, resource := range watched {
		s.Expect(watcher.Watch(ctx, resource, &done)).To(Succeed())
	}
	if !s.mode.sharded() {
		done.Go(func() { s.watchLeader(ctx) })
	}
}

// startSharder starts an external sharder and creates the ring.
func (s *scenario) startSharder() {
	s.t.Helper()
	found, err := manifest.Read(os.DirFS("../../"+manifests), "ring/ring.yaml")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(found).To(HaveLen(1))
	s.Expect(unstructured.SetNestedStringSlice(found[0].Object, []string{s.Namespace}, "spec", "shardNamespaces")).To(Succeed())
	s.Expect(manifest.Apply(s.t.Context(), s.Client, "test", found[0])).To(Succeed())
	s.runSharder()
}

func (s *scenario) runSharder() {
	s.t.Helper()
	s.sharder = s.StartSharder(s.environment.t, rig.SharderOptions{Roles: []string{manifests + "ring/sharder-role.yaml"}, RolesPerRing: true})
	s.Eventually(func() int { return s.sharder.Probe("/readyz") }).Should(Equal(http.StatusOK))
}

// stopSharder stops the external sharder and deletes the ring.
func (s *scenario) stopSharder() {
	s.t.Helper()
	s.Expect(s.sharder.Terminate()).To(Succeed())
	s.Expect(s.sharder.Wait(s.timeoutContext())).To(Succeed())
	s.Expect(s.Client.Delete(s.t.Context(), &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: ring}})).To(Succeed())
	// Without a garbage collector, it is not deleted with the ring.
	s.Expect(s.Client.Delete(s.t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: shardingv1alpha1.WebhookConfigurationName(ring)},
	})).To(Succeed())
}

// timeoutContext returns a context with the timeout of a test step.
func (s *scenario) timeoutContext() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	s.t.Cleanup(cancel)
	return ctx
}

// launch starts an instance with a name, or a new name if it is empty, and does not wait for it.
func (s *scenario) launch(name string) *instance {
	s.t.Helper()
	s.mu.Lock()
	if name == "" {
		name = fmt.Sprint("instance-", len(s.launched))
	}
	s.mu.Unlock()
	health := rig.ReservePort(s.environment.t)
	m := &instance{name: name, health: health, Running: s.Start(s.environment.t, rig.Process{
		Name: name, ServiceAccount: "webhosting-operator", Roles: s.mode.roles,
		Binary: rig.Build(s.environment.t, "./examples/webhosting", s.build...),
		Args: []string{
			"--mode=" + string(s.mode.flag), "--zap-log-level=debug", "--metrics-address=0",
			fmt.Sprint("--health-address=127.0.0.1:", health),
			fmt.Sprint("--lease-duration=", s.lease), fmt.Sprint("--renew-deadline=", deadline(s.lease)), fmt.Sprint("--retry-period=", retryPeriod),
		},
	})}
	m.id = fmt.Sprintf("%s/%d", name, m.PID())
	s.mu.Lock()
	s.launched = append(s.launched, m)
	s.mu.Unlock()
	var noted sync.WaitGroup
	noted.Go(func() {
		<-m.Done()
		s.record(history.Gone, m)
	})
	s.environment.t.Cleanup(func() {
		_ = m.Kill()
		noted.Wait()
	})
	return m
}

// join starts an instance and waits until it is ready.
func (s *scenario) join(name string) *instance {
	s.t.Helper()
	m := s.launch(name)
	s.waitForMembership(m)
	return m
}

// ready waits until all instances are ready.
func (s *scenario) ready() {
	s.t.Helper()
	for _, m := range s.running() {
		s.waitForMembership(m)
	}
}

func (s *scenario) waitForMembership(m *instance) {
	s.t.Helper()
	s.Eventually(m.ready).Should(Succeed(), m.name)
	if !s.mode.sharded() {
		return // watchLeader records when it leads
	}
	lease, err := s.Clientset.CoordinationV1().Leases(s.Namespace).Get(s.t.Context(), m.name, metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.recorder.Record(history.Event{
		Type: history.Joined, Process: m.id, Shard: m.name, Instance: lease.Annotations[shardingv1alpha1.AnnotationInstance],
	})
}

func (m *instance) ready() error {
	if !m.Running.Running() {
		return errors.New("it has ended")
	}
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", m.health))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", response.Status)
	}
	return nil
}

func (s *environment) record(eventType history.EventType, m *instance) {
	s.recorder.Record(history.Event{Type: eventType, Process: m.id, Shard: m.name})
}

// running returns the instances that the test has not ended.
func (s *environment) running() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var live []*instance
	for _, m := range s.launched {
		if !m.endExpected && m.Running.Running() {
			live = append(live, m)
		}
	}
	return live
}
