package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/webhosting/config"
	"github.com/ringmaster-project/ringmaster/examples/webhosting/website"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

const (
	crds    = "examples/webhosting/config/crds"
	timeout = rig.Timeout
)

func TestMain(m *testing.M) {
	if err := errors.Join(webhostingv1alpha1.AddToScheme(scheme.Scheme), shardingv1alpha1.AddToScheme(scheme.Scheme)); err != nil {
		panic(err)
	}
	// Without a controller manager: the tests set the status of Deployments.
	rig.Main(m, rig.Options{CRDs: []string{crds, "config/crds"}})
}

// fixture is a cluster with a namespace for Websites.
type fixture struct {
	*rig.Rig
	*WithT
	t       *testing.T
	project string // the namespace of the Websites
}

func setUp(t *testing.T, r *rig.Rig) *fixture {
	t.Helper()
	f := &fixture{Rig: r, WithT: NewWithT(t), t: t, project: r.Namespace}
	f.SetDefaultEventuallyTimeout(timeout)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	f.SetDefaultConsistentlyDuration(time.Second)
	return f
}

// operatorConfig returns a client config with the roles of the operator.
func (f *fixture) operatorConfig() *rest.Config {
	f.t.Helper()
	const account = "operator"
	ctx := f.t.Context()
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.Namespace, Name: account}}
	meta := metav1.ObjectMeta{Namespace: f.Namespace, Name: account}
	f.create(&corev1.ServiceAccount{ObjectMeta: meta})
	all := &rbacv1.ClusterRole{}
	f.manifest("rbac/role.yaml", all)
	f.create(all)
	f.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.Namespace}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: all.Name},
	})
	own := &rbacv1.Role{}
	f.manifest("rbac/leases.yaml", own)
	own.Namespace = f.Namespace
	f.create(own)
	f.create(&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: own.Name}})
	found, err := f.TokenRESTConfig(ctx, f.Namespace, account)
	f.Expect(err).NotTo(HaveOccurred())
	found.QPS = -1 // as in main
	return found
}

// manifest reads the first object of a manifest.
func (f *fixture) manifest(file string, into client.Object) {
	f.t.Helper()
	content, err := config.Files.ReadFile(file)
	f.Expect(err).NotTo(HaveOccurred())
	const buffer = 4096
	f.Expect(yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), buffer).Decode(into)).To(Succeed())
}

// create creates an object, unless another test has created it.
func (f *fixture) create(object client.Object) {
	f.t.Helper()
	if err := f.Client.Create(f.t.Context(), object); !apierrors.IsAlreadyExists(err) {
		f.Expect(err).NotTo(HaveOccurred())
	}
}

// operator is an instance in the process of the test.
type operator struct {
	*reconcileLog
	*transport
	*shard.Manager
	stop func()
}

// start runs an instance for the Websites of this test.
func (f *fixture) start(change ...func(*options)) *operator {
	f.t.Helper()
	return f.startWith(&transport{}, change...)
}

func (f *fixture) startWith(proxy *transport, change ...func(*options)) *operator {
	f.t.Helper()
	o := options{
		shard:   shard.Options{Mode: shard.ModeAlone, Ring: "webhosting-operator", Name: "me", Namespace: f.Namespace},
		website: website.Options{Image: "nginx:stable", Concurrency: 5, Clock: clock.RealClock{}, RecheckInterval: 100 * time.Millisecond},
	}
	op := &operator{reconcileLog: &reconcileLog{}, transport: proxy}
	o.manager.Logger = op.logger()
	o.manager.Cache = cache.Options{DefaultNamespaces: map[string]cache.Config{f.project: {}}}
	o.manager.Metrics.BindAddress = "0"
	o.manager.Controller.SkipNameValidation = new(true)
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	mgr, err := newManager(ctx, proxy.wrap(f.operatorConfig()), o)
	f.Expect(err).NotTo(HaveOccurred())
	op.Manager = mgr
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	op.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Errorf("the operator failed: %v", err)
		}
	})
	f.t.Cleanup(func() {
		op.stop()
		if f.t.Failed() {
			f.t.Logf("log of the operator:\n%s", strings.Join(op.all, "\n"))
		}
	})
	return op
}
