//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDeployment tests the cluster itself: a program runs in two pods, is reached through its Service,
// reaches the API server, and is rolled out and scaled without a failed request.
func TestDeployment(t *testing.T) {
	t.Parallel()
	c := connect(t)
	c.deploy("v1", 2)
	url := c.serviceURL()

	client := c.startClient(url)
	c.clientSees(client, "v1", 2)
	c.reachedFromNode(url)
	c.logsAreRead()

	c.roll("v2", 2)
	c.clientSees(client, "v2", 2)
	for _, replicas := range []int{4, 1} {
		c.scale(replicas)
		c.clientSees(client, "v2", replicas)
	}
	c.clientSucceeded(client)
}

// deploy deploys hello, and waits until its pods are ready.
func (c *cluster) deploy(version string, replicas int) {
	c.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: hello}}
	if _, err := c.client.CoreV1().ServiceAccounts(c.namespace).Create(c.Context(), account, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	if _, err := c.client.CoreV1().Services(c.namespace).Create(c.Context(), helloService(), metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	deployment := helloDeployment(version, int32(replicas))
	if _, err := c.client.AppsV1().Deployments(c.namespace).Create(c.Context(), deployment, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.podsReady(version, replicas)
}

// podsReady waits until exactly the wanted number of pods of one version are ready.
func (c *cluster) podsReady(version string, replicas int) {
	c.Helper()
	began := time.Now()
	c.eventually(func(g Gomega) {
		pods := c.helloPods(g)
		g.Expect(pods).To(HaveLen(replicas))
		for _, pod := range pods {
			g.Expect(pod.Spec.Containers[0].Env[0].Value).To(Equal(version), "version of pod %s", pod.Name)
			g.Expect(pod.DeletionTimestamp).To(BeNil(), "pod %s is being deleted", pod.Name)
			g.Expect(ready(&pod)).To(BeTrue(), "pod %s is not ready", pod.Name)
		}
	}, "%d pods of version %s", replicas, version)
	c.Logf("%d pods of version %s after %.1f s", replicas, version, time.Since(began).Seconds())
}

func (c *cluster) helloPods(g Gomega) []corev1.Pod {
	pods, err := c.client.CoreV1().Pods(c.namespace).List(c.Context(), metav1.ListOptions{LabelSelector: "app=" + hello})
	g.Expect(err).NotTo(HaveOccurred())
	return pods.Items
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// serviceURL has the Service's IP address, because a cluster may have no DNS.
func (c *cluster) serviceURL() string {
	c.Helper()
	service, err := c.client.CoreV1().Services(c.namespace).Get(c.Context(), hello, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	port := strconv.Itoa(int(service.Spec.Ports[0].Port))
	return "http://" + net.JoinHostPort(service.Spec.ClusterIP, port) + "/"
}

// helloUser is the user of hello's pods.
func (c *cluster) helloUser() string { return "system:serviceaccount:" + c.namespace + ":" + hello }

// reachedFromNode sends a request from the node's network, which is that of the API server.
func (c *cluster) reachedFromNode(url string) {
	c.Helper()
	if !onNode() {
		c.Log("not sending requests from the node, because E2E_ON_NODE is not set")
		return
	}
	client := &http.Client{Timeout: 10 * time.Second}
	c.eventually(func(g Gomega) {
		response, err := client.Get(url)
		g.Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parse(string(body))).To(HaveLen(1), "%s: %s", response.Status, body)
	}, "the node reaches %s", url)
}

// logsAreRead expects that the API server returns the pods' logs.
func (c *cluster) logsAreRead() {
	c.Helper()
	g := NewWithT(c)
	for _, pod := range c.helloPods(g) {
		log, err := c.logs(c.Context(), pod.Name, &corev1.PodLogOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(log).To(ContainSubstring("the API server knows this pod as " + c.helloUser()))
	}
}

// roll replaces all pods by ones of another version.
func (c *cluster) roll(version string, replicas int) {
	c.Helper()
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":%q,"env":[{"name":"VERSION","value":%q}]}]}}}}`, hello, version)
	_, err := c.client.AppsV1().Deployments(c.namespace).Patch(c.Context(), hello, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.podsReady(version, replicas)
}

func (c *cluster) scale(replicas int) {
	c.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := c.client.AppsV1().Deployments(c.namespace).Patch(c.Context(), hello, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "scale")
	if err != nil {
		c.Fatal(err)
	}
	c.podsReady("v2", replicas)
}

// answer is an answer of hello.
type answer struct{ Pod, Version, User string }

// parse returns the answers in the output of 'hello get'. It ignores other lines.
func parse(output string) []answer {
	var all []answer
	for line := range strings.Lines(output) {
		var one answer
		if json.Unmarshal([]byte(line), &one) == nil {
			all = append(all, one)
		}
	}
	return all
}

func podsOf(answers []answer) map[string]bool {
	pods := map[string]bool{}
	for _, a := range answers {
		pods[a.Pod] = true
	}
	return pods
}
