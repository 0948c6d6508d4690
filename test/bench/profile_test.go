package bench

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// profile writes profiles of the sharder's heap and CPU to the directory that -profiles names.
func (f *fixture) profile(sharder *rig.Sharder, name string) {
	f.b.Helper()
	if *profilesTo == "" {
		return
	}
	meta := metav1.ObjectMeta{Namespace: f.Namespace, Name: "profiler"}
	f.Expect(f.Client.Create(f.b.Context(), &corev1.ServiceAccount{ObjectMeta: meta})).To(Succeed())
	f.Expect(f.Client.Create(f.b.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/debug/pprof/*"}, Verbs: []string{"get"}}},
	})).To(Succeed())
	f.Expect(f.Client.Create(f.b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	})).To(Succeed())
	access, err := f.TokenRESTConfig(f.b.Context(), meta.Namespace, meta.Name)
	f.Expect(err).NotTo(HaveOccurred())
	// The certificate is the sharder's own, and the connection does not leave this machine.
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, kind := range []string{"heap", "profile?seconds=30"} {
		request, err := http.NewRequestWithContext(f.b.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/debug/pprof/%s", sharder.Metrics, kind), http.NoBody)
		f.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Authorization", "Bearer "+access.BearerToken)
		response, err := client.Do(request)
		f.Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(response.Body)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(response.Body.Close()).To(Succeed())
		f.Expect(response.StatusCode).To(Equal(http.StatusOK), string(content))
		f.Expect(os.WriteFile(filepath.Join(*profilesTo, name+"."+kind[:4]), content, 0o600)).To(Succeed())
	}
}
