package shard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/ringmaster-project/ringmaster/internal/faultproxy"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/ringfile"
	"github.com/ringmaster-project/ringmaster/internal/roles"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

// leader is a process that leads with client-go alone.
func leader(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	lead := &shard.Leader{
		Client: clients.CoordinationV1(), Namespace: os.Getenv("POD_NAMESPACE"), Name: "ring-leader", Instance: os.Getenv("SHARD"),
		Duration: duration, RenewDeadline: deadline, RetryPeriod: retry,
	}
	return lead.Run(ctx, func(ctx context.Context) {
		fmt.Println("leading")
		<-ctx.Done()
		fmt.Println("ended")
	})
}

// TestPartitionedLeaderStopsBeforeNextOneLeads partitions a leader from the API server.
func TestPartitionedLeaderStopsBeforeNextOneLeads(t *testing.T) {
	t.Parallel()
	for program, leads := range map[string]string{"operator": "ended main\n", "leader": "leading\n"} {
		t.Run(program, func(t *testing.T) {
			f := setUp(t)
			if program == "operator" {
				f.plain("main")
			}
			proxy := f.Proxy(t)
			start := func(name string, proxy *faultproxy.Proxy) *rig.Running {
				return f.Start(t, rig.Process{
					Name: name, ServiceAccount: "operator", Program: program, Proxy: proxy,
					Roles: operatorRoles, Env: []string{"SHARD=" + name, "MODE=" + string(shard.ModeLead)},
				})
			}
			a := start("a", proxy)
			f.expectOutput(a, leads)
			b := start("b", nil)
			proxy.Cut(faultproxy.ToServer)
			_, err := f.end(a)
			f.Expect(err).To(HaveOccurred())
			f.expectOutput(a, shard.ErrLeaseLost.Error())
			f.expectNoOutput(b, leads)
			f.expectOutput(b, leads)
		})
	}
}

// TestShardWithoutPatchPermissionDoesNotJoin because it could never release an object.
func TestShardWithoutPatchPermissionDoesNotJoin(t *testing.T) {
	f := setUp(t)
	p := f.Start(t, rig.Process{
		Name: "readonly", ServiceAccount: "readonly", Program: "operator",
		Roles: []string{"pkg/shard/testdata/role.yaml", "pkg/shard/testdata/leader.yaml", "pkg/shard/testdata/readonly.yaml"},
		Env:   []string{"SHARD=readonly"},
	})
	_, err := f.end(p)
	f.Expect(err).To(HaveOccurred())
	f.expectOutput(p, "missing permissions: patch configmaps in the namespace "+f.Namespace+". Without them")
	_, err = f.Clientset.CoordinationV1().Leases(f.Namespace).Get(t.Context(), "readonly", metav1.GetOptions{})
	f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it never was a member")
}

// TestInstanceWithoutSharderPermissionsDoesNotStart because it could not assign objects when it is elected.
func TestInstanceWithoutSharderPermissionsDoesNotStart(t *testing.T) {
	t.Parallel()
	const lease, leads, sharder = "pkg/shard/testdata/role.yaml", "pkg/shard/testdata/leader.yaml", "pkg/shard/testdata/sharder.yaml"
	for name, test := range map[string]struct {
		mode    shard.Mode
		roles   []string
		env     string
		missing string
	}{
		"objects in all namespaces": {shard.ModeInProcess, []string{lease, leads, sharder, "pkg/shard/testdata/namespaced.yaml"}, "", "list, watch, patch configmaps in all namespaces; list, patch secrets in all namespaces. "},
		"objects, as the sharder":   {shard.ModeSharder, []string{lease, leads, sharder, "pkg/shard/testdata/namespaced.yaml"}, "", "list, watch, patch configmaps in all namespaces; list, patch secrets in all namespaces. "},
		"leases of other shards":    {shard.ModeInProcess, []string{lease, leads, "pkg/shard/testdata/operator.yaml"}, "", "watch, patch, delete leases.coordination.k8s.io in the namespace "},
		"labels of namespaces":      {shard.ModeInProcess, []string{lease, leads, sharder, "pkg/shard/testdata/operator.yaml"}, "NAMESPACES=labels", "list, watch namespaces. "},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			p := f.Start(t, rig.Process{
				Name: "lacking", ServiceAccount: "lacking", Program: "operator", Roles: test.roles,
				Env: []string{"SHARD=lacking", "MODE=" + string(test.mode), test.env},
			})
			_, err := f.end(p)
			f.Expect(err).To(HaveOccurred())
			f.expectOutput(p, "missing permissions: "+test.missing)
			_, err = f.Clientset.CoordinationV1().Leases(f.Namespace).Get(t.Context(), "lacking", metav1.GetOptions{})
			f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it never was a member")
			f.expectNoOutput(p, "Attempting to acquire leader lease")
		})
	}
}

