package install_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// replica runs the sharder's real binary with the installed ServiceAccount and configuration, except for the
// ports.
type replica struct {
	*process.Process
	health, metrics int
}

func (i *installed) start(t *testing.T, config string) *replica {
	t.Helper()
	folder := rig.TempDir(t)
	access, err := i.TokenRESTConfig(t.Context(), "sharding-system", "sharder")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, token, file := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "token"), filepath.Join(folder, "config.yaml")
	var ports []int
	for range 3 {
		port, err := process.ReservePort("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(port.Release)
		ports = append(ports, port.Number)
	}
	config += fmt.Sprintf("\nhealth: {bindAddress: '127.0.0.1:%d'}\nmetrics: {bindAddress: '127.0.0.1:%d'}\n", ports[0], ports[1])
	if err := os.WriteFile(token, []byte(access.BearerToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := i.WriteTokenKubeconfig(kubeconfig, token, i.URL()); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(process.Spec{
		Name: "sharder",
		Path: rig.Build(t, "./cmd/sharder", rig.Race),
		Args: []string{"--config=" + file, "--webhook-port=" + strconv.Itoa(ports[2])},
		Env:  append(os.Environ(), "KUBECONFIG="+kubeconfig),
		Log:  filepath.Join(folder, "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Kill()
		if t.Failed() {
			t.Logf("the sharder wrote:\n%s", p.Tail(50))
		}
	})
	return &replica{Process: p, health: ports[0], metrics: ports[1]}
}

// TestInstalledPermissionsSuffice runs all functions of the sharder with the installed permissions and the role
// that 'ringmaster role' prints.
func TestInstalledPermissionsSuffice(t *testing.T) {
	g := NewWithT(t)
	i := install(t)
	p := i.start(t, only[corev1.ConfigMap](t, build(t, withDefault), "ConfigMap").Data["config.yaml"])
	ring := i.declare(t)
	i.condition(t, g, ring, shardingv1alpha1.ReasonMissingPermission)
	i.grant(t, g, ring)
	i.condition(t, g, ring, shardingv1alpha1.ReasonNoShards)

	// A shard dies, and another one gets its objects.
	dead := i.lease(t, ring, "dead", 1)
	i.condition(t, g, ring, shardingv1alpha1.ReasonReady)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: i.Namespace, Name: "object", Labels: map[string]string{shardingv1alpha1.LabelShard(ring.Name): "dead"},
	}}
	g.Expect(i.Client.Create(t.Context(), object)).To(Succeed())
	i.lease(t, ring, "alive", 3600)
	g.Eventually(func() (string, error) {
		err := i.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		return object.Labels[shardingv1alpha1.LabelShard(ring.Name)], err
	}, testTimeout).Should(Equal("alive"))
	g.Eventually(func() (string, error) {
		err := i.Client.Get(t.Context(), client.ObjectKeyFromObject(dead), dead)
		return dead.Labels[shardingv1alpha1.LabelState], err
	}, testTimeout).Should(Equal("dead"))
	g.Eventually(func() int {
		return len(strings.Fields(i.kubectl(t, "", "get", "events", "-n", i.Namespace, "-o", "name")))
	}, testTimeout).Should(BeNumerically(">", 0), "events about the shard")

	g.Expect(get(t, fmt.Sprintf("http://127.0.0.1:%d/readyz", p.health), "", nil)).To(Equal(http.StatusOK))
	i.seesMetrics(t, g, p)
	g.Expect(p.Tail(10000)).NotTo(Or(ContainSubstring("forbidden"), ContainSubstring("cannot ")))
	g.Expect(p.Stop(t.Context())).To(Succeed())
}

func (i *installed) declare(t *testing.T) *shardingv1alpha1.ControllerRing {
	t.Helper()
	ring := &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: i.Namespace},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: []shardingv1alpha1.RingResource{{
				GroupResource:       shardingv1alpha1.GroupResource{Resource: "configmaps"},
				ControlledResources: []shardingv1alpha1.GroupResource{{Group: "apps", Resource: "deployments"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: i.Namespace}},
			Shards:            &shardingv1alpha1.RingShards{ServiceAccounts: []shardingv1alpha1.ServiceAccount{{Namespace: i.Namespace, Name: "operator"}}},
		},
	}
	if err := i.Client.Create(t.Context(), ring); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Client.Delete(context.WithoutCancel(t.Context()), ring) })
	return ring
}

// grant applies the role that 'ringmaster role' prints for a ring.
func (i *installed) grant(t *testing.T, g *WithT, ring *shardingv1alpha1.ControllerRing) {
	t.Helper()
	printed, stderr, err := run(t, rig.Build(t, "./cmd/ringmaster", rig.Race), i.kubeconfig, "", "role", ring.Name)
	g.Expect(err).NotTo(HaveOccurred(), stderr)
	i.kubectl(t, printed, "apply", "--validate=strict", "-f", "-")
	t.Cleanup(func() { i.removeRoles(t, ring) })
}

