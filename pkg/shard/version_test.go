package shard_test

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// oldVersion is the response to /version of an API server that is too old for Ringmaster.
const oldVersion = `{"major":"1","minor":"34","gitVersion":"v1.34.3-gke.1000"}`

// TestOldAPIServerEndsOperator before the shard has joined its ring. Without sharding, the version does
// not matter.
func TestOldAPIServerEndsOperator(t *testing.T) {
	f := setUp(t)
	proxy := f.Proxy(t)
	proxy.Answer("/version", []byte(oldVersion))
	start := func(mode shard.Mode) *rig.Running {
		return f.Start(t, rig.Process{
			Name: "operator-" + string(mode), ServiceAccount: "operator", Program: "operator", Proxy: proxy,
			Roles: operatorRoles, Env: []string{"SHARD=a", "MODE=" + string(mode)},
		})
	}
	ends := func(p *rig.Running) {
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		f.Expect(p.Wait(ctx)).To(MatchError("exit status 1"), p.Name())
		f.Expect(p.Tail(1)).To(HavePrefix("Kubernetes v1.34.3-gke.1000 is too old: "), p.Name())
	}
	for _, mode := range []shard.Mode{shard.ModeShard, shard.ModeInProcess, shard.ModeSharder} {
		ends(start(mode))
	}

	leases, err := f.Clientset.CoordinationV1().Leases(f.Namespace).List(t.Context(), metav1.ListOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(leases.Items).To(BeEmpty())

	f.configMap("any", "")
	f.expectOutput(start(shard.ModeAlone), "ended any\n")
}

// TestOldAPIServerEndsManagerLater starts a manager before its API server. The manager runs until the API
// server answers with a version that is too old.
func TestOldAPIServerEndsManagerLater(t *testing.T) {
	f := setUp(t)
	config := f.namespaceAdmin()
	proxy := f.Proxy(t)
	proxy.Answer("/version", []byte(oldVersion))
	proxy.Cut(faultproxy.ToServer)
	config.Host = proxy.URL()
	mgr, err := shard.NewManager(config, manager.Options{Scheme: f.scheme(), Metrics: metricsserver.Options{BindAddress: "0"}},
		shard.Options{Ring: "ring", Name: "a", Namespace: f.Namespace})
	f.Expect(err).NotTo(HaveOccurred())
	started := make(chan struct{})
	f.Expect(mgr.Add(manager.RunnableFunc(func(context.Context) error {
		close(started)
		return nil
	}))).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	f.Eventually(started).Should(BeClosed())
	f.Expect(ended).NotTo(Receive())
	proxy.Heal()
	var reason error
	f.Eventually(ended).Should(Receive(&reason))
	tooOld := (*kubeversion.TooOldError)(nil)
	f.Expect(errors.As(reason, &tooOld)).To(BeTrue(), "it ended with %v", reason)
}

// namespaceAdmin returns a client configuration with all permissions in the test's namespace.
func (f *fixture) namespaceAdmin() *rest.Config {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: f.Namespace, Name: "operator"}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	f.Expect(f.Client.Create(f.t.Context(), account)).To(Succeed())
	f.Expect(f.Client.Create(f.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: f.Namespace}},
	})).To(Succeed())
	config, err := f.TokenRESTConfig(f.t.Context(), f.Namespace, account.Name)
	f.Expect(err).NotTo(HaveOccurred())
	return config
}
