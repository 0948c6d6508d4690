package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/webhosting/config"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

func (f *fixture) kubectl(args ...string) string {
	f.t.Helper()
	command := exec.CommandContext(f.t.Context(), filepath.Join(rig.Assets(f.t), "kubectl"), append([]string{"--kubeconfig", f.Kubeconfig}, args...)...)
	output, err := command.CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(output))
	return string(output)
}

// TestManifests applies the manifests of each mode, one after the other.
func TestManifests(t *testing.T) {
	f := setUp(t, rig.Private(t, rig.Options{CRDs: []string{"config/crds"}}))
	for _, mode := range []string{"lead", "in-process", "shard"} {
		f.Expect(f.kubectl("apply", "-k", "config/"+mode)).NotTo(ContainSubstring("Warning"), mode)
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "webhosting-system", Name: "webhosting-operator"}}
		container := refresh(f, deployment).Spec.Template.Spec.Containers[0]
		f.Expect(container.Args).To(Equal([]string{"--mode=" + mode}))
		_, err := parse(container.Args, io.Discard)
		f.Expect(err).NotTo(HaveOccurred())
	}
	ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: "webhosting-operator"}}
	f.Expect(refresh(f, ring).Spec.NamespaceSelector).To(Equal(projects()), "both kinds of sharder assign the same objects")

	f.Expect(f.kubectl("apply", "-k", "config/samples")).NotTo(ContainSubstring("Warning"))
	websites, themes, namespaces := &webhostingv1alpha1.WebsiteList{}, &webhostingv1alpha1.ThemeList{}, &corev1.NamespaceList{}
	f.Expect(f.Client.List(t.Context(), websites)).To(Succeed())
	f.Expect(f.Client.List(t.Context(), themes)).To(Succeed())
	f.Expect(f.Client.List(t.Context(), namespaces, client.MatchingLabels(projects().MatchLabels))).To(Succeed())
	f.Expect([]int{len(websites.Items), len(themes.Items), len(namespaces.Items)}).To(Equal([]int{12, 3, 3}))
	known := map[string]bool{}
	for _, theme := range themes.Items {
		known[theme.Name] = true
	}
	for _, site := range websites.Items {
		f.Expect(known).To(HaveKey(site.Spec.Theme), site.Name)
	}
}

// TestRestrictedPods creates a pod in a namespace with the Pod Security Standard restricted.
func TestRestrictedPods(t *testing.T) {
	f := setUp(t, rig.Shared(t))
	f.start()
	f.theme("exciting", "darkcyan")
	site := f.website("homepage", "exciting")
	f.waitForPhase(site, webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing)
	template := f.children(f, site).workload.Spec.Template

	strict := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "strict-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	f.Expect(f.Client.Create(t.Context(), strict)).To(Succeed())
	f.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: strict.Name, Name: "default"}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: strict.Name, Name: "pod", Labels: template.Labels}, Spec: template.Spec}
	f.Expect(f.Client.Create(t.Context(), pod)).To(Succeed())
	f.Expect(ptr.Deref(pod.Spec.SecurityContext.RunAsNonRoot, false)).To(BeTrue())
}

// TestSharderRole compares the role of the external sharder with the output of `ringmaster role`.
func TestSharderRole(t *testing.T) {
	ring := &shardingv1alpha1.ControllerRing{}
	if err := decode(t, "ring/ring.yaml")(ring); err != nil {
		t.Fatal(err)
	}
	next := decode(t, "ring/sharder-role.yaml")
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	leases, leasesBinding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	if err := errors.Join(next(role), next(binding), next(leases), next(leasesBinding)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(roles.ForSharder(ring), []runtime.Object{role, binding, leases, leasesBinding}); diff != "" {
		t.Errorf("run `ringmaster role -f examples/webhosting/config/ring/ring.yaml` (-want +got):\n%s", diff)
	}
}

// TestInstanceRoles expects that an instance has all permissions that the in-process sharder needs.
func TestInstanceRoles(t *testing.T) {
	ring := &shardingv1alpha1.ControllerRing{}
	if err := decode(t, "ring/ring.yaml")(ring); err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for _, file := range []string{"rbac/role.yaml", "rbac/leases.yaml", "in-process/sharder-role.yaml"} {
		next := decode(t, file)
		for {
			role := &rbacv1.ClusterRole{} // or a Role, whose rules are the same, or a binding, which has none
			if next(role) != nil {
				break
			}
			for _, permission := range permissions(role.Rules) {
				granted[permission] = true
			}
		}
	}
	for _, object := range roles.ForInstances(ring, types.NamespacedName{Namespace: "webhosting-system", Name: "webhosting-operator"}) {
		var needed []string
		switch role := object.(type) {
		case *rbacv1.Role:
			needed = permissions(role.Rules)
		case *rbacv1.ClusterRole:
			needed = permissions(role.Rules)
		}
		for _, permission := range needed {
			if !granted[permission] {
				t.Errorf("%s is not granted", permission)
			}
		}
	}
}

// permissions expands rules to single permissions.
func permissions(rules []rbacv1.PolicyRule) (all []string) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, fmt.Sprintf("%s %s.%s %v", verb, resource, group, rule.ResourceNames))
				}
			}
		}
	}
	return all
}

// decode reads the objects of a file, one after the other.
func decode(t *testing.T, file string) func(any) error {
	t.Helper()
	content, err := config.Files.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const buffer = 4096
	return yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), buffer).Decode
}

// TestManifestsAreEmbedded expects that all manifests of the kustomizations are embedded.
func TestManifestsAreEmbedded(t *testing.T) {
	for _, folder := range []string{"crds", "rbac", "operator", "ring", "samples", "lead", "shard", "in-process"} {
		list := struct {
			Resources []string
			Patches   []struct{ Path string }
		}{}
		if err := decode(t, folder+"/kustomization.yaml")(&list); err != nil {
			t.Fatal(err)
		}
		for _, patch := range list.Patches {
			list.Resources = append(list.Resources, patch.Path)
		}
		for _, name := range list.Resources {
			if strings.HasPrefix(name, "../") {
				name += "/kustomization.yaml"
			}
			if _, err := config.Files.ReadFile(filepath.Join(folder, name)); err != nil {
				t.Error(err)
			}
		}
	}
}
