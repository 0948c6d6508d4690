package main_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// createLabelled creates n ConfigMaps with the labels of a ring: most with the shard label, some with the drain label too, some
// with only the drain label, and all with labels that are not the ring's.
func createLabelled(t *testing.T, r *rig.Rig, n int) {
	t.Helper()
	var group sync.WaitGroup
	for i := range n {
		labels := map[string]string{"app": "mine", shardingv1alpha1.LabelShard("another"): "shard"}
		if i%10 != 0 {
			labels[shardingv1alpha1.LabelShard(r.Namespace)] = "shard"
		}
		if i%5 == 0 {
			labels[shardingv1alpha1.LabelDrain(r.Namespace)] = ""
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: fmt.Sprintf("object-%d", i), Labels: labels}}
		group.Go(func() {
			if err := r.Client.Create(t.Context(), object); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// countLabelled counts the ConfigMaps with a label of the ring.
func countLabelled(t *testing.T, r *rig.Rig) (n int) {
	t.Helper()
	list := &corev1.ConfigMapList{}
	if err := r.Client.List(t.Context(), list, client.InNamespace(r.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		labels := list.Items[i].Labels
		if mine := strings.HasPrefix(list.Items[i].Name, "object-"); mine && (labels["app"] == "" || labels[shardingv1alpha1.LabelShard("another")] == "") {
			t.Errorf("%s lost labels that are not the ring's: %v", list.Items[i].Name, labels)
		}
		_, shard := labels[shardingv1alpha1.LabelShard(r.Namespace)]
		_, drain := labels[shardingv1alpha1.LabelDrain(r.Namespace)]
		if shard || drain {
			n++
		}
	}
	return n
}

// TestUnlabelDeletedRing removes the labels of a deleted ring from more than one page of objects, while another client writes
// to the objects.
func TestUnlabelDeletedRing(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	user := newCLIUser(t, r)
	const n = 700
	createLabelled(t, r, n)
	// A cluster-scoped object too.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"shard"}}}`, shardingv1alpha1.LabelShard(r.Namespace))
	g.Expect(r.Client.Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())

	stdout, stderr, err := user.ringmaster("", "unlabel", r.Namespace, "--dry-run")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stdout).To(And(
		MatchRegexp(`searching all \d\d+ resources`),
		ContainSubstring(fmt.Sprintf("configmaps: %d with labels", n)),
		ContainSubstring("Nothing was changed"),
	))
	g.Expect(countLabelled(t, r)).To(Equal(n))
	stdout, stderr, err = user.ringmaster("", "unlabel", r.Namespace)
	g.Expect(err).To(HaveOccurred())
	g.Expect(stdout).To(ContainSubstring(fmt.Sprintf("configmaps: %d with labels", n)))
	g.Expect(stderr).To(And(ContainSubstring("nothing was changed"), ContainSubstring("add --yes")))
	g.Expect(countLabelled(t, r)).To(Equal(n))

	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i = (i + 7) % n {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // leave capacity to the API server
			}
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: fmt.Sprintf("object-%d", i)}}
			patch := fmt.Appendf(nil, `{"data":{"written":"%d"}}`, i)
			_ = r.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", patch))
		}
	})
	stdout, stderr, err = user.ringmaster("", "unlabel", r.Namespace, "--yes")
	close(stop)
	writer.Wait()
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stdout).To(And(
		ContainSubstring(fmt.Sprintf("configmaps: %d unlabelled", n)),
		ContainSubstring("namespaces: 1 unlabelled"),
		ContainSubstring(fmt.Sprintf("from %d objects", n+1)),
	))
	g.Expect(countLabelled(t, r)).To(BeZero())

	// The second time no label is left, so the name might be misspelt.
	_, stderr, err = user.ringmaster("", "unlabel", r.Namespace, "--resource", "configmaps", "--yes")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(And(
		ContainSubstring(fmt.Sprintf("ring %q not found", r.Namespace)),
		ContainSubstring("in 1 resource (objects have labels of: another"),
		ContainSubstring("If the labels were removed before"),
	))
	// With a file the name is known to be correct.
	stdout, stderr, err = user.ringmaster(strings.ReplaceAll(ringFile, "from-file", r.Namespace), "unlabel", "-f", "-")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stdout).To(And(ContainSubstring("0 objects have labels of the ring "), ContainSubstring("resources searched: 1"), ContainSubstring("Nothing was changed.")))
}

// TestUnlabelUnknownRing fails for a ring that never existed, and names the rings with labels.
func TestUnlabelUnknownRing(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	user := newCLIUser(t, r)
	createLabelled(t, r, 3)
	shard := "shard-0"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: shard,
		Labels: map[string]string{shardingv1alpha1.LabelControllerRing: r.Namespace + "-joined"},
	}}
	g.Expect(r.Client.Create(t.Context(), lease)).To(Succeed())
	for _, args := range [][]string{{"misspelt"}, {"misspelt", "--yes"}, {"misspelt", "--dry-run"}} {
		stdout, stderr, err := user.ringmaster("", append([]string{"unlabel", "--resource", "configmaps"}, args...)...)
		g.Expect(err).To(HaveOccurred())
		g.Expect(stdout).To(BeEmpty(), "no report of success")
		g.Expect(stderr).To(And(ContainSubstring("objects have labels of: another, "), ContainSubstring(r.Namespace+"-joined")))
	}
	stdout, stderr, err := user.ringmaster("", "unlabel", r.Namespace+"-joined", "--resource", "configmaps", "--yes")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stdout).To(ContainSubstring("from 0 objects"), "the ring has shards, so it exists")
}