// TestCommandGrantsMissingPermissions applies the roles of the command in the error. The instance then joins.
func TestCommandGrantsMissingPermissions(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]string{"namespaces by name": "", "namespaces by labels": "NAMESPACES=labels"} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			lacking := rig.Process{
				Name: "lacking", ServiceAccount: "lacking", Program: "operator", Roles: []string{"pkg/shard/testdata/namespaced.yaml"},
				Env: []string{"SHARD=lacking", "MODE=" + string(shard.ModeInProcess), env},
			}
			p := f.Start(t, lacking)
			_, err := f.end(p)
			f.Expect(err).To(HaveOccurred())
			f.expectOutput(p, "missing permissions: ")
			command := regexp.MustCompile(`echo '([^'"]+)' \| ringmaster role -f - --shard (\S+) --in-process \| kubectl apply -f -`).FindStringSubmatch(outputOf(p))
			f.Expect(command).NotTo(BeNil(), outputOf(p))
			f.Expect(command[2]).To(Equal(f.Namespace + "/lacking"))
			declared, err := ringfile.Find(strings.NewReader(command[1]), "ring")
			f.Expect(err).NotTo(HaveOccurred())
			declared.Name = f.Namespace // the names of ClusterRoles must not clash with those of other tests
			for _, role := range roles.ForInstances(declared, types.NamespacedName{Namespace: f.Namespace, Name: "lacking"}) {
				object := role.(client.Object)
				f.Expect(f.Client.Create(t.Context(), object)).To(Succeed())
				t.Cleanup(func() { f.Expect(f.Client.Delete(context.Background(), object)).To(Succeed()) })
			}
			f.expectOutput(f.Start(t, lacking), "Acquired shard lease")
		})
	}
}

// TestCachedNamespacesOfSharder restricts the cache of a sharded kind to a namespace that the in-process
// sharder does not know. A user may start the manager that was given to Join.
func TestCachedNamespacesOfSharder(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]shard.Mode{"a shard": shard.ModeInProcess, "a sharder": shard.ModeSharder} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			ring, err := shard.New(f.Config, shard.Options{Mode: mode, Ring: "ring", Name: "a", Namespace: f.Namespace})
			f.Expect(err).NotTo(HaveOccurred())
			options := manager.Options{
				Scheme: f.scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, LeaderElectionNamespace: f.Namespace,
				Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
					&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{f.Namespace: {}}},
				}},
			}
			f.Expect(ring.Configure(&options)).To(Succeed())
			plain, err := manager.New(f.Config, options)
			f.Expect(err).NotTo(HaveOccurred())
			mgr, err := ring.Join(plain)
			f.Expect(err).NotTo(HaveOccurred())
			f.Expect(shard.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}, shard.Sharded{}, builder.OnlyMetadata).
				Named(string(mode)).Complete(nothing)).To(Succeed())
			ctx, stop := context.WithTimeout(t.Context(), testTimeout)
			defer stop()
			f.Expect(plain.Start(ctx)).To(MatchError(ContainSubstring("set NamespaceSelector")))
			f.Expect(mgr.Start(ctx)).To(MatchError(ContainSubstring("set NamespaceSelector")))
			_, err = f.Clientset.CoordinationV1().Leases(f.Namespace).Get(t.Context(), "a", metav1.GetOptions{})
			f.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it never was a member")
		})
	}
}

