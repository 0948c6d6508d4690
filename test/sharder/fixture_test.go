package sharder_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{CRDs: []string{"config/crds"}})
}

const (
	testTimeout = rig.Timeout
	// leaseSeconds is short, so that tests do not wait long for a death.
	leaseSeconds = 3
)

// fixture is a ring with its sharder. The test acts as the shards, so that it can make them fail.
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
	f.SetDefaultEventuallyTimeout(testTimeout)
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

// start runs a replica of the sharder, with the roles from config/ and one for the ring.
func (f *fixture) start(name string, roles ...string) *rig.Sharder {
	f.t.Helper()
	return f.run(rig.SharderOptions{Name: name, Roles: roles})
}

// run runs a replica with options, and with a short election so that the next one leads soon.
func (f *fixture) run(options rig.SharderOptions) *rig.Sharder {
	f.t.Helper()
	options.Config += `
leaderElection: {leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 500ms}
`
	return f.StartSharder(f.t, options)
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
