package watches_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/watches"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// TestWatchesResumeAfterRestart kills the API server under the watches of a process.
func TestWatchesResumeAfterRestart(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := s.run(ctx, t, watches.Configure)
	for _, r := range p.sent(time.Time{}) {
		if r.verb == "list" {
			t.Error("a list was not streamed")
		}
	}
	const minRetryDelay = 500 * time.Millisecond
	killed := time.Now()
	if err := s.APIServer.Kill(); err != nil {
		t.Fatal(err)
	}
	// Each watch detects the outage with its own request. After that, they take turns.
	p.waitUntil(ctx, t, "attempts", func() bool { return p.refused(killed) > len(kinds())+2 })
	if err := s.APIServer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if sent, limit := p.refused(killed), len(kinds())+1+int(time.Since(killed)/minRetryDelay); sent > limit {
		t.Errorf("%d requests were refused, want at most %d", sent, limit)
	}
	s.write(ctx, t, "after")
	p.waitUntil(ctx, t, "events after the outage", func() bool { return len(p.events("after")) == len(kinds()) })
}

// kinds returns the kinds that each process watches: built-in kinds and a custom one, which a starting API
// server serves last.
func kinds() []client.Object {
	website := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"theme": "none"}}}
	website.SetAPIVersion("webhosting.timebertt.dev/v1alpha1")
	website.SetKind("Website")
	return []client.Object{
		&corev1.ConfigMap{},
		&corev1.Secret{},
		&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.ServiceAccount{},
		website,
	}
}

// server is an API server and the credentials of an ordinary user. It accepts an administrator's requests
// before it has loaded its roles.
type server struct {
	*rig.Rig
	user *rest.Config
}

func newServer(t testing.TB) *server {
	t.Helper()
	r := rig.Private(t, rig.Options{CRDs: []string{"examples/webhosting/config/crds"}})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "shard", Namespace: r.Namespace}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: account.Namespace}},
	}
	for _, object := range []client.Object{account, binding} {
		if err := r.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	user, err := r.TokenRESTConfig(t.Context(), account.Namespace, account.Name)
	if err != nil {
		t.Fatal(err)
	}
	return &server{Rig: r, user: user}
}

// write creates an object of each kind.
func (s *server) write(ctx context.Context, t testing.TB, name string) {
	t.Helper()
	for _, object := range kinds() {
		object.SetName(name)
		object.SetNamespace(s.Namespace)
		if err := s.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
}

// process is a cache with its own connection, as in another process.
type process struct {
	mu       sync.Mutex
	requests []request
	seen     map[string]time.Time // by kind and name
}

// request is a request of a process.
type request struct {
	at                 time.Time
	kind, verb, result string // the resource; as in fakeRequest; the status code or the error
}

// run starts a process and waits for its watches.
func (s *server) run(ctx context.Context, t testing.TB, configure func(*cache.Options)) *process {
	t.Helper()
	p := &process{seen: map[string]time.Time{}}
	config := rest.CopyConfig(s.user)
	options := cache.Options{DefaultNamespaces: map[string]cache.Config{s.Namespace: {}}}
	configure(&options)
	config.Wrap(p.record)
	objects, err := cache.New(config, options)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = objects.Start(ctx) })
	t.Cleanup(running.Wait)
	for _, kind := range kinds() {
		informer, err := objects.GetInformer(ctx, kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.seen[fmt.Sprintf("%T %s", kind, object.(client.Object).GetName())] = time.Now()
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if !objects.WaitForCacheSync(ctx) {
		t.Fatal("the caches did not sync")
	}
	return p
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// record records each list and watch that the process sends.
func (p *process) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		verb := "list"
		switch {
		case !strings.Contains(r.URL.Path, "/namespaces/"):
			return next.RoundTrip(r) // discovery
		case query.Get("sendInitialEvents") == "true":
			verb = "stream"
		case query.Get("watch") == "true":
			verb = "watch"
		}
		at := time.Now()
		response, err := next.RoundTrip(r)
		sent := request{at: at, kind: path.Base(r.URL.Path), verb: verb}
		switch {
		case err == nil:
			sent.result = strconv.Itoa(response.StatusCode)
		case utilnet.IsConnectionRefused(err):
			sent.result = "refused"
		case utilnet.IsConnectionReset(err):
			sent.result = "reset"
		default:
			sent.result = err.Error()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests = append(p.requests, sent)
		return response, err
	})
}

// sent returns the requests from a time on.
func (p *process) sent(begin time.Time) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []request
	for _, r := range p.requests {
		if !r.at.Before(begin) {
			all = append(all, r)
		}
	}
	return all
}

func (p *process) refused(begin time.Time) int {
	refused := 0
	for _, r := range p.sent(begin) {
		if r.result == "refused" {
			refused++
		}
	}
	return refused
}

// events returns the times at which the watches delivered the objects of a name.
func (p *process) events(name string) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []time.Time
	for key, at := range p.seen {
		if strings.HasSuffix(key, " "+name) {
			all = append(all, at)
		}
	}
	return all
}

// String describes what the process received and sent.
func (p *process) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "seen: %v; sent:", slices.Sorted(maps.Keys(p.seen)))
	for _, r := range p.requests {
		fmt.Fprintf(&text, " %s %s %s %s,", r.at.Format("04:05.0"), r.verb, r.kind, r.result)
	}
	return text.String()
}

func (p *process) waitUntil(ctx context.Context, t testing.TB, description string, reached func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, rig.Timeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !reached() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v; %s", description, ctx.Err(), p)
		case <-ticker.C:
		}
	}
}
