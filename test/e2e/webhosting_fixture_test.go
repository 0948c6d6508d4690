//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Names in the manifests of the sample operator.
const (
	hostingManifests = "examples/webhosting/config"
	hostingSystem    = "webhosting-system"
	// operator is the name of the Deployment and of the ring.
	operator = "webhosting-operator"

	samples       = hostingManifests + "/samples"
	sampleTheme   = "exciting"
	sampleProject = "project-bakery"
	websitePods   = "app.kubernetes.io/name=website"
	readyPhase    = "--for=jsonpath={.status.phase}=Ready"
)

// overlay is a kustomization with other images. Its arguments are the manifests, the name and tag of the
// operator's image, and the image of nginx.
const overlay = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
images:
- name: docker.io/ringmaster/webhosting
  newName: %s
  newTag: %s
patches:
- target: {kind: Deployment, name: webhosting-operator}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --nginx-image=%s}
`

const lateWebsite = `
apiVersion: webhosting.timebertt.dev/v1alpha1
kind: Website
metadata: {generateName: late-, namespace: project-bakery}
spec: {theme: exciting}
`

// hosting is the sample operator in a cluster, in one of its modes.
type hosting struct {
	*cluster
	mode    mode
	web     *web
	objects dynamic.Interface
	visitor *visitor
}

func (c *cluster) objects() dynamic.Interface {
	c.Helper()
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// installOperator applies the manifests of the mode, and removes them when the test ends.
func (h *hosting) installOperator() {
	h.Helper()
	manifests := h.kubectl("", "kustomize", h.overlay())
	h.kubectl(manifests, "apply", "--server-side", "-f", "-")
	h.Cleanup(func() { h.remove(manifests) })
	h.kubectl("", "wait", "--for=condition=Established", "crd", "websites.webhosting.timebertt.dev", "themes.webhosting.timebertt.dev", "--timeout="+testTimeout.String())
	h.kubectl("", "rollout", "status", "-n", hostingSystem, "deployment/"+operator, "--timeout="+testTimeout.String())
}

// remove deletes the samples and the operator. It deletes pods first, so that namespaces are removed
// sooner.
func (h *hosting) remove(manifests string) {
	if h.Failed() {
		(&cluster{T: h.T, client: h.client, namespace: hostingSystem}).dump()
		h.dumpProjects()
	}
	h.kubectl("", "delete", "websites", "--all", "--all-namespaces", "--timeout="+testTimeout.String())
	h.kubectl("", "wait", "--for=delete", "pods", "--all-namespaces", "-l", websitePods, "--timeout="+testTimeout.String())
	h.kubectl("", "delete", "deployment", "-n", hostingSystem, operator, "--cascade=foreground", "--timeout="+testTimeout.String())
	both := manifests + "\n---\n" + h.kubectl("", "kustomize", samples)
	h.kubectl(both, "delete", "--ignore-not-found", "--timeout="+testTimeout.String(), "-f", "-")
}

// overlay writes a kustomization for the images under test, and returns its folder.
func (h *hosting) overlay() string {
	h.Helper()
	folder := h.TempDir()
	manifests, err := filepath.Abs(filepath.Join(root, hostingManifests, h.mode.name))
	if err == nil {
		manifests, err = filepath.Rel(folder, manifests) // kustomize requires a relative path
	}
	if err != nil {
		h.Fatal(err)
	}
	ours := image("webhosting")
	i := strings.LastIndex(ours, ":")
	content := fmt.Appendf(nil, overlay, manifests, ours[:i], ours[i+1:], image("nginx"))
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), content, 0o600); err != nil {
		h.Fatal(err)
	}
	return folder
}

// awaitInstances waits until the wanted number of instances is ready, one is elected if the mode has an election, and
// every Website and its children have the same live owner if the mode shards.
func (h *hosting) awaitInstances(instances int) {
	h.Helper()
	h.eventually(func(g Gomega) {
		live := h.instances(g)
		g.Expect(live).To(HaveLen(instances))
		if h.mode.elected != "" {
			g.Expect(live).To(HaveKey(h.electedInstance(g)), "the elected instance")
		}
		if h.mode.sharded {
			h.owned(g, live)
		}
	}, "%d instances are ready and all objects have an owner", instances)
}

// instances are the pods of the operator, all of which must be ready, and shards if the mode shards.
func (h *hosting) instances(g Gomega) map[string]int {
	pods, err := h.client.CoreV1().Pods(hostingSystem).List(h.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + operator})
	g.Expect(err).NotTo(HaveOccurred())
	live := map[string]int{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		g.Expect(pod.DeletionTimestamp).To(BeNil(), "pod %s is being deleted", pod.Name)
		g.Expect(ready(pod)).To(BeTrue(), "pod %s is not ready", pod.Name)
		live[pod.Name] = 0
		if !h.mode.sharded {
			continue
		}
		lease, err := h.client.CoordinationV1().Leases(hostingSystem).Get(h.Context(), pod.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(lease.Labels).To(HaveKeyWithValue(shardingv1alpha1.LabelControllerRing, operator))
		g.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(pod.Name)))
	}
	return live
}

// electedInstance is the pod that holds the common Lease.
func (h *hosting) electedInstance(g Gomega) string {
	lease, err := h.client.CoordinationV1().Leases(hostingSystem).Get(h.Context(), h.mode.elected, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	g.Expect(name).NotTo(BeEmpty(), "the Lease has no holder")
	return name
}

// websites are the sharded objects, and children the resources of their children.
var (
	websites = schema.GroupVersionResource{Group: "webhosting.timebertt.dev", Version: "v1alpha1", Resource: "websites"}
	themes   = websites.GroupVersion().WithResource("themes")
	children = []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "services"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	}
)

// owned expects that every Website and its children have the same live owner, and counts the Websites of each owner.
func (h *hosting) owned(g Gomega, live map[string]int) map[string]int {
	all, err := h.objects.Resource(websites).List(h.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).NotTo(BeEmpty())
	shards := map[string]string{}
	for i := range all.Items {
		website := &all.Items[i]
		shard := website.GetLabels()[shardingv1alpha1.LabelShard(operator)]
		g.Expect(live).To(HaveKey(shard), "the shard of %s/%s", website.GetNamespace(), website.GetName())
		g.Expect(website.GetLabels()).NotTo(HaveKey(shardingv1alpha1.LabelDrain(operator)), "%s/%s is not drained yet", website.GetNamespace(), website.GetName())
		shards[string(website.GetUID())] = shard
		live[shard]++
	}
	for _, resource := range children {
		found, err := h.objects.Resource(resource).List(h.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=" + operator})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(found.Items).To(HaveLen(len(shards)), "%s", resource.Resource)
		for i := range found.Items {
			object := &found.Items[i]
			owner := metav1.GetControllerOf(object)
			g.Expect(owner).NotTo(BeNil(), "the owner of %s %s", resource.Resource, object.GetName())
			g.Expect(object.GetLabels()).To(HaveKeyWithValue(shardingv1alpha1.LabelShard(operator), shards[string(owner.UID)]), "%s %s", resource.Resource, object.GetName())
			g.Expect(object.GetLabels()).NotTo(HaveKey(shardingv1alpha1.LabelDrain(operator)), "%s %s is not drained yet", resource.Resource, object.GetName())
		}
	}
	return live
}

// dumpProjects logs the contents of the namespaces with Websites.
func (h *hosting) dumpProjects() {
	all, err := h.objects.Resource(websites).List(context.WithoutCancel(h.Context()), metav1.ListOptions{})
	if err != nil {
		h.Logf("listing Websites: %v", err)
		return
	}
	dumped := map[string]bool{}
	for i := range all.Items {
		website := &all.Items[i]
		h.Logf("website %s/%s: labels %v, status %v", website.GetNamespace(), website.GetName(), website.GetLabels(), website.Object["status"])
		if !dumped[website.GetNamespace()] {
			dumped[website.GetNamespace()] = true
			(&cluster{T: h.T, client: h.client, namespace: website.GetNamespace()}).dump()
		}
	}
}
