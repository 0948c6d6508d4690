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

// labelled makes n ConfigMaps as a ring leaves them: with a shard, some with a drain as well, some with
// only that, and each with labels that are none of our business.
func labelled(t *testing.T, r *rig.Rig, n int) {
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

// left counts the ConfigMaps that have a label of the ring.
func left(t *testing.T, r *rig.Rig) (n int) {
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

// TestUnlabelAfterTheRing finds the objects of a ring that is gone, more than a page of them, while
// somebody else writes them too.
func TestUnlabelAfterTheRing(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	somebody := newPerson(t, r)
	const n = 700
	labelled(t, r, n)
	// Something without a namespace too.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"shard"}}}`, shardingv1alpha1.LabelShard(r.Namespace))
	g.Expect(r.Client.Patch(t.Context(), namespace, client.RawPatch("application/merge-patch+json", patch))).To(Succeed())

	out, said, err := somebody.types("", "unlabel", r.Namespace, "--dry-run")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(out).To(And(
		MatchRegexp(`looking at all \d\d+ resources`),
		ContainSubstring(fmt.Sprintf("configmaps: %d with labels", n)),
		ContainSubstring("Nothing was changed"),
	))
	g.Expect(left(t, r)).To(Equal(n))

	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for i := 0; ; i = (i + 7) % n {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // the API server has other things to do
			}
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: fmt.Sprintf("object-%d", i)}}
			patch := fmt.Appendf(nil, `{"data":{"written":"%d"}}`, i)
			_ = r.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", patch))
		}
	})
	out, said, err = somebody.types("", "unlabel", r.Namespace)
	close(stop)
	others.Wait()
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(out).To(And(
		ContainSubstring(fmt.Sprintf("configmaps: %d unlabelled", n)),
		ContainSubstring("namespaces: 1 unlabelled"),
		ContainSubstring(fmt.Sprintf("from %d objects", n+1)),
	))
	g.Expect(left(t, r)).To(BeZero())

	// The second time there is nothing, and it might as well be a name that was misspelt.
	_, said, err = somebody.types("", "unlabel", r.Namespace, "--resource", "configmaps")
	g.Expect(err).To(HaveOccurred())
	g.Expect(said).To(And(
		ContainSubstring("there is nothing of a ring "+r.Namespace),
		ContainSubstring("in 1 resource; but objects have labels of: another"),
		ContainSubstring("If the labels were removed before"),
	))
	// A file says that there was such a ring.
	out, said, err = somebody.types(strings.ReplaceAll(ringFile, "from-file", r.Namespace), "unlabel", "-f", "-")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(out).To(ContainSubstring("from 0 objects; resources looked at: 1"))
}

// TestUnlabelMisspelt fails for a ring that there never was, and says which there are.
func TestUnlabelMisspelt(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	somebody := newPerson(t, r)
	labelled(t, r, 3)
	shard := "shard-0"
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: shard,
		Labels: map[string]string{shardingv1alpha1.LabelControllerRing: r.Namespace + "-joined"},
	}}
	g.Expect(r.Client.Create(t.Context(), lease)).To(Succeed())
	for _, args := range [][]string{{"misspelt"}, {"misspelt", "--dry-run"}} {
		out, said, err := somebody.types("", append([]string{"unlabel", "--resource", "configmaps"}, args...)...)
		g.Expect(err).To(HaveOccurred())
		g.Expect(out).To(BeEmpty(), "nothing that sounds like success")
		g.Expect(said).To(And(ContainSubstring("objects have labels of: another, "), ContainSubstring(r.Namespace+"-joined")))
	}
	out, said, err := somebody.types("", "unlabel", r.Namespace+"-joined", "--resource", "configmaps")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(out).To(ContainSubstring("from 0 objects"), "there are shards, so there is such a ring")
}

