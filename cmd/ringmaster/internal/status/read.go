package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// Reader reads from a cluster what there is to see.
type Reader struct {
	rings    client.Reader
	core     kubernetes.Interface
	metadata metadata.Interface
	mapper   meta.RESTMapper
	now      func() time.Time
}

// Query says what somebody wants to see.
type Query struct {
	// Rings are the names of rings. Without any it is all of them.
	Rings []string
	// Namespace is the one whose objects are counted, or that named objects are in. To count in all, it is
	// empty.
	Namespace string
	// Implied is whether nobody has named the namespace: it is what the kubeconfig says.
	Implied bool
}

// NewReader returns a Reader for a cluster. The clock is this computer's.
func NewReader(config *rest.Config, now func() time.Time) (*Reader, error) {
	scheme := runtime.NewScheme()
	if err := shardingv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// It knows short names, as kubectl does.
	discovered := memory.NewMemCacheClient(core.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(discovered), discovered, func(string) {})
	rings, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &Reader{rings: rings, core: core, metadata: objects, mapper: mapper, now: now}, nil
}

// Rings reports about rings.
func (r *Reader) Rings(ctx context.Context, query Query) (*Report, error) {
	if err := r.requireNamespace(ctx, query.Namespace); err != nil {
		return nil, err
	}
	w, err := r.look(ctx, query)
	if err != nil {
		return nil, err
	}
	r.countAll(ctx, w, query.Namespace)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.lookAgain(ctx, w)
	report := &Report{Time: metav1.Time{Time: r.now()}, Namespace: query.Namespace, Warnings: w.warnings}
	for _, f := range w.rings {
		if f.ring == nil && w.instead(f, report.Time.Time) {
			continue
		}
		ring := f.report(report.Time.Time)
		ring.Warnings = append(ring.Warnings, w.leaderWarnings(&ring, report.Time.Time)...)
		report.Rings = append(report.Rings, ring)
	}
	for _, l := range w.leaders {
		if !l.past(w.rings, report.Time.Time) {
			report.Leaders = append(report.Leaders, l.report(report.Time.Time))
		}
	}
	return report, nil
}

// requireNamespace tells when there is no namespace of a name. Whoever may not read namespaces is believed.
func (r *Reader) requireNamespace(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if _, err := r.get(ctx, namespacesResource, "", name); apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no namespace %q", name)
	}
	return nil
}

// world is what was read of all rings.
type world struct {
	rings    []*facts
	leaders  []leadership
	warnings []string
	// readable are the namespaces whose Leases can be read, if those of all cannot.
	readable []string
}

func (w *world) warn(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// look reads which rings there are.
func (r *Reader) look(ctx context.Context, query Query) (*world, error) {
	w := &world{}
	list := &shardingv1alpha1.ControllerRingList{}
	ringsErr := r.rings.List(ctx, list)
	if meta.IsNoMatchError(ringsErr) {
		ringsErr = nil // nobody has installed the sharder; rings can do without
	}
	if ringsErr != nil && !apierrors.IsForbidden(ringsErr) {
		return nil, fmt.Errorf("reading ControllerRings: %w", ringsErr)
	}
	found, leasesErr := r.leases(ctx, w, list.Items, query.Namespace)
	if leasesErr != nil && !apierrors.IsForbidden(leasesErr) {
		return nil, fmt.Errorf("reading the shards' Leases: %w", leasesErr)
	}
	if ringsErr != nil && leasesErr != nil {
		return nil, fmt.Errorf("there is nothing that may be read; it takes the right to list controllerrings.%s, or leases.coordination.k8s.io in one namespace (-n):\n%w",
			shardingv1alpha1.SchemeGroupVersion.Group, errors.Join(ringsErr, leasesErr))
	}
	if ringsErr != nil {
		w.warn("ControllerRings are not shown: %v", ringsErr)
	}
	if leasesErr != nil {
		w.warn("the Leases of shards are not shown: %v", leasesErr)
	}
	chosen, err := w.choose(declarations(list.Items, found), leaderships(found.leaders), query.Rings)
	if err != nil {
		return nil, err
	}
	for _, d := range chosen {
		f, err := r.resolve(ctx, d)
		if err != nil {
			return nil, err
		}
		w.rings = append(w.rings, f)
	}
	return w, nil
}

// choose picks the rings, and who leads, that were named.
func (w *world) choose(all []*declaration, leaders []leadership, names []string) ([]*declaration, error) {
	if len(all) == 0 && len(leaders) == 0 {
		return nil, fmt.Errorf("no ring: there is no ControllerRing, and no Lease with the label %s, as shards have, or %s, as those have who lead.\n"+
			"Make one, or start a controller that joins one or leads. Who leads without Ringmaster is in 'kubectl get leases -A'",
			shardingv1alpha1.LabelControllerRing, shardingv1alpha1.LabelLeader)
	}
	if len(names) == 0 {
		w.leaders = leaders
		return all, nil
	}
	var chosen []*declaration
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		ring := slices.IndexFunc(all, func(d *declaration) bool { return d.name == name })
		if ring >= 0 {
			chosen = append(chosen, all[ring])
		}
		led := false
		for _, l := range leaders {
			if l.ring == name {
				w.leaders, led = append(w.leaders, l), true
			}
		}
		if ring < 0 && !led {
			return nil, &UnknownRingError{Name: name, Rings: ringNames(all, leaders)}
		}
	}
	return chosen, nil
}

