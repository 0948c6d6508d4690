package etcdstore_test

import (
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/storetest"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// testTimeout bounds the wait for an expected event.
const testTimeout = rig.Timeout

// network is how processes reach an etcd. They all have proxies of their own.
type network struct {
	members []*rig.EtcdMember

	mu      sync.Mutex
	proxies [][]*faultproxy.Proxy // by process, then by member
}

// connect makes a client that goes through proxies of its own.
func (n *network) connect(t *testing.T) (*clientv3.Client, []*faultproxy.Proxy) {
	t.Helper()
	var proxies []*faultproxy.Proxy
	var endpoints []string
	for _, member := range n.members {
		proxy, err := faultproxy.StartTCP(member.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = proxy.Close() })
		proxies = append(proxies, proxy)
		endpoints = append(endpoints, "http://"+proxy.Address())
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    5 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zap.NewNop(), // what is broken here is broken on purpose
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proxies = append(n.proxies, proxies)
	return client, proxies
}

// start starts a process for the conformance suite.
func (n *network) start(t *testing.T) storetest.Process {
	t.Helper()
	client, proxies := n.connect(t)
	return storetest.Process{
		Store: etcdstore.New(client, etcdstore.Options{}),
		Kill:  func() { _ = client.Close() },
		Interrupt: func() {
			for _, proxy := range proxies {
				proxy.Reset()
			}
		},
	}
}

// each does something to the connections of all processes to a member.
func (n *network) each(member int, do func(*faultproxy.Proxy)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, proxies := range n.proxies {
		do(proxies[member])
	}
}

// leader is the member that leads.
func (n *network) leader(t *testing.T, client *clientv3.Client) int {
	t.Helper()
	status, err := client.Status(t.Context(), n.members[0].Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	members, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range members.Members {
		for i := range n.members {
			if member.ID == status.Leader && member.Name == n.members[i].Name {
				return i
			}
		}
	}
	t.Fatal("no member leads")
	return 0
}
