package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// declare creates a ring of ConfigMaps with Deployments, with the name of the namespace of the test.
func declare(t *testing.T, r *rig.Rig) *shardingv1alpha1.ControllerRing {
	t.Helper()
	ring := &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: r.Namespace},
		Spec: shardingv1alpha1.ControllerRingSpec{Resources: []shardingv1alpha1.RingResource{{
			GroupResource:       shardingv1alpha1.GroupResource{Resource: "configmaps"},
			ControlledResources: []shardingv1alpha1.GroupResource{{Group: "apps", Resource: "deployments"}},
		}}},
	}
	if err := r.Client.Create(t.Context(), ring); err != nil {
		t.Fatal(err)
	}
	return ring
}

// may asks the API server whether a ServiceAccount has a permission.
func may(t *testing.T, r *rig.Rig, account, verb, group, resource, namespace string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + account,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Namespace: namespace,
		},
	}}
	if err := r.Client.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func TestRoleForSharder(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, person := declare(t, r), newCLIUser(t, r)
	printed, stderr, err := person.ringmaster("", "role", ring.Name)
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	person.kubectlApply(printed)

	const sharder = "sharding-system:sharder"
	g.Eventually(func() bool { return may(t, r, sharder, "patch", "apps", "deployments", "") }, "10s").Should(BeTrue())
	for _, verb := range []string{"list", "patch"} {
		g.Expect(may(t, r, sharder, verb, "", "configmaps", "")).To(BeTrue(), verb)
	}
	for _, verb := range []string{"get", "watch", "create", "update", "delete", "deletecollection"} {
		g.Expect(may(t, r, sharder, verb, "", "configmaps", "")).To(BeFalse(), verb)
	}
	g.Expect(may(t, r, sharder, "list", "", "secrets", "")).To(BeFalse())
	g.Expect(may(t, r, sharder, "patch", "apps", "statefulsets", "")).To(BeFalse())
}

func TestRoleForShards(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, person := declare(t, r), newCLIUser(t, r)
	for _, account := range []string{"one", "two"} { // which share the roles
		printed, stderr, err := person.ringmaster("", "role", ring.Name, "--shard", r.Namespace+"/"+account)
		g.Expect(err).NotTo(HaveOccurred(), stderr)
		person.kubectlApply(printed)
	}
	for _, name := range []string{"one", "two"} {
		account := r.Namespace + ":" + name
		g.Eventually(func() bool { return may(t, r, account, "watch", "apps", "deployments", "") }, "10s").Should(BeTrue())
		g.Expect(may(t, r, account, "patch", "", "configmaps", "")).To(BeTrue())
		g.Expect(may(t, r, account, "list", "coordination.k8s.io", "leases", r.Namespace)).To(BeTrue())
		g.Expect(may(t, r, account, "list", "coordination.k8s.io", "leases", "default")).To(BeFalse(), "Leases of others")
		g.Expect(may(t, r, account, "delete", "coordination.k8s.io", "leases", r.Namespace)).To(BeFalse())
		g.Expect(may(t, r, account, "delete", "", "configmaps", "")).To(BeFalse(), "what the controller does is its own business")
	}
}

const ringFile = `
apiVersion: sharding.timebertt.dev/v1alpha1
kind: ControllerRing
metadata: {name: from-file}
spec:
  resources:
  - {group: apps, resource: deployments}
`

// TestRoleWithoutCluster reads the ring from a file or from standard input.
func TestRoleWithoutCluster(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(rig.TempDir(t), "ring.yaml")
	g.Expect(os.WriteFile(file, []byte(ringFile), 0o600)).To(Succeed())
	nowhere := &cliUser{t: t, kubeconfig: "/nonexistent"}
	fromFile, stderr, err := nowhere.ringmaster("", "role", "-f", file)
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(fromFile).To(ContainSubstring("sharding:sharder:from-file"))
	fromInput, stderr, err := nowhere.ringmaster(ringFile, "role", "from-file", "-f", "-")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(fromInput).To(Equal(fromFile))
}

