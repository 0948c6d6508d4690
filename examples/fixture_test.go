package examples_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
	timeout = rig.Timeout
	ring    = "budget"
)

var labelShard, labelDrain = shardingv1alpha1.LabelShard(ring), shardingv1alpha1.LabelDrain(ring)

// fixture is a cluster with the ring of the examples.
type fixture struct {
	*rig.Rig
	*WithT
	t *testing.T
}

func setUp(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Rig: rig.Shared(t), WithT: NewWithT(t), t: t}
	f.SetDefaultEventuallyTimeout(timeout)
	f.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	f.Expect(f.kubectl("apply", "-k", "plain/config")).NotTo(ContainSubstring("Warning"), "of the manifests")
	f.Expect(f.kubectl("label", "namespace", f.Namespace, "budget.example.ringmaster=true")).To(ContainSubstring("labeled"))
	// The shards are processes with Leases in the test's namespace.
	f.kubectl("patch", "controllerring", ring, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"shardNamespaces":[%q]}}`, f.Namespace))
	return f
}

func (f *fixture) kubectl(args ...string) string {
	f.t.Helper()
	command := exec.CommandContext(f.t.Context(), filepath.Join(rig.Assets(f.t), "kubectl"), append([]string{"--kubeconfig", f.Kubeconfig}, args...)...)
	output, err := command.CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// startSharder runs the sharder with its own roles and the one for the ring.
func (f *fixture) startSharder() {
	f.t.Helper()
	f.StartSharder(f.t, rig.SharderOptions{Roles: []string{"examples/budget/config/sharder-role.yaml"}})
}

// shardRole is the role of the shards in the examples' manifests.
const shardRole = "examples/budget/config/shard-role.yaml"

func (f *fixture) startBudget(name, role string) *rig.Running {
	f.t.Helper()
	return f.start("budget", name, role, "--metrics-address=0")
}

func (f *fixture) startPlain(name, role string) *rig.Running {
	f.t.Helper()
	return f.start("plain", name, role)
}

func (f *fixture) start(example, name, role string, args ...string) *rig.Running {
	f.t.Helper()
	return f.Start(f.t, rig.Process{
		Name: name, ServiceAccount: strings.TrimSuffix(filepath.Base(role), ".yaml"),
		Binary: rig.Build(f.t, "./examples/"+example, rig.Race),
		Args: append([]string{
			"--lease-duration=8s", "--renew-deadline=6s", "--retry-period=500ms", "--health-address=127.0.0.1:0",
		}, args...),
		Roles: []string{role},
	})
}

// awaitMembers waits until the ring has n available shards.
func (f *fixture) awaitMembers(n int) {
	f.t.Helper()
	f.Eventually(func(g Gomega) int {
		found := &shardingv1alpha1.ControllerRing{}
		g.Expect(f.Client.Get(f.t.Context(), client.ObjectKey{Name: ring}, found)).To(Succeed())
		return int(found.Status.AvailableShards)
	}).Should(Equal(n))
}

func (f *fixture) deploy(from, n int) {
	f.t.Helper()
	for i := from; i < from+n; i++ {
		labels := map[string]string{"app": fmt.Sprintf("app-%d", i)}
		f.Expect(f.Client.Create(f.t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: labels["app"]},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "none"}}},
				},
			},
		})).To(Succeed())
	}
}

// state has the objects of the test at one moment.
type state struct {
	deployments map[string]*appsv1.Deployment
	budgets     map[string]*policyv1.PodDisruptionBudget
}

func (f *fixture) read(g Gomega) state {
	deployments, budgets := &appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{}
	g.Expect(f.Client.List(context.Background(), deployments, client.InNamespace(f.Namespace))).To(Succeed())
	g.Expect(f.Client.List(context.Background(), budgets, client.InNamespace(f.Namespace))).To(Succeed())
	s := state{map[string]*appsv1.Deployment{}, map[string]*policyv1.PodDisruptionBudget{}}
	for i := range deployments.Items {
		s.deployments[deployments.Items[i].Name] = &deployments.Items[i]
	}
	for i := range budgets.Items {
		s.budgets[budgets.Items[i].Name] = &budgets.Items[i]
	}
	return s
}

// one returns the name of a Deployment of a shard, or "".
func (s state) one(shard string) string {
	for name, deployment := range s.deployments {
		if deployment.Labels[labelShard] == shard {
			return name
		}
	}
	return ""
}

// awaitSettled waits until n Deployments exist, each assigned to one of the given shards together with its budget, and each of these
// shards has some.
func (f *fixture) awaitSettled(n int, shards ...string) state {
	f.t.Helper()
	var s state
	f.Eventually(func(g Gomega) {
		s = f.read(g)
		g.Expect(s.deployments).To(HaveLen(n))
		shares := map[string]int{}
		for name, deployment := range s.deployments {
			shard := deployment.Labels[labelShard]
			shares[shard]++
			g.Expect(shards).To(ContainElement(shard), name)
			g.Expect(deployment.Labels).NotTo(HaveKey(labelDrain), name)
			g.Expect(s.budgets).To(HaveKey(name))
			budget := s.budgets[name]
			g.Expect(budget.Labels).To(HaveKeyWithValue(labelShard, shard), name)
			g.Expect(metav1.IsControlledBy(budget, deployment)).To(BeTrue(), name)
			g.Expect(budget.Spec.MaxUnavailable.IntValue()).To(Equal(1), name)
			g.Expect(budget.Spec.Selector).To(Equal(deployment.Spec.Selector), name)
		}
		g.Expect(shares).To(HaveLen(len(shards)))
	}).Should(Succeed())
	return s
}