// TestUnlabelRefusesLiveShards stops before it takes away what somebody works on.
func TestUnlabelRefusesLiveShards(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, somebody := declare(t, r), newPerson(t, r)
	labelled(t, r, 20)
	shard := "shard-0"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: shard,
			Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &shard},
	}
	g.Expect(r.Client.Create(t.Context(), lease)).To(Succeed())

	_, said, err := somebody.types("", "unlabel", ring.Name)
	g.Expect(err).To(HaveOccurred())
	g.Expect(said).To(And(ContainSubstring("has live shards: "+r.Namespace+"/shard-0"), ContainSubstring("--force")))
	out, said, err := somebody.types("", "unlabel", ring.Name, "--dry-run")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(out).To(ContainSubstring("20 objects have labels of the ring "+ring.Name+"; resources looked at: 2"), "the ring's resources, and no others")

	g.Expect(r.Client.Delete(t.Context(), ring)).To(Succeed())
	_, said, err = somebody.types("", "unlabel", ring.Name)
	g.Expect(err).To(HaveOccurred())
	g.Expect(said).To(ContainSubstring("is gone, but shards of it hold their Leases"))
	g.Expect(left(t, r)).To(Equal(20))

	out, said, err = somebody.types("", "unlabel", ring.Name, "--force", "--resource", "configmaps")
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(out).To(ContainSubstring("configmaps: 20 unlabelled"))
	g.Expect(left(t, r)).To(BeZero())
}

// TestUnlabelFails says what it could not do, and does the rest.
func TestUnlabelFails(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	somebody := newPerson(t, r)
	labelled(t, r, 10)
	somebody.applies(fmt.Sprintf(refusal, r.Namespace))
	g.Eventually(func() error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "object-3"}}
		return r.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"b"}}`)), client.DryRunAll)
	}, "10s").ShouldNot(Succeed(), "the policy is in force")
	out, said, err := somebody.types("", "unlabel", r.Namespace, "--resource", "configmaps,secrets")
	g.Expect(err).To(HaveOccurred())
	g.Expect(out).To(ContainSubstring("configmaps: 9 unlabelled, 1 still have labels"))
	g.Expect(said).To(And(ContainSubstring("configmaps "+r.Namespace+"/object-3: "), ContainSubstring("is a policy"), ContainSubstring("Run it again")))
	g.Expect(left(t, r)).To(Equal(1))
}

// refusal is a policy against writing one of the objects in a namespace.
const refusal = `
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

// TestUnlabelIsUndone stops when the ring still assigns objects, which a policy plays here.
func TestUnlabelIsUndone(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	somebody := newPerson(t, r)
	labelled(t, r, 600)
	somebody.applies(fmt.Sprintf(assignment, r.Namespace))
	g.Eventually(func() map[string]string {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, GenerateName: "probe-"}}
		g.Expect(r.Client.Create(t.Context(), object)).To(Succeed())
		return object.Labels
	}, "10s").Should(HaveKey(shardingv1alpha1.LabelShard(r.Namespace)))
	_, said, err := somebody.types("", "unlabel", r.Namespace, "--resource", "configmaps")
	g.Expect(err).To(HaveOccurred())
	g.Expect(said).To(And(ContainSubstring("the ring's webhook puts the labels back"), ContainSubstring("kubectl delete controllerring")))
}

// assignment labels every object of a namespace that has no shard, as a ring's webhook does.
const assignment = `
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
	somebody := newPerson(t, rig.Shared(t))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no name":                {nil, "which ring?"},
		"a name that cannot be":  {[]string{"A=B"}, "cannot be the name of a ring"},
		"an unknown resource":    {[]string{"ring", "--resource", "things.example.com"}, `does not know the resource "things.example.com"`},
		"a file without a ring":  {[]string{"-f", "/dev/null"}, "no ControllerRing"},
		"a cluster that is away": {[]string{"ring", "--context", "elsewhere"}, `context "elsewhere" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, said, err := somebody.types("", append([]string{"unlabel"}, test.args...)...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(said).To(ContainSubstring(test.want))
		})
	}
}
