package bench

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/usage"
)

var (
	refusedFor = flag.Duration("refused-for", 5*time.Minute, "how long a policy refuses writes of an object")
	foreign    = flag.Int("foreign", 100000, "number of ConfigMaps that do not belong to a ring")
	foreignFor = flag.Duration("foreign-for", 90*time.Second, "how long to measure CPU and traffic while idle")
)

// BenchmarkRefusedObject measures the sharder while an admission policy refuses each of its writes to one object.
func BenchmarkRefusedObject(b *testing.B) {
	for b.Loop() {
		f := setUp(b)
		f.refuse("refused")
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "refused"}}
		f.Expect(f.Client.Create(b.Context(), object)).To(Succeed())
		sharder := f.sharder(5 * time.Minute)
		f.members("a", "b", "c")
		before, cpu := f.lists(mains.Resource), used(b, sharder.PID()).CPU
		time.Sleep(*refusedFor)
		f.figure(fmt.Sprintf("one refused object: LISTs of its kind in %s", *refusedFor), f.lists(mains.Resource)-before, "lists", "at most 20 in 5m [22,000]")
		f.figure("one refused object: sharder's CPU", (used(b, sharder.PID()).CPU-cpu).Seconds()/refusedFor.Seconds()*100, "%-core", "[27]")
		f.Expect(f.Client.Get(b.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
		f.Expect(object.Labels).To(BeEmpty(), "it was refused all the time")
	}
}

// refuse creates a policy that refuses all updates of an object, and waits until it is effective.
func (f *fixture) refuse(name string) {
	f.b.Helper()
	deny := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &deny,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{mains.Resource}},
				},
				ResourceNames: []string{name, "probe"},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "refused by the benchmark"}},
		},
	}
	f.Expect(f.Client.Create(f.b.Context(), policy)).To(Succeed())
	f.Expect(f.Client.Create(f.b.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})).To(Succeed())
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"}}
	f.Expect(f.Client.Create(f.b.Context(), probe)).To(Succeed())
	f.Eventually(func() error {
		change := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"data":{"n":"%d"}}`, time.Now().UnixNano()))
		return f.Client.Patch(context.Background(), probe, change)
	}).ShouldNot(Succeed())
}

// lists returns how many LISTs of a resource the API server has served.
func (f *fixture) lists(resource string) float64 {
	f.b.Helper()
	content, err := f.Clientset.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	f.Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `verb="LIST"`) && strings.Contains(line, fmt.Sprintf("resource=%q", resource)) {
			fields := strings.Fields(line)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			f.Expect(err).NotTo(HaveOccurred())
			sum += n
		}
	}
	return sum
}

// used returns what a process has used so far.
func used(b *testing.B, pid int) usage.Process {
	b.Helper()
	found, err := usage.Of(pid)
	if err != nil {
		b.Fatal(err)
	}
	return found
}

// cost is the usage during an idle period.
type cost struct {
	sharder, apiServer time.Duration
	received           float64
}

// BenchmarkForeignObjects compares idle rings without and with many objects of their controlled kind that do not belong to them.
func BenchmarkForeignObjects(b *testing.B) {
	const rings = 20
	for b.Loop() {
		f := &fixture{Rig: rig.Private(b, rig.Options{CRDs: []string{"config/crds"}}), WithT: NewWithT(b), b: b}
		f.SetDefaultEventuallyTimeout(timeout)
		for i := range rings {
			f.Expect(f.Client.Create(b.Context(), &shardingv1alpha1.ControllerRing{
				ObjectMeta: metav1.ObjectMeta{Name: f.ringNumber(i)},
				Spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{{
					GroupResource:       shardingv1alpha1.GroupResource{Resource: "secrets"},
					ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "configmaps"}},
				}}},
			})).To(Succeed())
		}
		without := f.idleCost(rings)
		f.parallel(*foreign, 16, func(i int) error {
			_, err := f.create(metav1.NamespaceDefault, fmt.Sprintf("foreign-%06d", i))
			return err
		})
		with := f.idleCost(rings)
		b.Logf("in %s while idle, without and with %d foreign objects: sharder %s and %s, API server %s and %s, received %.0f and %.0f KiB",
			*foreignFor, *foreign, without.sharder, with.sharder, without.apiServer, with.apiServer, without.received/1024, with.received/1024)
		for _, of := range []struct {
			name, unit    string
			with, without float64
		}{
			{"sharder's CPU", "x-sharder", with.sharder.Seconds(), without.sharder.Seconds()},
			{"API server's CPU", "x-apiserver", with.apiServer.Seconds(), without.apiServer.Seconds()},
			{"bytes received", "x-received", with.received, without.received},
		} {
			f.figure(fmt.Sprintf("%d foreign objects, %d idle rings: %s / without them", *foreign, rings, of.name), of.with/of.without, of.unit, "at most 1.1")
		}
	}
}

func (f *fixture) ringNumber(i int) string { return fmt.Sprintf("%s-%02d", ringName, i) }

// idleCost measures a sharder and the API server after the first resync of all rings.
func (f *fixture) idleCost(rings int) cost {
	f.b.Helper()
	proxy := f.Proxy(f.b)
	sharder := f.StartSharder(f.b, rig.SharderOptions{Roles: []string{"test/bench/testdata/ring-role.yaml"}, Shipped: true, Proxy: proxy})
	defer func() { f.Expect(sharder.Stop(f.b.Context())).To(Succeed()) }()
	for i := range rings {
		f.keepLease(f.ringNumber(i), fmt.Sprintf("shard-%02d", i))
	}
	f.Eventually(func(g Gomega) {
		declared := &shardingv1alpha1.ControllerRingList{}
		g.Expect(f.Client.List(context.Background(), declared)).To(Succeed())
		for i := range declared.Items {
			g.Expect(declared.Items[i].Status.AvailableShards).To(BeEquivalentTo(1))
		}
	}).Should(Succeed())
	time.Sleep(2 * time.Minute) // the first resync of all rings, and the API server's garbage collection after it
	_, received := proxy.Traffic()
	began := cost{used(f.b, sharder.PID()).CPU, used(f.b, f.APIServer.PID()).CPU, float64(received)}
	time.Sleep(*foreignFor)
	_, received = proxy.Traffic()
	return cost{used(f.b, sharder.PID()).CPU - began.sharder, used(f.b, f.APIServer.PID()).CPU - began.apiServer, float64(received) - began.received}
}
