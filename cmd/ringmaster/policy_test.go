package main_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

const protectedRing = ringFile + `  shards: {serviceAccounts: [{namespace: here, name: operator}]}
`

// TestPolicy applies what the command prints, and prints it again: the API server has changed nothing.
func TestPolicy(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := declare(t, r), newCLIUser(t, r)
	_, stderr, err := user.ringmaster("", "policy", ring.Name)
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring("set spec.shards.serviceAccounts"))

	ring.Spec.Shards = &shardingv1alpha1.RingShards{ServiceAccounts: []shardingv1alpha1.ServiceAccount{{Namespace: r.Namespace, Name: "operator"}}}
	g.Expect(r.Client.Update(t.Context(), ring)).To(Succeed())
	printed, stderr, err := user.ringmaster("", "policy", ring.Name)
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	user.kubectlApply(printed)
	ofRing := client.MatchingLabels{shardingv1alpha1.LabelControllerRing: ring.Name}
	t.Cleanup(func() {
		for _, object := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}} {
			g.Expect(r.Client.DeleteAllOf(context.WithoutCancel(t.Context()), object, ofRing)).To(Succeed())
		}
	})
	bindings := &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{}
	g.Expect(r.Client.List(t.Context(), bindings, ofRing)).To(Succeed())
	g.Expect(bindings.Items).To(HaveLen(5))
	for i := range bindings.Items {
		g.Expect(bindings.Items[i].Spec.ValidationActions).To(ConsistOf(admissionregistrationv1.Deny))
	}
}

func TestPolicyOptions(t *testing.T) {
	nowhere := &cliUser{t: t, kubeconfig: "/nonexistent"}
	for name, test := range map[string]struct {
		args          []string
		prints, lacks []string
	}{
		"by default":               {nil, []string{"- Deny", "from-file-scale", "system:serviceaccount:sharding-system:sharder"}, []string{"- Warn", "params"}},
		"audit":                    {[]string{"--audit"}, []string{"- Audit", "- Warn"}, []string{"- Deny"}},
		"allow scale":              {[]string{"--allow-scale"}, nil, []string{"from-file-scale"}},
		"another sharder":          {[]string{"--sharder", "there/mover"}, []string{"system:serviceaccount:there:mover"}, []string{"sharding-system:sharder"}},
		"in-process":               {[]string{"--in-process"}, []string{"name: from-file-sharder\n    namespace: here", "from-file-election"}, []string{"sharding-system:sharder"}},
		"in-process, another name": {[]string{"--in-process", "--election", "there/lead"}, []string{"name: lead\n    namespace: there"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			printed, stderr, err := nowhere.ringmaster(protectedRing, append([]string{"policy", "-f", "-"}, test.args...)...)
			g.Expect(err).NotTo(HaveOccurred(), stderr)
			for _, text := range test.prints {
				g.Expect(printed).To(ContainSubstring(text))
			}
			for _, text := range test.lacks {
				g.Expect(printed).NotTo(ContainSubstring(text))
			}
		})
	}
	for name, test := range map[string]struct {
		ring string
		args []string
		want string
	}{
		"no accounts":                {ringFile, nil, "set spec.shards.serviceAccounts"},
		"election without a sharder": {protectedRing, []string{"--election", "a/b"}, "--election requires --in-process"},
		"invalid election":           {protectedRing, []string{"--in-process", "--election", "b"}, "must be NAMESPACE/NAME"},
		"invalid sharder":            {protectedRing, []string{"--sharder", "a/b/c"}, "must be NAMESPACE/NAME"},
		"two namespaces":             {protectedRing + "  shardNamespaces: [here, there]\n", []string{"--in-process"}, "name the election Lease with --election"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, stderr, err := nowhere.ringmaster(test.ring, append([]string{"policy", "-f", "-"}, test.args...)...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring(test.want))
			g.Expect(out).To(BeEmpty(), "kubectl would apply it")
		})
	}
}
