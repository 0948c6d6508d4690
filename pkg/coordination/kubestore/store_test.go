package kubestore_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, prepare(t, rig.Shared(t)).start)
}

// TestLinearizable breaks a control plane in several ways while clients use it.
func TestLinearizable(t *testing.T) {
	cluster := prepare(t, rig.Private(t, rig.Options{}))
	must := func(do func() error) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}
	}
	network := func(do func(*faultproxy.Proxy)) func(*testing.T) { return func(*testing.T) { cluster.each(do) } }
	restore := network((*faultproxy.Proxy).Heal)
	storetest.Linearizable(t, cluster.start,
		storetest.Fault{Name: "etcd is paused", Begin: must(cluster.Etcd.Pause), End: must(cluster.Etcd.Resume)},
		storetest.Fault{
			Name: "responses are delayed", End: restore,
			Begin: network(func(proxy *faultproxy.Proxy) { proxy.Cut(faultproxy.ToClient) }),
		},
		storetest.Fault{
			Name:  "the API server is killed",
			Begin: must(cluster.APIServer.Kill),
			End:   must(func() error { return cluster.APIServer.Start(t.Context()) }),
		},
		storetest.Fault{Name: "the API server is unreachable", Begin: network((*faultproxy.Proxy).Refuse), End: restore},
	)
}

func TestOptions(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	_, err := kubestore.New(r.Clientset, kubestore.Options{})
	g.Expect(err).To(MatchError(ContainSubstring("namespace")))
	_, err = kubestore.New(r.Clientset, kubestore.Options{Namespace: r.Namespace, Name: "Not.a-label"})
	g.Expect(err).To(MatchError(ContainSubstring(`"Not.a-label" cannot be the name of a store`)))
}

func TestMissingNamespace(t *testing.T) {
	g := NewWithT(t)
	store, err := kubestore.New(rig.Shared(t).Clientset, kubestore.Options{Namespace: "nosuch"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = store.Open(t.Context(), "owner", time.Minute)
	g.Expect(err).To(MatchError(ContainSubstring("the namespace nosuch of the store does not exist: create it")))
}

// TestRole compares the role in the documentation with the one that the tests use.
func TestRole(t *testing.T) {
	g := NewWithT(t)
	role, err := os.ReadFile("role.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	documentation, err := os.ReadFile("doc.go")
	g.Expect(err).NotTo(HaveOccurred())
	_, rules, _ := strings.Cut(string(role), "apiVersion:")
	var want strings.Builder
	for line := range strings.Lines("apiVersion:" + rules) {
		want.WriteString("//\t" + line)
	}
	g.Expect(string(documentation)).To(ContainSubstring(want.String()))
}

// TestReadsAreNotCached checks the requests: a request with a resourceVersion may return an outdated state, which a client of a single
// API server would not notice.
func TestReadsAreNotCached(t *testing.T) {
	g := NewWithT(t)
	cluster := prepare(t, rig.Shared(t))
	client, _, transport := cluster.connect(t)
	var mu sync.Mutex
	var reads []string
	look := func(request *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if request.Method == http.MethodGet {
			reads = append(reads, request.URL.Path+"?"+request.URL.RawQuery)
		}
	}
	transport.before.Store(&look)
	store := cluster.open(t, client)
	session, err := store.Open(t.Context(), "owner", time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = store.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{kv.PutFor(session, "/a", "")}})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = store.Read(t.Context(), "/a")
	g.Expect(err).NotTo(HaveOccurred())
	mu.Lock()
	defer mu.Unlock()
	g.Expect(reads).To(And(ContainElement(ContainSubstring("/configmaps/")), ContainElement(ContainSubstring("/leases?"))))
	g.Expect(reads).NotTo(ContainElement(ContainSubstring("resourceVersion")))
}

// TestCommitAfterSessionEndIsRefused pauses a process between its read and its write until its session has ended: the write must be
// refused, although no other client has written in between.
func TestCommitAfterSessionEndIsRefused(t *testing.T) {
	g := NewWithT(t)
	cluster := prepare(t, rig.Shared(t))
	client, _, transport := cluster.connect(t)
	owner, other := cluster.open(t, client), cluster.start(t).Store
	session, err := owner.Open(t.Context(), "owner", 2*time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	version, err := owner.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{kv.PutFor(session, "/lock", "owner")}})
	g.Expect(err).NotTo(HaveOccurred())

	writing, free := make(chan struct{}), make(chan struct{})
	hang := func(request *http.Request) {
		switch {
		case request.Method != http.MethodPut:
		case strings.Contains(request.URL.Path, "/configmaps/"):
			close(writing)
			<-free
		default: // the renewal of its Lease hangs too
			<-free
		}
	}
	transport.before.Store(&hang)
	committed := make(chan error, 1)
	go func() {
		_, err := owner.Commit(context.WithoutCancel(t.Context()), kv.Transaction{
			If:   []kv.Condition{kv.IsAt("/lock", version)},
			Then: []kv.Operation{kv.Put("/done", "by the owner")},
		})
		committed <- err
	}()
	<-writing
	entries := func() (map[string]kv.Entry, error) {
		snapshot, err := other.Read(t.Context(), "/lock", "/done")
		if err != nil {
			return nil, err
		}
		return snapshot.Entries, nil
	}
	g.Eventually(entries, testTimeout).Should(BeEmpty(), "the session ends")
	transport.before.Store(nil)
	close(free)
	g.Eventually(committed, testTimeout).Should(Receive(MatchError(kv.ErrConflict)))
	g.Expect(entries()).To(BeEmpty())
	g.Expect(session.Lost()).To(BeClosed())
}

// TestManualDeletionEndsSession deletes the Lease or the ConfigMap manually.
func TestManualDeletionEndsSession(t *testing.T) {
	for name, remove := range map[string]func(ctx context.Context, r *rig.Rig) error{
		"the Lease": func(ctx context.Context, r *rig.Rig) error {
			return r.Clientset.CoordinationV1().Leases(r.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: kubestore.LabelStore})
		},
		"the ConfigMap": func(ctx context.Context, r *rig.Rig) error {
			return r.Clientset.CoreV1().ConfigMaps(r.Namespace).Delete(ctx, kubestore.DefaultName, metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cluster := prepare(t, rig.Shared(t))
			store := cluster.start(t).Store
			signals := store.Watch(t.Context(), "/a")
			session, err := store.Open(t.Context(), "owner", time.Minute)
			g.Expect(err).NotTo(HaveOccurred())
			put := kv.Transaction{Then: []kv.Operation{kv.PutFor(session, "/a", "")}}
			_, err = store.Commit(t.Context(), put)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(remove(t.Context(), cluster.Rig)).To(Succeed())
			g.Eventually(session.Lost(), testTimeout).Should(BeClosed(), "because the store watches")
			_, err = store.Commit(t.Context(), put)
			g.Expect(err).To(MatchError(kv.ErrSessionLost))
			g.Eventually(signals).Should(Receive())
			g.Eventually(func() (map[string]kv.Entry, error) {
				snapshot, err := store.Read(t.Context(), "/a")
				if err != nil {
					return nil, err
				}
				return snapshot.Entries, nil
			}, testTimeout).Should(BeEmpty())
		})
	}
}

