package faultproxy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// setUp returns a proxy and a client that goes through it.
func setUp(t *testing.T) (*rig.Rig, *faultproxy.Proxy, kubernetes.Interface) {
	t.Helper()
	g := NewWithT(t)
	r := rig.Shared(t)
	proxy := r.Proxy(t)
	account, err := r.Clientset.CoreV1().ServiceAccounts(r.Namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "client"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = r.Clientset.RbacV1().RoleBindings(r.Namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "client"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: r.Namespace}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	token, err := r.TokenRESTConfig(t.Context(), r.Namespace, account.Name)
	g.Expect(err).NotTo(HaveOccurred())
	token.Host = proxy.URL()
	client, err := kubernetes.NewForConfig(rest.CopyConfig(token))
	g.Expect(err).NotTo(HaveOccurred())
	return r, proxy, client
}

// list lists objects through the proxy, with a timeout.
func list(client kubernetes.Interface, namespace string, limit time.Duration) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
}

func TestFaults(t *testing.T) {
	for name, fault := range map[string]func(*faultproxy.Proxy){
		"cut both ways":       func(p *faultproxy.Proxy) { p.Cut(faultproxy.Both) },
		"cut to the server":   func(p *faultproxy.Proxy) { p.Cut(faultproxy.ToServer) },
		"cut to the client":   func(p *faultproxy.Proxy) { p.Cut(faultproxy.ToClient) },
		"connections refused": func(p *faultproxy.Proxy) { p.Refuse() },
		"slower than patient": func(p *faultproxy.Proxy) { p.Delay(5 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, proxy, client := setUp(t)
			g.Expect(list(client, r.Namespace, 10*time.Second)()).To(Succeed(), "without a fault")
			fault(proxy)
			g.Expect(list(client, r.Namespace, time.Second)()).NotTo(Succeed(), "with the fault")
			proxy.Heal()
			g.Eventually(list(client, r.Namespace, 5*time.Second), "60s").Should(Succeed(), "healed")
		})
	}
}

// TestWriteArrivesWhenAnswersAreCut cuts one direction: the server applies the write, and the client gets no
// response.
func TestWriteArrivesWhenAnswersAreCut(t *testing.T) {
	g := NewWithT(t)
	r, proxy, client := setUp(t)
	g.Expect(list(client, r.Namespace, 10*time.Second)()).To(Succeed())
	create := func(name string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := client.CoreV1().ConfigMaps(r.Namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	exists := func(name string) func() error {
		return func() error {
			_, err := r.Clientset.CoreV1().ConfigMaps(r.Namespace).Get(context.Background(), name, metav1.GetOptions{})
			return err
		}
	}
	proxy.Cut(faultproxy.ToClient)
	g.Expect(create("answer-cut")).NotTo(Succeed())
	g.Eventually(exists("answer-cut"), "10s").Should(Succeed())

	proxy.Heal()
	g.Eventually(list(client, r.Namespace, 5*time.Second), "60s").Should(Succeed())
	proxy.Cut(faultproxy.ToServer)
	g.Expect(create("request-cut")).NotTo(Succeed())
	g.Consistently(exists("request-cut"), "500ms").ShouldNot(Succeed())
}

// TestAnswersToWritesAreLost shows that the API server applies the write and the client gets a connection reset, and
// that reads, reviews and refused writes are answered.
func TestAnswersToWritesAreLost(t *testing.T) {
	g := NewWithT(t)
	r, proxy, client := setUp(t)
	objects := client.CoreV1().ConfigMaps(r.Namespace)
	create := func(name string) error {
		_, err := objects.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	g.Expect(create("first")).To(Succeed())
	writes := make(chan faultproxy.Write, 10)
	proxy.AfterWrites(func(write faultproxy.Write) bool {
		writes <- write
		return false
	})
	err := create("applied")
	g.Expect(utilnet.IsConnectionReset(err)).To(BeTrue(), "the error is %v", err)
	g.Expect(writes).To(Receive(Equal(faultproxy.Write{Method: "POST", Path: "/api/v1/namespaces/" + r.Namespace + "/configmaps"})))
	_, err = objects.Get(t.Context(), "applied", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "reads are answered")
	g.Expect(apierrors.IsAlreadyExists(create("first"))).To(BeTrue(), "writes that are refused are answered")
	_, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "reviews are answered")
	g.Expect(writes).To(BeEmpty())

	proxy.AfterWrites(func(faultproxy.Write) bool { return true })
	g.Expect(create("answered")).To(Succeed())
	proxy.Heal()
	g.Expect(create("last")).To(Succeed())
}

func TestWatchesLag(t *testing.T) {
	g := NewWithT(t)
	r, proxy, client := setUp(t)
	watching, err := client.CoreV1().ConfigMaps(r.Namespace).Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	defer watching.Stop()

	proxy.HoldWatches()
	_, err = client.CoreV1().ConfigMaps(r.Namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "seen-late"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "other requests go on")
	g.Consistently(watching.ResultChan(), "500ms").ShouldNot(Receive())

	proxy.Heal()
	var event watch.Event
	g.Eventually(watching.ResultChan(), "10s").Should(Receive(&event))
	g.Expect(event.Type).To(Equal(watch.Added))
	g.Expect(event.Object.(*corev1.ConfigMap).Name).To(Equal("seen-late"))
}

func TestResetIsNoticedAtOnce(t *testing.T) {
	g := NewWithT(t)
	r, proxy, client := setUp(t)
	watching, err := client.CoreV1().ConfigMaps(r.Namespace).Watch(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	defer watching.Stop()
	proxy.Reset()
	g.Eventually(watching.ResultChan(), "10s").Should(BeClosed())
	g.Eventually(list(client, r.Namespace, 5*time.Second), "10s").Should(Succeed(), "new connections are accepted")
}

func TestTrafficIsCounted(t *testing.T) {
	g := NewWithT(t)
	r, proxy, client := setUp(t)
	const size = 100_000
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "large"},
		Data:       map[string]string{"content": strings.Repeat("x", size)},
	}
	_, err := client.CoreV1().ConfigMaps(r.Namespace).Create(t.Context(), object, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	sent, received := proxy.Traffic()
	g.Expect(sent).To(And(BeNumerically(">", size), BeNumerically("<", size*3/2)))
	g.Expect(received).To(And(BeNumerically(">", size), BeNumerically("<", size*3/2)), "the answer has it too")
	_, err = client.CoreV1().ConfigMaps(r.Namespace).Get(t.Context(), "large", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	more, again := proxy.Traffic()
	g.Expect(more - sent).To(BeNumerically("<", size/10))
	g.Expect(again - received).To(And(BeNumerically(">", size), BeNumerically("<", size*3/2)))
}

// TestProxyRespondsToPath answers one path instead of the API server, which answers all others.
func TestProxyRespondsToPath(t *testing.T) {
	g := NewWithT(t)
	r, proxy, client := setUp(t)
	proxy.Answer("/version", []byte(`{"gitVersion":"v1.2.3"}`))
	version, err := client.Discovery().ServerVersion()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(version.GitVersion).To(Equal("v1.2.3"))
	g.Expect(list(client, r.Namespace, 10*time.Second)()).To(Succeed())
}
