//go:build e2e

package e2e

import (
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startClient starts a pod that sends requests to url one after the other until the test ends. After
// the first answer, the pod fails with the first failed request. It returns the pod's name.
func (c *cluster) startClient(url string) string {
	c.Helper()
	pod, err := c.client.CoreV1().Pods(c.namespace).Create(c.Context(), clientPod("client", url), metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return pod.Name
}

// clientSees waits until the client's last answers are of one version, from the number of pods, and have the
// user of hello.
func (c *cluster) clientSees(client, version string, pods int) {
	c.Helper()
	const last = 100 // one of four pods is missing with a probability of 10⁻¹²
	c.eventually(func(g Gomega) {
		c.clientRuns(g, client)
		tail := int64(last)
		log, err := c.logs(c.Context(), client, &corev1.PodLogOptions{TailLines: &tail})
		g.Expect(err).NotTo(HaveOccurred())
		answers := parse(log)
		g.Expect(podsOf(answers)).To(HaveLen(pods))
		for _, a := range answers {
			g.Expect(a.Version).To(Equal(version))
			g.Expect(a.User).To(Equal(c.helloUser()))
		}
	}, "%d pods of version %s answer", pods, version)
}

// clientRuns fails the test at once if a request has failed.
func (c *cluster) clientRuns(g Gomega, client string) {
	pod, err := c.client.CoreV1().Pods(c.namespace).Get(c.Context(), client, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		StopTrying("the Service did not answer a request: see the log of pod " + client).Now()
	}
	g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
}

// clientSucceeded expects that no request of the client has failed, and logs their number.
func (c *cluster) clientSucceeded(client string) {
	c.Helper()
	g := NewWithT(c)
	c.clientRuns(g, client)
	log, err := c.logs(c.Context(), client, &corev1.PodLogOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	c.Logf("%d requests answered while rolling and scaling, none failed", len(parse(log)))
}