// UnknownRingError is returned for a ring that is not there.
type UnknownRingError struct {
	Name  string
	Rings []string
}

func (e *UnknownRingError) Error() string {
	return fmt.Sprintf("there is no ring %q, but: %s", e.Name, prose.List(e.Rings))
}

func ringNames(all []*declaration, leaders []leadership) []string {
	var names []string
	for _, d := range all {
		names = append(names, d.name)
	}
	for _, l := range leaders {
		names = append(names, l.ring)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// leases reads all Leases that have to do with rings; in the namespaces that it may, if not in all.
func (r *Reader) leases(ctx context.Context, w *world, rings []shardingv1alpha1.ControllerRing, namespace string) (*leases, error) {
	found := &leases{}
	err := r.leasesIn(ctx, metav1.NamespaceAll, found)
	if apierrors.IsForbidden(err) {
		for _, allowed := range leaseNamespaces(rings, namespace) {
			if tried := r.leasesIn(ctx, allowed, found); tried == nil {
				w.readable = append(w.readable, allowed)
			}
		}
		if len(w.readable) > 0 {
			w.warn("only the Leases of %s are shown: %v", prose.List(w.readable), err)
			err = nil
		}
	}
	found.blind = err != nil
	found.election, found.unelected = r.election(ctx)
	return found, err
}

// leaseNamespaces are where Leases may be that are worth a try.
func leaseNamespaces(rings []shardingv1alpha1.ControllerRing, namespace string) []string {
	var namespaces []string
	if namespace != "" {
		namespaces = append(namespaces, namespace)
	}
	for i := range rings {
		namespaces = append(namespaces, rings[i].Spec.ShardNamespaces...)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

func (r *Reader) leasesIn(ctx context.Context, namespace string, found *leases) error {
	for label, to := range map[string]*[]coordinationv1.Lease{
		shardingv1alpha1.LabelControllerRing: &found.shards, shardingv1alpha1.LabelSharder: &found.sharders,
		shardingv1alpha1.LabelLeader: &found.leaders,
	} {
		options := metav1.ListOptions{LabelSelector: label, Limit: pageSize}
		for {
			page, err := r.core.CoordinationV1().Leases(namespace).List(ctx, options)
			if err != nil {
				return err
			}
			*to = append(*to, page.Items...)
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
	}
	return nil
}

// election is the Lease of the sharder's replicas where config/ has it, or nil: it may be elsewhere, and
// not everybody may read it. It also tells whether there is none.
func (r *Reader) election(ctx context.Context) (found *coordinationv1.Lease, none bool) {
	lease, err := r.core.CoordinationV1().Leases(shardingv1alpha1.NamespaceSystem).Get(ctx, "sharder", metav1.GetOptions{})
	if err != nil {
		return nil, apierrors.IsNotFound(err)
	}
	return lease, false
}

// lookAgain reads the Leases again after the objects: an object may name a shard that has joined meanwhile.
func (r *Reader) lookAgain(ctx context.Context, w *world) {
	found, namespaces := &leases{}, []string{metav1.NamespaceAll}
	if len(w.readable) > 0 {
		namespaces = w.readable
	}
	for _, namespace := range namespaces {
		if err := r.leasesIn(ctx, namespace, found); err != nil {
			return // what was read before has to do
		}
	}
	for _, f := range w.rings {
		f.shards, f.sharders = nil, nil
		for _, now := range declarations(nil, found) {
			if f.name == now.name {
				f.shards, f.sharders = now.shards, now.sharders
			}
		}
	}
	for i, l := range w.leaders {
		for _, now := range found.leaders {
			if l.lease.Namespace == now.Namespace && l.lease.Name == now.Name {
				w.leaders[i].lease = &now
			}
		}
	}
}
