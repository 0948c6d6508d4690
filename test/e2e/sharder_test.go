//go:build e2e

package e2e

import (
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

const (
	system  = shardingv1alpha1.NamespaceSystem
	sharder = "sharder"
	// secret has the sharder's certificate.
	secret = "sharder-webhook-cert"
)

// oneSharder is locked while a sharder is installed, because a cluster has one.
var oneSharder sync.Mutex

// install waits until no other test has a sharder, applies config/default, and removes it when the test
// ends.
func (c *cluster) install() {
	c.Helper()
	oneSharder.Lock()
	c.Cleanup(oneSharder.Unlock)
	manifests := strings.ReplaceAll(c.kubectl("", "kustomize", "config/default"), "docker.io/ringmaster/sharder:dev", image(sharder))
	c.kubectl(manifests, "apply", "--server-side", "-f", "-")
	c.Cleanup(func() {
		if c.Failed() {
			(&cluster{T: c.T, client: c.client, namespace: system}).dump()
		}
		c.kubectl("", "delete", "--ignore-not-found", "--timeout="+testTimeout.String(), "-k", "config/default")
	})
	c.sharderIsReady()
}

// sharderIsReady waits until the Service has exactly two ready replicas.
func (c *cluster) sharderIsReady() {
	c.Helper()
	c.eventually(func(g Gomega) {
		names := map[string]bool{}
		for _, pod := range c.sharderPods(g) {
			g.Expect(pod.DeletionTimestamp).To(BeNil(), "pod %s is being deleted", pod.Name)
			g.Expect(ready(&pod)).To(BeTrue(), "pod %s is not ready", pod.Name)
			names[pod.Name] = true
		}
		g.Expect(names).To(HaveLen(2))
		slices, err := c.client.DiscoveryV1().EndpointSlices(system).List(c.Context(), metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + sharder})
		g.Expect(err).NotTo(HaveOccurred())
		behind := map[string]bool{}
		for i := range slices.Items {
			for _, endpoint := range slices.Items[i].Endpoints {
				if endpoint.TargetRef != nil && endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
					behind[endpoint.TargetRef.Name] = true
				}
			}
		}
		g.Expect(behind).To(Equal(names))
	}, "two replicas of the sharder behind its Service")
}

func (c *cluster) sharderPods(g Gomega) []corev1.Pod {
	pods, err := c.client.CoreV1().Pods(system).List(c.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + sharder})
	g.Expect(err).NotTo(HaveOccurred())
	return pods.Items
}

// leader is the pod of the leading replica.
func (c *cluster) leader(g Gomega) string {
	lease, err := c.client.CoordinationV1().Leases(system).Get(c.Context(), sharder, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
	name, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	g.Expect(name).NotTo(BeEmpty(), "the Lease has no holder")
	return name
}

// replaceLeader deletes the leading replica, and waits for the next.
func (c *cluster) replaceLeader() {
	c.Helper()
	before := c.leader(NewWithT(c))
	c.kubectl("", "delete", "pod", "-n", system, before)
	c.eventually(func(g Gomega) { g.Expect(c.leader(g)).NotTo(Equal(before)) }, "another replica leads")
	c.sharderIsReady()
}

// renewCertificate makes the sharder renew its certificate. It returns a function that waits until all replicas
// serve the new one, for which they check once a minute.
func (c *cluster) renewCertificate() (wait func()) {
	c.Helper()
	before := c.certificate(NewWithT(c))
	c.kubectl("", "patch", "secret", "-n", system, secret, "-p", `{"data":{"tls.crt":""}}`)
	return func() {
		c.Helper()
		c.eventually(func(g Gomega) {
			now := c.certificate(g)
			g.Expect(now).NotTo(Or(BeEmpty(), Equal(before)))
			if !onNode() {
				return // pods cannot be reached
			}
			for _, pod := range c.sharderPods(g) {
				g.Expect(served(g, pod.Status.PodIP)).To(Equal(now), "certificate of pod %s", pod.Name)
			}
		}, "a new certificate")
	}
}

// certificate is the one in the Secret.
func (c *cluster) certificate(g Gomega) string {
	found, err := c.client.CoreV1().Secrets(system).Get(c.Context(), secret, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(found.Data[corev1.TLSCertKey], found.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return ""
	}
	return pair.Leaf.SerialNumber.String()
}

// served is the certificate of a pod's webhook.
func served(g Gomega, ip string) string {
	const limit = 5 * time.Second
	dialer := &net.Dialer{Timeout: limit}
	connection, err := tls.DialWithDialer(dialer, "tcp", net.JoinHostPort(ip, "9443"), &tls.Config{InsecureSkipVerify: true})
	g.Expect(err).NotTo(HaveOccurred())
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
