package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func kubectl(t *testing.T, r *rig.Rig, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(rig.Assets(t), "kubectl"), append([]string{"--kubeconfig", r.Kubeconfig}, args...)...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

// TestSamples applies the sample manifests: three regions of one system, each with an operator that has
// permissions only in its own namespace.
func TestSamples(t *testing.T) {
	g, r := NewWithT(t), rig.Private(t, rig.Options{})
	for _, folder := range []string{"config/crds", "config/samples", "config/samples/store"} {
		g.Expect(kubectl(t, r, "apply", "-k", folder)).NotTo(ContainSubstring("Warning"), folder)
		kubectl(t, r, "wait", "--for=condition=Established", "crd/etcdclusters.etcdcluster.timebertt.dev")
	}
	clusters := &etcdclusterv1alpha1.EtcdClusterList{}
	g.Expect(r.Client.List(t.Context(), clusters)).To(Succeed())
	bootstraps := map[string]bool{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		g.Expect(cluster.SystemName()).To(Equal("orders"))
		g.Expect(string(cluster.Spec.ProcessGroupIDPrefix)).To(Equal(cluster.Namespace))
		g.Expect(cluster.Spec.Seeds).To(Equal(clusters.Items[0].Spec.Seeds))
		bootstraps[cluster.Namespace] = cluster.Spec.Bootstrap
	}
	g.Expect(bootstraps).To(Equal(map[string]bool{"dc1": true, "dc2": false, "dc3": false}))

	config, err := r.TokenRESTConfig(t.Context(), "dc1", "etcdcluster-operator")
	g.Expect(err).NotTo(HaveOccurred())
	operator, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(operator.List(t.Context(), clusters, client.InNamespace("dc1"))).To(Succeed())
	cluster := clusters.Items[0].DeepCopy()
	before := client.MergeFrom(cluster.DeepCopy())
	cluster.Status.Waiting = "nothing"
	g.Expect(operator.Status().Patch(t.Context(), cluster, before)).To(Succeed())
	g.Expect(operator.Delete(t.Context(), cluster)).To(Satisfy(apierrors.IsForbidden))
	g.Expect(operator.List(t.Context(), clusters, client.InNamespace("dc2"))).To(Satisfy(apierrors.IsForbidden))
	g.Expect(operator.List(t.Context(), clusters)).To(Satisfy(apierrors.IsForbidden))

	clients, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = clients.CoordinationV1().Leases("etcdcluster-store").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = clients.CoordinationV1().Leases("dc1").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).To(Satisfy(apierrors.IsForbidden))
}

// TestStoreRole compares the role in the sample with the role that the store needs.
func TestStoreRole(t *testing.T) {
	read := func(path string) (role rbacv1.Role) {
		content, err := os.ReadFile(path)
		if err == nil {
			err = yaml.UnmarshalStrict(content, &role)
		}
		if err != nil {
			t.Fatal(err)
		}
		return role
	}
	want, have := read("../../pkg/coordination/kubestore/role.yaml"), read("config/samples/store/role.yaml")
	if diff := cmp.Diff(want.Rules, have.Rules); diff != "" {
		t.Error(diff)
	}
}

// TestFlags parses valid and invalid flags.
func TestFlags(t *testing.T) {
	const enough = "--namespace=dc1"
	for name, test := range map[string]struct{ args, want string }{
		"enough":               {enough, ""},
		"no namespace":         {"", "--namespace is missing"},
		"an unknown store":     {enough + " --store=paper", "neither system nor kubernetes"},
		"half a store":         {enough + " --store=kubernetes", "go together"},
		"a store elsewhere":    {enough + " --store=kubernetes --store-namespace=store", ""},
		"an unknown flag":      {enough + " --fast", "see etcdcluster --help"},
		"an unneeded argument": {enough + " now", "unexpected argument"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(strings.Fields(test.args), t.Output())
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	output := &strings.Builder{}
	if _, err := parse([]string{"--help"}, output); !errors.Is(err, flag.ErrHelp) || !strings.Contains(output.String(), "etcdcluster") {
		t.Errorf("%v: it says %q", err, output)
	}
}