// TestUnlabelRefusesLiveShards changes nothing while shards reconcile the objects.
func TestUnlabelRefusesLiveShards(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := declare(t, r), newCLIUser(t, r)
	createLabelled(t, r, 20)
	shard := "shard-0"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: shard,
			Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &shard},
	}
	g.Expect(r.Client.Create(t.Context(), lease)).To(Succeed())

	_, stderr, err := user.ringmaster("", "unlabel", ring.Name, "--yes")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(And(ContainSubstring("has live shards: "+r.Namespace+"/shard-0"), ContainSubstring("--force")))
	stdout, stderr, err := user.ringmaster("", "unlabel", ring.Name, "--dry-run")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stdout).To(ContainSubstring("20 objects have labels of the ring "+ring.Name+"; resources searched: 2"), "only the resources of the ring")

	g.Expect(r.Client.Delete(t.Context(), ring)).To(Succeed())
	_, stderr, err = user.ringmaster("", "unlabel", ring.Name, "--yes")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring("is deleted, but its shards are alive"))
	g.Expect(countLabelled(t, r)).To(Equal(20))

	stdout, stderr, err = user.ringmaster("", "unlabel", ring.Name, "--force", "--resource", "configmaps", "--yes")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stdout).To(ContainSubstring("configmaps: 20 unlabelled"))
	g.Expect(countLabelled(t, r)).To(BeZero())
}

// TestUnlabelContinuesAfterError reports the objects that it could not change, and changes the others.
func TestUnlabelContinuesAfterError(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	user := newCLIUser(t, r)
	createLabelled(t, r, 10)
	user.kubectlApply(fmt.Sprintf(refusingPolicy, r.Namespace))
	g.Eventually(func() error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "object-3"}}
		return r.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`)), client.DryRunAll)
	}, "10s").ShouldNot(Succeed(), "the policy is in force")
	stdout, stderr, err := user.ringmaster("", "unlabel", r.Namespace, "--resource", "configmaps,secrets", "--yes")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stdout).To(ContainSubstring("configmaps: 9 unlabelled, 1 still have labels"))
	g.Expect(stderr).To(And(ContainSubstring("configmaps "+r.Namespace+"/object-3: "), ContainSubstring("is a policy"), ContainSubstring("run the command again")))
	g.Expect(countLabelled(t, r)).To(Equal(1))
}

// refusingPolicy denies updates of one object in a namespace.
const refusingPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps]}
  validations:
  - {expression: "object.metadata.name != 'object-3'", message: this is a policy}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: %[1]s}
`

// TestUnlabelStopsWhenLabelsAreAddedAgain stops while the webhook of the ring assigns objects. A policy stands for the webhook.
func TestUnlabelStopsWhenLabelsAreAddedAgain(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	user := newCLIUser(t, r)
	createLabelled(t, r, 600)
	user.kubectlApply(fmt.Sprintf(assigningPolicy, r.Namespace))
	g.Eventually(func() map[string]string {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, GenerateName: "probe-"}}
		g.Expect(r.Client.Create(t.Context(), object)).To(Succeed())
		return object.Labels
	}, "10s").Should(HaveKey(shardingv1alpha1.LabelShard(r.Namespace)))
	_, stderr, err := user.ringmaster("", "unlabel", r.Namespace, "--resource", "configmaps", "--yes")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(And(ContainSubstring("the ring's webhook puts the labels back"), ContainSubstring("kubectl delete controllerring")))
}

// assigningPolicy adds the shard label to the objects of a namespace, as the webhook of a ring does.
const assigningPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{metadata: Object.metadata{labels: {"shard.alpha.sharding.timebertt.dev/%[1]s": "shard"}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  matchResources:
    namespaceSelector:
      matchLabels: {kubernetes.io/metadata.name: %[1]s}
`

func TestUnlabelRefuses(t *testing.T) {
	user := newCLIUser(t, rig.Shared(t))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no name":               {nil, "no ring given"},
		"an invalid name":       {[]string{"A=B"}, `invalid ring name "A=B"`},
		"an unknown resource":   {[]string{"ring", "--resource", "things.example.com"}, `does not know the resource "things.example.com"`},
		"a file without a ring": {[]string{"-f", "/dev/null"}, "no ControllerRing"},
		"an unknown context":    {[]string{"ring", "--context", "elsewhere"}, `context "elsewhere" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, stderr, err := user.ringmaster("", append([]string{"unlabel"}, test.args...)...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring(test.want))
		})
	}
}
