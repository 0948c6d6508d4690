package coordination_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

// stores are both kinds, each empty when it is opened.
func stores(t *testing.T) map[string]func(t *testing.T) kv.Store {
	t.Helper()
	return map[string]func(t *testing.T) kv.Store{"etcd": inEtcd, "kubernetes": inKubernetes}
}

func inEtcd(t *testing.T) kv.Store {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{rig.Etcd(t, 1)[0].Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its etcd may be gone
	return etcdstore.New(client, etcdstore.Options{})
}

func inKubernetes(t *testing.T) kv.Store {
	t.Helper()
	r := rig.Shared(t)
	clients, err := kubernetes.NewForConfig(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	store, err := kubestore.New(clients, kubestore.Options{Namespace: r.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	return store
}
