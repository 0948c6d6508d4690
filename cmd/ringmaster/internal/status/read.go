package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// Reader reads the state of rings and objects from a cluster.
type Reader struct {
	rings    client.Reader
	core     kubernetes.Interface
	metadata metadata.Interface
	mapper   meta.RESTMapper
	now      func() time.Time
}

// Query selects the subject of a report.
type Query struct {
	// Rings are the names of rings. Without names, the report is about all rings.
	Rings []string
	// Count is whether all objects of the rings are listed and counted.
	Count bool
	// Namespace is the namespace of named objects, or the only one in which objects are counted. It is empty for
	// all namespaces. If the Leases of all namespaces cannot be read, those of this namespace are.
	Namespace string
	// Implied is whether the namespace is that of the kubeconfig: the user has not named one.
	Implied bool
}

// NewReader returns a Reader for a cluster. The clock is that of this computer.
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
	// It knows short names, as kubectl does. It reads discovery when it is first used.
	discovered := memory.NewMemCacheClient(core.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(discovered), discovered, func(string) {})
	// ControllerRings are read without discovery.
	ringMapper := meta.NewDefaultRESTMapper(nil)
	ringMapper.Add(shardingv1alpha1.SchemeGroupVersion.WithKind("ControllerRing"), meta.RESTScopeRoot)
	rings, err := client.New(config, client.Options{Scheme: scheme, Mapper: ringMapper})
	if err != nil {
		return nil, err
	}
	return &Reader{rings: rings, core: core, metadata: objects, mapper: mapper, now: now}, nil
}

// Rings returns a report on rings.
func (r *Reader) Rings(ctx context.Context, query Query) (*Report, error) {
	if err := r.requireNamespace(ctx, query.Namespace); err != nil {
		return nil, err
	}
	w, err := r.readRings(ctx, query)
	if err != nil {
		return nil, err
	}
	report := &Report{Counted: query.Count, Warnings: w.warnings}
	if query.Count {
		report.Namespace = query.Namespace
		if err := r.resolveAll(ctx, w); err != nil {
			return nil, err
		}
		r.countObjects(ctx, w, query.Namespace)
		r.rereadLeases(ctx, w)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	report.Time, report.Unreadable = metav1.Time{Time: r.now()}, w.unreadable
	for _, f := range w.rings {
		if f.ring == nil && w.replacedByLeader(f, report.Time.Time) {
			continue
		}
		ring := f.report(report.Time.Time)
		ring.Warnings = append(ring.Warnings, w.leaderWarnings(&ring, report.Time.Time)...)
		report.Rings = append(report.Rings, ring)
	}
	if w.ringsErr != nil && !inProcessOnly(query, report.Rings) {
		report.Unreadable = append(report.Unreadable, fmt.Sprintf("ControllerRings: %v", w.ringsErr))
	}
	for _, l := range w.leaders {
		if !l.isLeftover(w.rings, report.Time.Time) {
			report.Leaders = append(report.Leaders, l.report(report.Time.Time))
		}
	}
	return report, nil
}

// inProcessOnly reports whether all rings that the user has named have an active in-process sharder, which does not
// need a ControllerRing.
func inProcessOnly(query Query, rings []Ring) bool {
	return len(query.Rings) > 0 && !slices.ContainsFunc(rings, func(r Ring) bool { return !anyActive(r.Sharders, InProcess) })
}

// requireNamespace returns an error if a namespace does not exist. A user who may not read namespaces is trusted.
func (r *Reader) requireNamespace(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	if _, err := r.get(ctx, namespacesResource, "", name); apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %q not found", name)
	}
	return nil
}

// clusterState is the state that was read of all rings.
type clusterState struct {
	rings    []*ringState
	leaders  []leaderLease
	warnings []string
	// unreadable is what could not be read, as in a Report, and ringsErr why the ControllerRings could not.
	unreadable []string
	ringsErr   error
	// readable are the namespaces whose Leases can be read, if those of all namespaces cannot.
	readable []string
}

func (w *clusterState) warn(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// readRings reads ControllerRings and Leases.
func (r *Reader) readRings(ctx context.Context, query Query) (*clusterState, error) {
	w := &clusterState{}
	list := &shardingv1alpha1.ControllerRingList{}
	ringsErr := r.rings.List(ctx, list)
	if apierrors.IsNotFound(ringsErr) {
		ringsErr = nil // the CRD is not installed; rings with an in-process sharder do not need it
	}
	if ringsErr != nil && !apierrors.IsForbidden(ringsErr) {
		return nil, fmt.Errorf("reading ControllerRings: %w", ringsErr)
	}
	found, leasesErr := r.leases(ctx, w, list.Items, query.Namespace)
	if leasesErr != nil && !apierrors.IsForbidden(leasesErr) {
		return nil, fmt.Errorf("reading the Leases of shards: %w", leasesErr)
	}
	if ringsErr != nil && leasesErr != nil {
		return nil, fmt.Errorf("nothing can be read: it needs permission to list controllerrings.%s, or leases.coordination.k8s.io in one namespace (-n):\n%w",
			shardingv1alpha1.SchemeGroupVersion.Group, errors.Join(ringsErr, leasesErr))
	}
	if ringsErr != nil {
		w.warn("ControllerRings are not shown: %v", ringsErr)
	}
	if leasesErr != nil {
		w.warn("the Leases of shards are not shown: %v", leasesErr)
		w.unreadable = append(w.unreadable, fmt.Sprintf("Leases of shards: %v", leasesErr))
	}
	w.ringsErr, found.ringsUnreadable = ringsErr, ringsErr != nil
	chosen, err := w.choose(declarations(list.Items, found), leaderLeases(found.leaders), query.Rings)
	if err != nil {
		return nil, err
	}
	for _, d := range chosen {
		w.rings = append(w.rings, newRingState(d))
	}
	return w, nil
}

// newRingState returns the state that is known without discovery.
func newRingState(d *declaration) *ringState {
	spec, warnings := d.spec()
	return &ringState{declaration: d, kinds: kindsOf(spec.Spec.Resources), warnings: warnings}
}

// choose selects the rings and leaders that the user has named.
func (w *clusterState) choose(all []*declaration, leaders []leaderLease, names []string) ([]*declaration, error) {
	if len(all) == 0 && len(leaders) == 0 {
		return nil, fmt.Errorf("no ring found: neither a ControllerRing exists, nor a Lease with the label %s of a shard or %s of a leader.\n"+
			"Create a ControllerRing, or start a controller that joins a ring or leads. 'kubectl get leases -A' shows leaders that do not use Ringmaster",
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
		hasLeader := false
		for _, l := range leaders {
			if l.ring == name {
				w.leaders, hasLeader = append(w.leaders, l), true
			}
		}
		if ring < 0 && !hasLeader {
			return nil, &UnknownRingError{Name: name, Rings: ringNames(all, leaders)}
		}
	}
	return chosen, nil
}

// UnknownRingError is returned for a ring that does not exist.
type UnknownRingError struct {
	Name  string
	Rings []string
}

func (e *UnknownRingError) Error() string {
	return fmt.Sprintf("ring %q not found (available: %s)", e.Name, prose.List(e.Rings))
}

func ringNames(all []*declaration, leaders []leaderLease) []string {
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
