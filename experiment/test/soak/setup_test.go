//go:build soak

package soak_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/demo/balancer"
	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/test/soak"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// The matchers that are used; a dot import would hide the names of this package.
var succeed, beZero, haveLength = gomega.Succeed, gomega.BeZero, gomega.HaveLen

const (
	manifests = "examples/webhosting/config/"
	// leaseDuration is the operator's default, so that the test runs the configuration of users.
	leaseDuration = 15 * time.Second
)

// The sharded kinds, and the resources that are watched.
var (
	website    = schema.GroupVersionKind{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Kind: "Website"}
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

// setup is a control plane with two replicas of the sharder, the instances of the operator and a load generator.
type setup struct {
	*rig.Rig
	*gomega.WithT
	t         *testing.T
	begin     time.Time
	folder    string
	recorder  *history.Recorder
	requests  *soak.Requests
	generator *load.Generator
	sharders  []*rig.Sharder
	counts    map[soak.Disturbance]int
	samples   []soak.Sample // only sampleUntil writes to it

	mu        sync.Mutex
	instances []*instance // all that were started
}

// instance is a process of the operator.
type instance struct {
	*rig.Running
	name, id        string
	health, metrics int
	since           time.Time
	// long is set if the instance should run until the end, ends if it should exit now.
	long bool
	ends atomic.Bool
}

// setUp starts everything except the instances, and starts to record.
func setUp(t *testing.T) *setup {
	t.Helper()
	s := &setup{t: t, WithT: gomega.NewWithT(t), folder: rig.TempDir(t), counts: map[soak.Disturbance]int{}, begin: time.Now()}
	s.SetDefaultEventuallyTimeout(rig.Timeout)
	s.SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	policy, audit := filepath.Join(s.folder, "policy.yaml"), filepath.Join(s.folder, "audit.log")
	s.Expect(os.WriteFile(policy, []byte(soak.AuditPolicy), 0o600)).To(succeed())
	s.requests = soak.NewRequests(audit)
	const mebibytes = 100000 // the log must stay one file
	s.Rig = rig.Private(t, rig.Options{
		CRDs:              []string{"config/crds", manifests + "crds"},
		ControllerManager: true, // it deletes the children of deleted Websites
		APIServerArgs:     []string{"--audit-policy-file=" + policy, "--audit-log-path=" + audit, fmt.Sprint("--audit-log-maxsize=", mebibytes)},
	})
	project := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"webhosting.timebertt.dev/project":"true"}}}`))
	s.Expect(s.Client.Patch(t.Context(), project, label)).To(succeed()) // nothing else writes to it
	s.record()
	s.startSharders()
	s.prepareUsers()
	return s
}

// path returns the file with the recorded events.
func (s *setup) path() string { return filepath.Join(s.folder, "writes") }

func (s *setup) record() {
	s.t.Helper()
	var err error
	s.recorder, err = history.NewRecorder(s.path(), time.Now)
	s.Expect(err).NotTo(gomega.HaveOccurred())
	access, err := dynamic.NewForConfig(s.Config)
	s.Expect(err).NotTo(gomega.HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s.t.Cleanup(func() {
		cancel()
		done.Wait()
		_ = s.recorder.Close()
	})
	watcher := &history.Watcher{Client: access, Recorder: s.recorder, Ring: fleet.Ring, Namespace: s.Namespace}
	for _, resource := range watched {
		s.Expect(watcher.Watch(ctx, resource, &done)).To(succeed())
	}
}

// startSharders declares the ring, and runs two replicas with one address for their webhooks.
func (s *setup) startSharders() {
	s.t.Helper()
	found, err := manifest.Read(os.DirFS("../../../"+manifests), "ring/ring.yaml")
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.Expect(found).To(haveLength(1))
	s.Expect(unstructured.SetNestedStringSlice(found[0].Object, []string{s.Namespace}, "spec", "shardNamespaces")).To(succeed())
	s.Expect(manifest.Apply(s.t.Context(), s.Client, "test", found[0])).To(succeed())
	var mu sync.Mutex
	var targets []string
	front, err := balancer.Start(func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(targets)
	})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.t.Cleanup(front.Close)
	for i := range 2 {
		replica := s.StartSharder(s.t, rig.SharderOptions{
			Name: fmt.Sprint("sharder-", i), Roles: []string{manifests + "ring/sharder-role.yaml"}, Shipped: true,
			Config: fmt.Sprintf("webhook: {config: {clientConfig: {url: %q}}}", "https://"+front.Address()),
		})
		s.sharders = append(s.sharders, replica)
		mu.Lock()
		targets = append(targets, net.JoinHostPort("127.0.0.1", strconv.Itoa(replica.Webhook)))
		mu.Unlock()
		s.Eventually(func() int { return replica.Probe("/readyz") }).Should(gomega.Equal(http.StatusOK))
	}
}

// prepareUsers creates Themes and the load generator.
func (s *setup) prepareUsers() {
	s.t.Helper()
	var themes []string
	for _, color := range []string{"darkcyan", "orchid", "teal"} {
		theme := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": color, "fontFamily": "Menlo"}}}
		theme.SetGroupVersionKind(website.GroupVersion().WithKind("Theme"))
		theme.SetName(color)
		s.Expect(s.Client.Create(s.t.Context(), theme)).To(succeed())
		themes = append(themes, color)
	}
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	access, err := client.NewWithWatch(config, client.Options{Scheme: fleet.Scheme()})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	const workers = 8
	s.generator = load.New(load.Options{
		Client: access, Namespaces: []string{s.Namespace}, Themes: themes, Ring: fleet.Ring, Workers: workers, Runs: s.runs,
	})
	s.Expect(s.generator.Watch(s.t.Context(), s.Namespace)).To(succeed())
}

// limited returns a context with a timeout.
func (s *setup) limited() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), rig.Timeout)
	s.t.Cleanup(cancel)
	return ctx
}

// join starts an instance.
func (s *setup) join(long bool) *instance {
	s.t.Helper()
	m := &instance{health: rig.ReservePort(s.t), metrics: rig.ReservePort(s.t), since: time.Now(), long: long}
	m.name = fmt.Sprint("instance-", len(s.started()))
	m.Running = s.Start(s.t, rig.Process{
		Name: m.name, ServiceAccount: fleet.Ring, Roles: []string{manifests + "rbac"}, Binary: rig.Build(s.t, "./examples/webhosting"),
		Args: []string{
			"--mode=shard", "--zap-log-level=debug", // each reconcile is logged
			fmt.Sprint("--health-address=127.0.0.1:", m.health), fmt.Sprint("--metrics-address=127.0.0.1:", m.metrics),
			fmt.Sprint("--lease-duration=", leaseDuration),
		},
	})
	m.id = fmt.Sprintf("%s/%d", m.name, m.PID())
	s.mu.Lock()
	s.instances = append(s.instances, m)
	s.mu.Unlock()
	var recorded sync.WaitGroup
	recorded.Go(func() {
		<-m.Done()
		s.recorder.Record(history.Event{Type: history.Gone, Process: m.id, Shard: m.name})
	})
	s.t.Cleanup(func() {
		_ = m.Kill()
		recorded.Wait()
	})
	s.Eventually(func() (int, error) { return get(fmt.Sprintf("http://127.0.0.1:%d/readyz", m.health)) }).Should(gomega.Equal(http.StatusOK), m.name)
	lease, err := s.Clientset.CoordinationV1().Leases(s.Namespace).Get(s.t.Context(), m.name, metav1.GetOptions{})
	s.Expect(err).NotTo(gomega.HaveOccurred())
	s.recorder.Record(history.Event{
		Type: history.Joined, Process: m.id, Shard: m.name, Instance: lease.Annotations[shardingv1alpha1.AnnotationInstance],
	})
	return m
}

func get(url string) (int, error) {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}

// pause pauses an instance for a while.
func (s *setup) pause(m *instance, d time.Duration) {
	s.t.Helper()
	s.Expect(m.Pause()).To(succeed())
	s.recorder.Record(history.Event{Type: history.Paused, Process: m.id, Shard: m.name})
	time.Sleep(d)
	s.recorder.Record(history.Event{Type: history.Resumed, Process: m.id, Shard: m.name})
	s.Expect(m.Resume()).To(succeed())
}

// awaitAvailable waits until all instances are available shards. It fails immediately if a process has exited.
func (s *setup) awaitAvailable() {
	s.t.Helper()
	s.Eventually(func() (int32, error) {
		if exited := s.exited(); len(exited) > 0 {
			return 0, gomega.StopTrying(strings.Join(exited, "\n"))
		}
		ring := &shardingv1alpha1.ControllerRing{}
		err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: fleet.Ring}, ring)
		return ring.Status.AvailableShards, err
	}).Should(gomega.BeEquivalentTo(instances))
}

// started returns all instances that were started.
func (s *setup) started() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.instances)
}

// exited describes the processes that exited unexpectedly.
func (s *setup) exited() (descriptions []string) {
	var all []*rig.Running
	for _, replica := range s.sharders {
		all = append(all, replica.Running)
	}
	for _, m := range s.started() {
		if !m.ends.Load() {
			all = append(all, m.Running)
		}
	}
	for _, p := range all {
		if !p.Running() {
			descriptions = append(descriptions, fmt.Sprintf("%s exited unexpectedly:\n%s", p.Name(), p.Tail(3)))
		}
	}
	return descriptions
}

// live returns the instances that run and should run.
func (s *setup) live() []*instance {
	return slices.DeleteFunc(s.started(), func(m *instance) bool { return m.ends.Load() || !m.Running.Running() })
}

// runs reports whether the process of an instance runs.
func (s *setup) runs(name string) bool {
	return slices.ContainsFunc(s.started(), func(m *instance) bool { return m.name == name && m.Running.Running() })
}

func (s *setup) elapsed() time.Duration { return time.Since(s.begin).Round(time.Second) }
