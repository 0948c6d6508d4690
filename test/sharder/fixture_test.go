package sharder_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
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

	metricsReader string
}

func setUp(t *testing.T, change ...func(*shardingv1alpha1.ControllerRing)) *fixture {
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
	for _, c := range change {
		c(f.ring)
	}
	f.Expect(f.Client.Create(t.Context(), f.ring)).To(Succeed())
	t.Cleanup(func() { _ = f.Client.Delete(context.Background(), f.ring) })
	return f
}

// settings are what a test wants of a replica beside what all want.
type settings struct {
	roles []string
	// config is more of the configuration file, and webhook more of its webhook section.
	config, webhook string
	env             []string
	proxy           *faultproxy.Proxy
}

// replica is a process of the sharder, with the ports that it serves.
type replica struct {
	*rig.Running
	webhook, metrics, health int
}

// start runs a replica of the sharder, with the roles from config/ and one for the ring.
func (f *fixture) start(name string, roles ...string) *replica {
	f.t.Helper()
	return f.run(name, settings{roles: roles})
}

func (f *fixture) run(name string, s settings) *replica {
	f.t.Helper()
	r := &replica{webhook: f.port(), metrics: f.port(), health: f.port()}
	r.Running = f.Start(f.t, rig.Process{
		Name: name, ServiceAccount: "sharder", Proxy: s.proxy, Env: s.env,
		Binary: rig.Build(f.t, "./cmd/sharder", rig.Race),
		Args:   []string{"--config", f.configure(r, s), "--development", "--webhook-port", strconv.Itoa(r.webhook)},
		Roles:  append([]string{"config/rbac"}, s.roles...),
	})
	return r
}

func (f *fixture) port() int {
	f.t.Helper()
	port, err := process.ReservePort("127.0.0.1")
	f.Expect(err).NotTo(HaveOccurred())
	f.t.Cleanup(port.Release)
	return port.Number
}

// configure writes the configuration of a replica.
func (f *fixture) configure(r *replica, s settings) string {
	f.t.Helper()
	path := filepath.Join(rig.TempDir(f.t), "config.yaml")
	f.Expect(os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: config.sharding.timebertt.dev/v1alpha1
kind: SharderConfig
leaderElection:
  leaderElect: true
  resourceNamespace: %s
  resourceName: sharder
  resourceLock: leases
  leaseDuration: 6s
  renewDeadline: 5s
  retryPeriod: 500ms
health: {bindAddress: "127.0.0.1:%d"}
metrics: {bindAddress: "127.0.0.1:%d"}
%s
webhook:
  config:
    clientConfig:
      url: https://127.0.0.1:%d
%s
`, f.Namespace, r.health, r.metrics, s.config, r.webhook, s.webhook), 0o600)).To(Succeed())
	return path
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
