package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
)

// Options say what to check.
type Options struct {
	// Rings are the names of the rings to check. Empty means all rings.
	Rings []string
	// SharderNamespace is the namespace of the external sharder. Empty means the default.
	SharderNamespace string
	// SharderAccount is the ServiceAccount of the sharder, and ShardAccounts are those of the shards.
	// Without them, they are looked up.
	SharderAccount *types.NamespacedName
	ShardAccounts  []types.NamespacedName
	// Probe allows dry-run creates.
	Probe bool
	// Program is how the user calls this program, for commands in next steps. Empty means ringmaster.
	Program string
	// Now is the local clock. It is corrected by that of the API server.
	Now func() time.Time
}

const (
	// requestTimeout is the maximum timeout of a single request.
	requestTimeout = 10 * time.Second
	// concurrency is the maximum number of requests at the same time.
	concurrency = 8
	pageSize    = 500

	// electionName is the name of the Lease of the sharder's leader election, as config/ installs it.
	electionName = "sharder"
	// sharderSelector selects the sharder's pods.
	sharderSelector = "app.kubernetes.io/name=sharder"
	// ownCertificate is the Secret with the certificate that the sharder issues itself, certManagerCertificate
	// the one with that of cert-manager, as config/ installs it.
	ownCertificate, certManagerCertificate = "sharder-webhook-cert", "sharder-certificate"
)

// gatherer reads facts from a cluster.
type gatherer struct {
	Options
	config   *rest.Config
	core     kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	clock    *serverClock
}

// Run checks a cluster. It returns an error if the cluster cannot be checked at all.
func Run(ctx context.Context, config *rest.Config, options Options) (*Report, error) {
	g, err := newGatherer(config, options)
	if err != nil {
		return nil, err
	}
	facts, err := g.gather(ctx)
	if err != nil {
		return nil, err
	}
	if err := facts.requireRings(); err != nil {
		return nil, err
	}
	report := Evaluate(facts)
	if !report.Checked() {
		return nil, fmt.Errorf("nothing could be checked, because nothing may be read: %w; "+
			"ask an administrator to apply 'ringmaster doctor --print-role' and to bind it to you", errors.Join(facts.Rings.Err, facts.Leases.Err))
	}
	report.callProgram(options.Program)
	return report, nil
}

func newGatherer(config *rest.Config, options Options) (*gatherer, error) {
	if options.SharderNamespace == "" {
		options.SharderNamespace = shardingv1alpha1.NamespaceSystem
	}
	g := &gatherer{Options: options, config: rest.CopyConfig(config), clock: &serverClock{now: options.Now}}
	if g.config.Timeout <= 0 || g.config.Timeout > requestTimeout { // --request-timeout can shorten it
		g.config.Timeout = requestTimeout
	}
	g.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return g.clock.observe(next) })
	var err error
	if g.core, err = kubernetes.NewForConfig(g.config); err != nil {
		return nil, err
	}
	if g.dynamic, err = dynamic.NewForConfig(g.config); err != nil {
		return nil, err
	}
	g.metadata, err = metadata.NewForConfig(g.config)
	return g, err
}

// gather reads all facts: first those that need nothing else, then those that depend on rings and Leases.
func (g *gatherer) gather(ctx context.Context) (*Facts, error) {
	f := &Facts{Only: g.Rings, Sharder: SharderFacts{Namespace: g.SharderNamespace, Account: g.SharderAccount}}
	var err error
	if f.EmbeddedCRD, err = embeddedCRD(); err != nil {
		return nil, err
	}
	// The first request: if it fails, so would all others.
	f.Version = read(ctx, kubeversion.ServerVersion(g.config))
	if err := f.Version.Err; err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("reaching the API server %s: %w; check the network and the kubeconfig", g.config.Host, err)
	}
	g.all(
		func() { f.CRD = read(ctx, g.crd) },
		func() { f.Rings = read(ctx, g.rings) },
		func() { f.Leases = read(ctx, g.leases) },
		func() { f.Namespaces = read(ctx, g.namespaces) },
		func() { f.Served = read(ctx, g.served) },
		func() { f.Webhooks = read(ctx, g.webhooks) },
		func() { f.Sharder.Election = read(ctx, g.election) },
		func() { f.Sharder.Pods = read(ctx, g.sharderPods) },
	)
	f.Now = g.clock.Now()
	if apierrors.IsNotFound(f.Rings.Err) && f.CRD.known() && f.CRD.Value == nil {
		f.Rings.Err = nil // without the CRD, there are none
	}
	rings := f.rings()
	g.all(
		func() { f.Services = g.services(ctx, f, rings) },
		func() { g.accounts(ctx, f, rings) },
		func() { f.Probes = g.probes(ctx, f, rings) },
		func() { g.readCertificate(ctx, f) },
	)
	questions, err := f.questions()
	if err != nil {
		return nil, err
	}
	f.Access = g.access(ctx, questions)
	g.accessInNamespaces(ctx, f)
	return f, nil
}

