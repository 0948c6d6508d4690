package etcdstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/storetest"
)

func TestConformance(t *testing.T) {
	etcd := &network{members: rig.Etcd(t, 1)}
	storetest.Run(t, etcd.start)
}

// TestLinearizable breaks an etcd of three members in several ways while clients use it.
func TestLinearizable(t *testing.T) {
	etcd := &network{members: rig.Etcd(t, 3)}
	observer, _ := etcd.connect(t)
	fault := func(name string, begin, end func(t *testing.T, leader int)) storetest.Fault {
		var leader int
		return storetest.Fault{
			Name: name,
			Begin: func(t *testing.T) {
				leader = etcd.leader(t, observer)
				begin(t, leader)
			},
			End: func(t *testing.T) { end(t, leader) },
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	others := func(leader int) []int { return []int{(leader + 1) % 3, (leader + 2) % 3} }
	storetest.Linearizable(t, etcd.start,
		fault("the leader is killed",
			func(t *testing.T, leader int) { must(t, etcd.members[leader].Kill()) },
			func(t *testing.T, leader int) { etcd.members[leader].Start(t) }),
		fault("the leader is paused",
			func(t *testing.T, leader int) { must(t, etcd.members[leader].Pause()) },
			func(t *testing.T, leader int) { must(t, etcd.members[leader].Resume()) }),
		fault("the leader is alone",
			func(t *testing.T, leader int) {
				for _, other := range others(leader) {
					must(t, etcd.members[other].Pause())
				}
			},
			func(t *testing.T, leader int) {
				for _, other := range others(leader) {
					must(t, etcd.members[other].Resume())
				}
			}),
		fault("answers of the leader are held back",
			func(_ *testing.T, leader int) {
				etcd.each(leader, func(proxy *faultproxy.Proxy) { proxy.Cut(faultproxy.ToClient) })
			},
			func(_ *testing.T, leader int) { etcd.each(leader, (*faultproxy.Proxy).Heal) }),
		fault("nobody can be reached",
			func(*testing.T, int) {
				for i := range etcd.members {
					etcd.each(i, (*faultproxy.Proxy).Refuse)
				}
			},
			func(*testing.T, int) {
				for i := range etcd.members {
					etcd.each(i, (*faultproxy.Proxy).Heal)
				}
			}),
	)
}

func TestTooManyOperations(t *testing.T) {
	g := NewWithT(t)
	etcd := &network{members: rig.Etcd(t, 1)}
	store := etcd.start(t).Store
	var operations []kv.Operation
	var paths []string
	for i := range 128 {
		key := fmt.Sprintf("/a/%d", i)
		operations, paths = append(operations, kv.Put(key, "")), append(paths, key)
	}
	_, err := store.Commit(t.Context(), kv.Transaction{Then: operations})
	g.Expect(err).NotTo(HaveOccurred(), "the limit of etcd")
	_, err = store.Commit(t.Context(), kv.Transaction{Then: append(operations, kv.Put("/b", ""))})
	g.Expect(err).To(MatchError(kv.ErrTooLarge))
	g.Expect(err).To(MatchError(ContainSubstring("--max-txn-ops")))
	_, err = store.Read(t.Context(), paths[:64]...)
	g.Expect(err).NotTo(HaveOccurred(), "the limit of etcd")
	_, err = store.Read(t.Context(), paths[:65]...)
	g.Expect(err).To(MatchError(kv.ErrTooLarge))
}

// TestSessionIsLostWhileEtcdHangs pauses etcd: the owner of a session must count it as lost.
func TestSessionIsLostWhileEtcdHangs(t *testing.T) {
	g := NewWithT(t)
	etcd := &network{members: rig.Etcd(t, 1)}
	owner, other := etcd.start(t).Store, etcd.start(t).Store
	session, err := owner.Open(t.Context(), "owner", 3*time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	put := kv.Transaction{Then: []kv.Operation{kv.PutFor(session, "/lock", "owner")}}
	_, err = owner.Commit(t.Context(), put)
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(etcd.members[0].Pause()).To(Succeed())
	g.Eventually(session.Lost(), testTimeout).Should(BeClosed())
	_, err = owner.Commit(t.Context(), put)
	g.Expect(err).To(MatchError(kv.ErrSessionLost), "without asking etcd, which does not answer")
	g.Expect(etcd.members[0].Resume()).To(Succeed())
	g.Eventually(func() (map[string]kv.Entry, error) {
		snapshot, err := other.Read(t.Context(), "/lock")
		if err != nil {
			return nil, err
		}
		return snapshot.Entries, nil
	}, testTimeout).Should(BeEmpty())
	g.Expect(session.Lost()).To(BeClosed(), "what is lost stays lost")
}

// TestSessionIsVisibleInEtcdctl reads a session as etcdctl does.
func TestSessionIsVisibleInEtcdctl(t *testing.T) {
	g := NewWithT(t)
	etcd := &network{members: rig.Etcd(t, 1)}
	client, _ := etcd.connect(t)
	session, err := etcdstore.New(client, etcdstore.Options{}).Open(t.Context(), "dc1 in Berlin", 1500*time.Millisecond)
	g.Expect(err).NotTo(HaveOccurred())
	answer, err := client.Get(t.Context(), etcdstore.DefaultSessions+"/"+session.ID())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Kvs).To(HaveLen(1))
	g.Expect(string(answer.Kvs[0].Value)).To(Equal(`{"name":"dc1 in Berlin","duration":"1.5s"}`))
	g.Expect(session.ID()).To(Equal(fmt.Sprintf("%016x", answer.Kvs[0].Lease)))
	granted, err := client.TimeToLive(t.Context(), clientv3.LeaseID(answer.Kvs[0].Lease))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(granted.GrantedTTL).To(Equal(int64(3600)))
}

// TestManualDeletionEndsSession deletes a session manually. Its owner notices it with the next read.
func TestManualDeletionEndsSession(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, client *clientv3.Client, session *mvccpb.KeyValue) error{
		"its lease": func(ctx context.Context, client *clientv3.Client, session *mvccpb.KeyValue) error {
			_, err := client.Revoke(ctx, clientv3.LeaseID(session.Lease))
			return err
		},
		"its key": func(ctx context.Context, client *clientv3.Client, session *mvccpb.KeyValue) error {
			_, err := client.Delete(ctx, string(session.Key))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &network{members: rig.Etcd(t, 1)}
			client, _ := etcd.connect(t)
			store := etcdstore.New(client, etcdstore.Options{Sessions: "/elsewhere"})
			session, err := store.Open(t.Context(), "owner", time.Hour)
			g.Expect(err).NotTo(HaveOccurred())
			answer, err := client.Get(t.Context(), "/elsewhere/"+session.ID())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Kvs).To(HaveLen(1))
			g.Expect(end(t.Context(), client, answer.Kvs[0])).To(Succeed())
			g.Eventually(func() <-chan struct{} {
				_, err := store.Read(t.Context(), "/a")
				g.Expect(err).NotTo(HaveOccurred())
				return session.Lost()
			}, testTimeout).Should(BeClosed())
		})
	}
}

// TestWatchAfterCompaction interrupts a watch until etcd has compacted the next revision.
func TestWatchAfterCompaction(t *testing.T) {
	g := NewWithT(t)
	etcd := &network{members: rig.Etcd(t, 1)}
	client, proxies := etcd.connect(t)
	signals := etcdstore.New(client, etcdstore.Options{}).Watch(t.Context(), "/a")
	g.Eventually(signals, testTimeout).Should(Receive(), "at the beginning")
	writer, _ := etcd.connect(t)
	put := func() int64 {
		answer, err := writer.Put(t.Context(), "/a/b", "")
		g.Expect(err).NotTo(HaveOccurred())
		return answer.Header.Revision
	}
	put()
	g.Eventually(signals, testTimeout).Should(Receive(), "a change")

	proxies[0].Refuse()
	put()
	_, err := writer.Compact(t.Context(), put())
	g.Expect(err).NotTo(HaveOccurred())
	for len(signals) > 0 {
		<-signals
	}
	proxies[0].Heal()
	g.Eventually(signals, testTimeout).Should(Receive(), "what was compacted is missed")
	g.Eventually(func() int {
		put()
		return len(signals)
	}, testTimeout).Should(Equal(1), "it goes on")
}
