package kubestore_test

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/storetest"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// testTimeout bounds the wait for an expected event.
const testTimeout = rig.Timeout

// account is the ServiceAccount of all processes.
const account = "instance"

// cluster is where the stores of a test are.
type cluster struct {
	*rig.Rig
	mu      sync.Mutex
	proxies []*faultproxy.Proxy
}

// prepare gives the processes of a test an account with exactly the role that the package documents.
func prepare(t *testing.T, r *rig.Rig) *cluster {
	t.Helper()
	roles, err := manifest.Read(os.DirFS("."), "role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		role.SetNamespace(r.Namespace)
	}
	if err := manifest.Apply(t.Context(), r.Client, "test", roles...); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Namespace: r.Namespace, Name: account}
	if err := r.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: roles[0].GetKind(), Name: roles[0].GetName()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: r.Namespace}},
	}); err != nil {
		t.Fatal(err)
	}
	return &cluster{Rig: r}
}

// connect makes a client of the account that goes through a proxy and a transport of its own.
func (c *cluster) connect(t *testing.T) (*kubernetes.Clientset, *faultproxy.Proxy, *transport) {
	t.Helper()
	config, err := c.TokenRESTConfig(t.Context(), c.Namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	proxy, mine := c.Proxy(t), &transport{}
	config.Host = proxy.URL()
	config.QPS = -1
	config.Wrap(mine.wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proxies = append(c.proxies, proxy)
	return client, proxy, mine
}

// open opens a store as a process would.
func (c *cluster) open(t *testing.T, client kubernetes.Interface) kv.Store {
	t.Helper()
	store, err := kubestore.New(client, kubestore.Options{Namespace: c.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// start starts a process for the conformance suite.
func (c *cluster) start(t *testing.T) storetest.Process {
	t.Helper()
	client, proxy, transport := c.connect(t)
	return storetest.Process{Store: c.open(t, client), Kill: transport.kill, Interrupt: proxy.Reset}
}

// each does something to the connections of all processes.
func (c *cluster) each(do func(*faultproxy.Proxy)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, proxy := range c.proxies {
		do(proxy)
	}
}

// transport is how the requests of a process go out.
type transport struct {
	killed atomic.Bool
	// before, if it is set, is called with each request.
	before atomic.Pointer[func(*http.Request)]
}

func (t *transport) wrap(next http.RoundTripper) http.RoundTripper {
	return &transportOf{transport: t, next: next}
}

func (t *transport) kill() { t.killed.Store(true) }

// transportOf is a transport for one client of a clientset.
type transportOf struct {
	*transport
	next http.RoundTripper
}

func (t *transportOf) RoundTrip(request *http.Request) (*http.Response, error) {
	if before := t.before.Load(); before != nil {
		(*before)(request)
	}
	if t.killed.Load() {
		return nil, errors.New("the process is dead")
	}
	return t.next.RoundTrip(request)
}
