package sharder_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// get requests a URL with a token, which can be empty, and returns the status and the content. The status is
// 0 after an error.
func get(url, token string, roots *x509.CertPool) (int, string) {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(content)
}

// ready waits until a replica is ready.
func (f *fixture) ready(r *rig.Sharder) {
	f.t.Helper()
	f.Eventually(func() int { return r.Probe("/readyz") }).Should(Equal(http.StatusOK))
}

// trusted returns the CA bundle of the certificate that the sharder issues.
func (f *fixture) trusted() *x509.CertPool {
	f.t.Helper()
	secret := &corev1.Secret{}
	f.Expect(f.Client.Get(context.Background(), client.ObjectKey{Namespace: f.Namespace, Name: "sharder-webhook-cert"}, secret)).To(Succeed())
	roots := x509.NewCertPool()
	f.Expect(roots.AppendCertsFromPEM(secret.Data["bundle.crt"])).To(BeTrue())
	return roots
}

// token returns a token of a ServiceAccount with some ClusterRoles.
func (f *fixture) token(account string, roles ...string) string {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: f.Namespace, Name: account}
	f.Expect(f.Client.Create(context.Background(), &corev1.ServiceAccount{ObjectMeta: meta})).To(Succeed())
	for _, role := range roles {
		f.Expect(f.Client.Create(context.Background(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: f.Namespace + ":" + account + ":" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.Namespace, Name: account}},
		})).To(Succeed())
	}
	config, err := f.TokenRESTConfig(context.Background(), f.Namespace, account)
	f.Expect(err).NotTo(HaveOccurred())
	return config.BearerToken
}

// reader returns a token with permission to read the metrics.
func (f *fixture) reader() string {
	f.t.Helper()
	if f.metricsReader == "" {
		f.metricsReader = f.token("reader", "sharding:metrics-reader")
	}
	return f.metricsReader
}

// eventReasons returns the reasons of the events about an object.
func (f *fixture) eventReasons(kind, name string) []string {
	list, err := f.Clientset.EventsV1().Events("").List(context.Background(), metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	var reasons []string
	for i := range list.Items {
		event := &list.Items[i]
		about := event.Regarding
		// Tests share the control plane and names of shards. All namespaces of a test end with its own.
		if about.Kind == kind && about.Name == name && (strings.HasSuffix(about.Namespace, f.Namespace) || about.Namespace == "") {
			reasons = append(reasons, event.Type+" "+event.Reason)
		}
	}
	return reasons
}