var nothing = reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })

// scheme returns a new scheme, because managers add to it while other tests read.
func (f *fixture) scheme() *runtime.Scheme {
	f.t.Helper()
	s := runtime.NewScheme()
	f.Expect(scheme.AddToScheme(s)).To(Succeed())
	return s
}

// manager returns a manager that is not started.
func (f *fixture) manager(mode shard.Mode, change ...func(*manager.Options)) *shard.Manager {
	f.t.Helper()
	options := manager.Options{
		Scheme: f.scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: new(time.Second),
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{f.Namespace: {}}},
	}
	options.Controller.SkipNameValidation = new(true)
	for _, c := range change {
		c(&options)
	}
	mgr, err := shard.NewManager(f.Config, options, shard.Options{Mode: mode, Ring: "ring", Name: "a", Namespace: f.Namespace})
	f.Expect(err).NotTo(HaveOccurred())
	return mgr
}

func enqueueNothing() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return nil })
}

// TestInvalidBuildersAreRefused when the controller is built.
func TestInvalidBuildersAreRefused(t *testing.T) {
	f := setUp(t)
	foreign, err := manager.New(f.Config, manager.Options{Scheme: f.scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	f.Expect(err).NotTo(HaveOccurred())
	for want, build := range map[string]func(mgr *shard.Manager) error{
		"does not belong to a shard": func(*shard.Manager) error {
			return shard.ControllerManagedBy(foreign).For(&corev1.ConfigMap{}, shard.Sharded{}).Complete(nothing)
		},
		"is an option of shard.ControllerManagedBy": func(mgr *shard.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).Named("wrong").For(&corev1.ConfigMap{}, shard.Sharded{}).
				Watches(&corev1.Secret{}, enqueueNothing()).Complete(nothing)
		},
		"Watches with shard.Sharded{} requires a sharded For": func(mgr *shard.Manager) error {
			return shard.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Watches(&corev1.Secret{}, enqueueNothing(), shard.Sharded{}).Complete(nothing)
		},
		"needs ShardedBy": func(mgr *shard.Manager) error {
			return shard.TypedControllerManagedBy[string](mgr).For(&corev1.ConfigMap{}, shard.Sharded{}).
				Complete(reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) { return reconcile.Result{}, nil }))
		},
		"the main kind of one controller and a controlled kind of another": func(mgr *shard.Manager) error {
			return errors.Join(
				shard.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}, shard.Sharded{}).Owns(&corev1.Secret{}, shard.Sharded{}).Complete(nothing),
				shard.ControllerManagedBy(mgr).For(&corev1.Secret{}, shard.Sharded{}).Complete(nothing))
		},
	} {
		f.Expect(build(f.manager(shard.ModeInProcess))).To(MatchError(ContainSubstring(want)))
	}
}

// TestOrdinaryControllerOnShardedKindIsRefused because in the leader it would get only some of the objects.
func TestOrdinaryControllerOnShardedKindIsRefused(t *testing.T) {
	f := setUp(t)
	for name, build := range map[string]func(mgr *shard.Manager) error{
		"controller-runtime's builder": func(mgr *shard.Manager) error {
			return ctrl.NewControllerManagedBy(mgr).Named("ordinary").For(&corev1.ConfigMap{}).Complete(nothing)
		},
		"without Sharded": func(mgr *shard.Manager) error {
			return shard.ControllerManagedBy(mgr).Named("ordinary").For(&corev1.ConfigMap{}).Complete(nothing)
		},
	} {
		mgr := f.manager(shard.ModeShard)
		f.Expect(shard.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}, shard.Sharded{}).Complete(nothing)).To(Succeed(), name)
		f.Expect(build(mgr)).To(Succeed(), name)
		f.Expect(mgr.Start(t.Context())).To(MatchError(And(
			ContainSubstring(`the ordinary controller "ordinary" watches *v1.ConfigMap, which is sharded`),
			ContainSubstring("or add shard.Sharded{} to For"))), name)
	}
}