// TestLeasesOfDeadProcessesAreDeleted kills a process with open sessions.
func TestLeasesOfDeadProcessesAreDeleted(t *testing.T) {
	g := NewWithT(t)
	cluster := prepare(t, rig.Shared(t))
	dying, other := cluster.start(t), cluster.start(t).Store
	leases := func() ([]coordinationv1.Lease, error) {
		list, err := cluster.Clientset.CoordinationV1().Leases(cluster.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: kubestore.LabelStore})
		return list.Items, err
	}
	session, err := dying.Store.Open(t.Context(), "Dying (one)!", time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(session.ID()).To(HavePrefix("dying-one-"), "the ID shows the owner")
	g.Expect(leases()).To(ConsistOf(HaveField("Name", kubestore.DefaultName+"-"+session.ID())))
	closed, err := dying.Store.Open(t.Context(), "closed", time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(leases()).To(HaveLen(2))
	g.Expect(closed.Close(t.Context())).To(Succeed())
	g.Expect(leases()).To(HaveLen(1))
	dying.Kill()
	g.Eventually(func() ([]coordinationv1.Lease, error) {
		if _, err := other.Read(t.Context(), "/a"); err != nil {
			return nil, err
		}
		return leases()
	}, testTimeout).Should(BeEmpty())
}

// TestForeignLeaseWritesKeepSession changes a Lease as another client, which must not end the session.
func TestForeignLeaseWritesKeepSession(t *testing.T) {
	g := NewWithT(t)
	cluster := prepare(t, rig.Shared(t))
	store := cluster.start(t).Store
	session, err := store.Open(t.Context(), "annotated", 3*time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	leases := cluster.Clientset.CoordinationV1().Leases(cluster.Namespace)
	g.Expect(retry(func() error {
		lease, err := leases.Get(t.Context(), kubestore.DefaultName+"-"+session.ID(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Annotations = map[string]string{"changed-by": "test"}
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
	g.Consistently(session.Lost(), "6s").ShouldNot(BeClosed())
}

func retry(do func() error) (err error) {
	const tries = 10
	for range tries {
		if err = do(); err == nil {
			return nil
		}
	}
	return err
}

func TestTooLargeStoreIsRefused(t *testing.T) {
	g := NewWithT(t)
	store := prepare(t, rig.Shared(t)).start(t).Store
	put := func(key string, size int) error {
		_, err := store.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{kv.Put(key, strings.Repeat("x", size))}})
		return err
	}
	g.Expect(put("/a", 600<<10)).To(Succeed())
	g.Expect(put("/b", 600<<10)).To(MatchError(And(
		ContainSubstring("is limited to 1048500: "), ContainSubstring("use etcdstore"), ContainSubstring(kv.ErrTooLarge.Error()))))
	g.Expect(put("/b", 400<<10)).To(Succeed(), "it is not yet full")
	_, err := store.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{kv.Delete("/a")}})
	g.Expect(err).NotTo(HaveOccurred(), "there is a way out")
}