// requireRings returns an error for a ring that was asked for and does not exist.
func (f *Facts) requireRings() error {
	if !f.Rings.known() || !f.Leases.known() {
		return nil
	}
	known := map[string]bool{}
	all := *f
	all.Only = nil
	var names []string
	for _, r := range all.rings() {
		known[r.name] = true
		names = append(names, r.name)
	}
	for i := range f.Webhooks.Value {
		known[f.Webhooks.Value[i].Labels[shardingv1alpha1.LabelControllerRing]] = true
	}
	for _, name := range f.Only {
		if !known[name] {
			if len(names) == 0 {
				return fmt.Errorf("ring %q not found: the cluster has no rings", name)
			}
			return fmt.Errorf("ring %q not found (available: %s)", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// errNoAnswer is the cause when a request takes too long.
var errNoAnswer = errors.New("the API server did not answer in time")

// errTimeout is the cause when the time for all checks is over.
var errTimeout = errors.New("the timeout expired")

// read calls a function that reads, and explains a timeout.
func read[T any](ctx context.Context, get func(context.Context) (T, error)) Read[T] {
	value, err := get(ctx)
	return Read[T]{Value: value, Err: explain(ctx, err)}
}

func explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w before it was read", errTimeout)
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(err.Error(), "Client.Timeout"):
		return errNoAnswer
	}
	return err
}

// all calls functions at the same time.
func (g *gatherer) all(functions ...func()) {
	slots := make(chan struct{}, concurrency)
	var group sync.WaitGroup
	for _, function := range functions {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			function()
		})
	}
	group.Wait()
}

// pages lists all objects in pages.
func pages[T any](ctx context.Context, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) ([]T, string, error)) (all []T, err error) {
	options.Limit = pageSize
	for {
		items, next, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
		if options.Continue = next; next == "" {
			return all, nil
		}
	}
}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func (g *gatherer) crd(ctx context.Context) (map[string]any, error) {
	crd, err := g.dynamic.Resource(crds).Get(ctx, crdName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return crd.Object, nil
}

func (g *gatherer) rings(ctx context.Context) ([]shardingv1alpha1.ControllerRing, error) {
	resource := g.dynamic.Resource(shardingv1alpha1.SchemeGroupVersion.WithResource("controllerrings"))
	return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, options metav1.ListOptions) ([]shardingv1alpha1.ControllerRing, string, error) {
		list, err := resource.List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		typed := &shardingv1alpha1.ControllerRingList{}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(list.UnstructuredContent(), typed)
		return typed.Items, list.GetContinue(), err
	})
}

// leases reads the Leases of shards and of in-process sharders.
func (g *gatherer) leases(ctx context.Context) (all []coordinationv1.Lease, err error) {
	for _, label := range []string{shardingv1alpha1.LabelControllerRing, shardingv1alpha1.LabelSharder} {
		selector := label
		if len(g.Rings) > 0 {
			selector += " in (" + strings.Join(g.Rings, ",") + ")"
		}
		some, err := pages(ctx, metav1.ListOptions{LabelSelector: selector}, func(ctx context.Context, options metav1.ListOptions) ([]coordinationv1.Lease, string, error) {
			list, err := g.core.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, options)
			if err != nil {
				return nil, "", err
			}
			return list.Items, list.Continue, nil
		})
		if err != nil {
			return nil, err
		}
		// The Lease of an election has no ring label, but somebody may have added one.
		all = append(all, slices.DeleteFunc(some, func(lease coordinationv1.Lease) bool {
			return label == shardingv1alpha1.LabelSharder && lease.Labels[shardingv1alpha1.LabelControllerRing] != ""
		})...)
	}
	return all, nil
}

func (g *gatherer) namespaces(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	resource := g.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, options metav1.ListOptions) ([]metav1.PartialObjectMetadata, string, error) {
		list, err := resource.List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.Continue, nil
	})
}