// TestSetupWithAnyManager builds controllers as operators of kubebuilder do, with a manager.Manager, also with other request
// types and in several ways to watch a kind.
func TestSetupWithAnyManager(t *testing.T) {
	f := setUp(t)
	reconciled := make(chan string, 100)
	note := func(as string) reconcile.Reconciler {
		return reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
			reconciled <- as + " " + request.Name
			return reconcile.Result{}, nil
		})
	}
	setup := func(mgr manager.Manager) error {
		return errors.Join(
			shard.ControllerManagedBy(mgr).Named("typed").For(&corev1.ConfigMap{}, shard.Sharded{}).
				WatchesMetadata(&corev1.Secret{}, enqueueNothing(), shard.Sharded{}).Complete(note("typed")),
			shard.ControllerManagedBy(mgr).Named("metadata").For(&corev1.ConfigMap{}, shard.Sharded{}, builder.OnlyMetadata).Complete(note("metadata")),
			shard.TypedControllerManagedBy[string](mgr).Named("string").
				ShardedBy(&corev1.ConfigMap{}, func(name string) types.NamespacedName {
					return types.NamespacedName{Namespace: f.Namespace, Name: name}
				}).
				Watches(&corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []string {
					return []string{object.GetName(), "theirs"}
				})).
				Complete(reconcile.TypedFunc[string](func(_ context.Context, name string) (reconcile.Result, error) {
					reconciled <- "string " + name
					return reconcile.Result{}, nil
				})))
	}
	mgr := f.manager(shard.ModeShard)
	f.Expect(setup(mgr)).To(Succeed())
	f.configMap("mine", "a")
	f.configMap("theirs", "b")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	seen := map[string]bool{}
	f.Eventually(func() map[string]bool {
		select {
		case one := <-reconciled:
			seen[one] = true
		default:
		}
		return seen
	}).Should(HaveLen(3))
	f.Expect(seen).To(And(HaveKey("typed mine"), HaveKey("metadata mine"), HaveKey("string mine")))
	f.Expect(f.lease("a").Annotations).To(ContainElement(ContainSubstring(`"controlledResources":[{"group":"","resource":"secrets"}]`)),
		"a kind of Watches follows its controllers")
	stop()
	f.Expect(<-ended).To(Succeed())
}

// TestSharderAssignsOnlyInCachedNamespaces because no shard could release other objects.
func TestSharderAssignsOnlyInCachedNamespaces(t *testing.T) {
	f := setUp(t)
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}}
	f.Expect(f.Client.Create(t.Context(), other)).To(Succeed())
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other.Name, Name: "foreign"}}
	f.Expect(f.Client.Create(t.Context(), foreign)).To(Succeed())
	mgr := f.manager(shard.ModeInProcess)
	f.Expect(shard.ControllerManagedBy(mgr).For(&corev1.ConfigMap{}, shard.Sharded{}).Complete(nothing)).To(Succeed())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	own := f.plain("own")
	f.Eventually(func() map[string]string { return f.labels(own) }).Should(HaveKeyWithValue(ours, "a"))
	f.Expect(f.labels(foreign)).To(BeEmpty())
	stop()
	f.Expect(<-ended).To(Succeed())
}

// TestElectionOnAnotherCluster has an election Lease on another cluster than its objects.
func TestElectionOnAnotherCluster(t *testing.T) {
	f := setUp(t)
	proxy := f.Proxy(t)
	elsewhere := f.namespaceAdmin()
	elsewhere.Host = proxy.URL()
	proxy.Cut(faultproxy.ToServer)
	mgr := f.manager(shard.ModeLead, func(options *manager.Options) { options.LeaderElectionConfig = elsewhere })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	f.Consistently(func() string { return f.leader("ring-leader") }, "1s").Should(BeEmpty(), "the election is where nobody can be reached")
	proxy.Heal()
	f.Eventually(func() string { return f.leader("ring-leader") }).Should(Equal("a"))
	stop()
	f.Expect(<-ended).To(Succeed())
}