// TestRoleWarns has a namespace from which the ring accepts no shards. The roles are printed, because the ring may be
// about to change.
func TestRoleWarns(t *testing.T) {
	g := NewWithT(t)
	nowhere := &cliUser{t: t, kubeconfig: "/nonexistent"}
	const picky = ringFile + "  shardNamespaces: [here, there]\n"
	printed, stderr, err := nowhere.ringmaster(picky, "role", "-f", "-", "--shard", "elsewhere")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stderr).To(And(ContainSubstring("only from the namespaces here, there"), ContainSubstring("add elsewhere")))
	g.Expect(printed).To(ContainSubstring("kind: RoleBinding"))
	_, stderr, err = nowhere.ringmaster(picky, "role", "-f", "-", "--shard", "there")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	g.Expect(stderr).To(BeEmpty())
}

// TestRoleSelectsCluster uses the flags of kubectl.
func TestRoleSelectsCluster(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	ring, user := declare(t, r), newCLIUser(t, r)
	nowhere := &cliUser{t: t, kubeconfig: "/nonexistent"}
	_, stderr, err := nowhere.ringmaster("", "role", ring.Name, "--kubeconfig", user.kubeconfig, "--context", "ringmaster")
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	_, stderr, err = user.ringmaster("", "role", ring.Name, "--context", "elsewhere")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring(`context "elsewhere" does not exist`))
}

func TestRoleRefuses(t *testing.T) {
	r := rig.Shared(t)
	ring, user := declare(t, r), newCLIUser(t, r)
	empty := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: ring.Name + "-empty"}}
	if err := r.Client.Create(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no name":                   {nil, "no ring selected"},
		"in-process without a name": {[]string{"--in-process", "--shard", "there"}, "for an in-process sharder, set the file of the ring with -f"},
		"in-process without shards": {[]string{"--in-process"}, "--in-process requires --shard with the namespace of the shards"},
		"unknown ring":              {[]string{"elsewhere"}, `ControllerRing not found: "elsewhere" (available: `},
		"unknown ring, in-process":  {[]string{"elsewhere", "--in-process", "--shard", "there"}, "for an in-process sharder, set the file of the ring with -f"},
		"ring without resources":    {[]string{empty.Name}, "lists no resources"},
		"file not found":            {[]string{"-f", "/nonexistent"}, "no such file"},
		"invalid namespace":         {[]string{ring.Name, "--shard", "Not_a_namespace"}, "is not a valid namespace"},
		"invalid ServiceAccount":    {[]string{ring.Name, "--shard", "there/NOBODY"}, "is not a valid ServiceAccount"},
		"empty namespace":           {[]string{ring.Name, "--shard", ""}, "is not a valid namespace"},
		"two rings":                 {[]string{"one", "two"}, "See 'ringmaster role --help'"},
		"kubeconfig not found":      {[]string{ring.Name, "--kubeconfig", "/nonexistent"}, "reading the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, stderr, err := user.ringmaster("", append([]string{"role"}, test.args...)...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(stderr).To(ContainSubstring(test.want))
			g.Expect(out).To(BeEmpty(), "kubectl would apply it")
		})
	}
}

// TestRoleWithoutCRD has a cluster without the CRD.
func TestRoleWithoutCRD(t *testing.T) {
	g := NewWithT(t)
	user := newCLIUser(t, rig.Private(t, rig.Options{}))
	_, stderr, err := user.ringmaster("", "role", "webhosting")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(ContainSubstring("install the sharder first"), fmt.Sprint(err))
	_, stderr, err = user.ringmaster("", "role", "webhosting", "--in-process", "--shard", "there")
	g.Expect(err).To(HaveOccurred())
	g.Expect(stderr).To(And(ContainSubstring("does not serve ControllerRings; for an in-process sharder, set the file of the ring with -f"),
		Not(ContainSubstring("install the sharder"))))
}