// removeRoles deletes the cluster roles of a ring, so that the next run of the test starts without them.
func (i *installed) removeRoles(t *testing.T, ring *shardingv1alpha1.ControllerRing) {
	t.Helper()
	ofRing := client.MatchingLabels{shardingv1alpha1.LabelControllerRing: ring.Name}
	for _, object := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		if err := i.Client.DeleteAllOf(context.WithoutCancel(t.Context()), object, ofRing); err != nil {
			t.Error(err)
		}
	}
}

// condition waits until the condition Ready has a reason.
func (i *installed) condition(t *testing.T, g *WithT, ring *shardingv1alpha1.ControllerRing, reason string) {
	t.Helper()
	g.Eventually(func() string {
		now := &shardingv1alpha1.ControllerRing{}
		if err := i.Client.Get(t.Context(), client.ObjectKeyFromObject(ring), now); err != nil {
			return err.Error()
		}
		if found := meta.FindStatusCondition(now.Status.Conditions, shardingv1alpha1.ConditionReady); found != nil {
			return found.Reason
		}
		return "not looked at"
	}, testTimeout, "100ms").Should(Equal(reason))
}

// lease creates the Lease of a shard that renews once.
func (i *installed) lease(t *testing.T, ring *shardingv1alpha1.ControllerRing, name string, seconds int32) *coordinationv1.Lease {
	t.Helper()
	now := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: i.Namespace, Name: name,
			Labels: map[string]string{shardingv1alpha1.LabelControllerRing: ring.Name},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now},
	}
	if err := i.Client.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Client.Delete(context.WithoutCancel(t.Context()), lease) })
	return lease
}

// seesMetrics reads metrics as the ServiceMonitor configures it: with a token of a ServiceAccount that has the role,
// and the CA bundle in the sharder's Secret.
func (i *installed) seesMetrics(t *testing.T, g *WithT, p *replica) {
	t.Helper()
	reader, stranger := i.token(t, g, "prometheus"), i.token(t, g, "stranger")
	g.Expect(i.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: i.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "sharding:metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: i.Namespace, Name: "prometheus"}},
	})).To(Succeed())
	secret := &corev1.Secret{}
	g.Expect(i.Client.Get(t.Context(), client.ObjectKey{Namespace: "sharding-system", Name: "sharder-webhook-cert"}, secret)).To(Succeed())
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(secret.Data["bundle.crt"])).To(BeTrue())
	trust := &tls.Config{RootCAs: roots, ServerName: "sharder.sharding-system.svc", MinVersion: tls.VersionTLS12}

	url := fmt.Sprintf("https://127.0.0.1:%d/metrics", p.metrics)
	g.Expect(get(t, url, "", trust)).To(Equal(http.StatusUnauthorized))
	g.Expect(get(t, url, stranger, trust)).To(Equal(http.StatusForbidden))
	g.Eventually(func() int { return get(t, url, reader, trust) }, testTimeout, "1s").Should(Equal(http.StatusOK))
}

// token creates a ServiceAccount and returns a token.
func (i *installed) token(t *testing.T, g *WithT, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: name}}
	g.Expect(i.Client.Create(t.Context(), account)).To(Succeed())
	access, err := i.TokenRESTConfig(t.Context(), i.Namespace, name)
	g.Expect(err).NotTo(HaveOccurred())
	return access.BearerToken
}

func get(t *testing.T, url, token string, trust *tls.Config) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}, Timeout: testTimeout}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// TestCertManagerConfiguration runs the sharder with a certificate in a folder, as config/cert-manager
// mounts it.
func TestCertManagerConfiguration(t *testing.T) {
	g := NewWithT(t)
	i := install(t)
	folder := rig.TempDir(t)
	pair, err := i.Issue(pki.Identity{User: "sharder", Hosts: []string{"sharder.sharding-system.svc"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), pair.Certificate, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "tls.key"), pair.Key, 0o600)).To(Succeed())
	config := only[corev1.ConfigMap](t, build(t, withCertManager), "ConfigMap").Data["config.yaml"]
	const mounted = "/etc/sharder-certificate"
	g.Expect(config).To(ContainSubstring(mounted))
	ring := i.declare(t)
	i.grant(t, g, ring)
	p := i.start(t, strings.ReplaceAll(config, mounted, folder))
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{}
	g.Eventually(func() error {
		return i.Client.Get(t.Context(), client.ObjectKey{Name: "controllerring-" + ring.Name}, webhook)
	}, testTimeout).Should(Succeed())
	g.Expect(webhook.Annotations).To(HaveKeyWithValue("cert-manager.io/inject-ca-from", "sharding-system/sharder"))
	g.Expect(webhook.Webhooks[0].ClientConfig.CABundle).To(BeEmpty(), "cert-manager injects it")
	g.Expect(p.Stop(t.Context())).To(Succeed())
}
