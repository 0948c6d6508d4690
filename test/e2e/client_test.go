//go:build e2e

package e2e

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// keepAsking starts a pod that sends requests to url until the test ends, one after the other. Once
// it had an answer, it fails with the first request that does. It returns the pod's name.
func (c *cluster) keepAsking(url string) string {
	c.Helper()
	pod, err := c.client.CoreV1().Pods(c.namespace).Create(c.Context(), askPod("client", url), metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return pod.Name
}

// sees waits until the client's last answers are of one version, from so many pods, and from ones
// that the API server knows as hello's user.
func (c *cluster) sees(client, version string, pods int) {
	c.Helper()
	const last = 100 // the chance that one of four pods is not among them is 10⁻¹²
	c.eventually(func(g Gomega) {
		c.asking(g, client)
		tail := int64(last)
		said, err := c.logs(c.Context(), client, &corev1.PodLogOptions{TailLines: &tail})
		g.Expect(err).NotTo(HaveOccurred())
		answers := parse(said)
		g.Expect(podsOf(answers)).To(HaveLen(pods))
		for _, a := range answers {
			g.Expect(a.Version).To(Equal(version))
			g.Expect(a.User).To(Equal(c.helloUser()))
		}
	}, "%d pods of version %s answer", pods, version)
}

// asking stops a test at once that has lost a request.
func (c *cluster) asking(g Gomega, client string) {
	pod, err := c.client.CoreV1().Pods(c.namespace).Get(c.Context(), client, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		StopTrying("the Service did not answer a request: see the log of pod " + client).Now()
	}
	g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
}

// stillAsking expects that no request of the client has failed, and tells how many there were.
func (c *cluster) stillAsking(client string) {
	c.Helper()
	g := NewWithT(c)
	c.asking(g, client)
	said, err := c.logs(c.Context(), client, &corev1.PodLogOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	c.Logf("%d requests answered while rolling and scaling, none failed", len(parse(said)))
}
