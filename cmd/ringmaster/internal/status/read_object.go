package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// Objects returns a report on objects. If some are not found, it returns an error and a report on the others.
func (r *Reader) Objects(ctx context.Context, query Query, names []Name) (*Report, error) {
	w, err := r.readRings(ctx, query)
	if err != nil {
		return nil, err
	}
	if err := r.resolveAll(ctx, w); err != nil {
		return nil, err
	}
	r.selectNamespaces(ctx, w, query.Namespace)
	found := make([]*objectState, len(names))
	errs := make([]error, len(names))
	var group sync.WaitGroup
	slots := make(chan struct{}, concurrency)
	for i, name := range names {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			found[i], errs[i] = r.readObject(ctx, w, query, name)
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.rereadLeases(ctx, w)
	report := &Report{Time: metav1.Time{Time: r.now()}, Warnings: w.warnings}
	for _, one := range found {
		if one == nil {
			continue
		}
		for _, s := range one.inRings {
			if len(one.leaders) > 0 && w.replacedByLeader(s.ring, report.Time.Time) {
				continue
			}
			one.Places = append(one.Places, s.place(report.Time.Time))
		}
		for _, l := range one.leaders {
			one.Places = append(one.Places, l.place(one.object, report.Time.Time))
		}
		if warning := r.addEvents(ctx, one); warning != "" && !slices.Contains(report.Warnings, warning) {
			report.Warnings = append(report.Warnings, warning)
		}
		report.Objects = append(report.Objects, one.Object)
	}
	for _, f := range w.rings {
		for _, warning := range f.warnings {
			report.Warnings = append(report.Warnings, fmt.Sprintf("ring %s: %s", f.name, warning))
		}
	}
	return report, errors.Join(errs...)
}

// objectState is an object in all rings that shard its kind, and with all leaders that reconcile it.
type objectState struct {
	Object
	kind    string
	object  *metav1.PartialObjectMetadata
	inRings []*objectInRing
	leaders []leaderLease
}

// readObject reads an object, and its controller or its children.
func (r *Reader) readObject(ctx context.Context, w *clusterState, query Query, name Name) (*objectState, error) {
	mapping, err := r.mapping(name.Type)
	if err != nil {
		return nil, err
	}
	resource := mapping.Resource.GroupResource()
	sharded := slices.ContainsFunc(w.rings, func(f *ringState) bool { return f.spread.Resource(resource) != nil })
	leaders := w.leadersOf(resource, sharded, r.now())
	if !sharded && len(leaders) == 0 {
		return nil, notInAnyRing(resource, w)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		query.Namespace = ""
	}
	object, err := r.get(ctx, mapping.Resource, query.Namespace, name.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, r.notFound(ctx, query, strings.ToLower(mapping.GroupVersionKind.Kind), name.Name)
	case err != nil:
		return nil, fmt.Errorf("reading %s/%s: %w", resource, name.Name, err)
	}
	one := &objectState{
		Object: Object{Reference: Reference{resource.String(), object.Namespace, object.Name}, UID: object.UID},
		kind:   mapping.GroupVersionKind.Kind, object: object, leaders: leaders,
	}
	for _, f := range w.rings {
		known := f.spread.Resource(resource)
		if known == nil {
			continue
		}
		s := &objectInRing{ring: f, resource: known, object: object, selected: object.Namespace == "" || f.selects(object.Namespace)}
		r.readRelated(ctx, s)
		one.inRings = append(one.inRings, s)
	}
	return one, nil
}

// notFound returns the error for an object that does not exist, or whose namespace does not.
func (r *Reader) notFound(ctx context.Context, query Query, kind, name string) error {
	if query.Namespace == "" {
		return fmt.Errorf("%s %q not found", kind, name)
	}
	if err := r.requireNamespace(ctx, query.Namespace); err != nil {
		return fmt.Errorf("%s %q not found: %w", kind, name, err)
	}
	err := fmt.Errorf("%s %q not found in namespace %q", kind, name, query.Namespace)
	if query.Implied {
		err = fmt.Errorf("%w: select another namespace with -n", err)
	}
	return err
}

func notInAnyRing(resource schema.GroupResource, w *clusterState) error {
	var rings strings.Builder
	for _, f := range w.rings {
		spec, _ := f.spec()
		fmt.Fprintf(&rings, "\n  ring %s: %s", f.name, strings.Join(namesOf(spec.Spec.Resources), ", "))
	}
	for _, l := range w.leaders {
		fmt.Fprintf(&rings, "\n  leader of %s: %s", l.ring, strings.Join(namesOf(l.resources()), ", "))
	}
	return fmt.Errorf("no ring has the resource %s (available:%s)", resource, &rings)
}

// mapping looks up a type as kubectl does: a resource in the plural or singular, a short name, or a kind, with or
// without version and group.
func (r *Reader) mapping(named string) (*meta.RESTMapping, error) {
	versioned, resource := schema.ParseResourceArg(named)
	var kind schema.GroupVersionKind
	var err error
	if versioned != nil {
		kind, err = r.mapper.KindFor(*versioned)
	}
	if versioned == nil || err != nil {
		kind, err = r.mapper.KindFor(resource.WithVersion(""))
	}
	if err == nil {
		return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("looking up %q: %w", named, err)
	}
	versionedKind, groupKind := schema.ParseKindArg(named)
	var versions []string
	if versionedKind != nil {
		groupKind, versions = versionedKind.GroupKind(), []string{versionedKind.Version}
	}
	mapping, err := r.mapper.RESTMapping(groupKind, versions...)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the API server does not serve the type %q: 'kubectl api-resources' lists all types", named)
	}
	return mapping, err
}

// IsType reports whether the API server serves a type of this name.
func (r *Reader) IsType(named string) bool {
	_, err := r.mapping(named)
	return err == nil
}

func (r *Reader) get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	return r.in(resource, namespace).Get(ctx, name, metav1.GetOptions{})
}

// in returns the client of a resource in a namespace, or in all.
func (r *Reader) in(resource schema.GroupVersionResource, namespace string) metadata.ResourceInterface {
	if namespace == "" {
		return r.metadata.Resource(resource)
	}
	return r.metadata.Resource(resource).Namespace(namespace)
}

// readRelated reads the controller of an object, or its children.
func (r *Reader) readRelated(ctx context.Context, s *objectInRing) {
	if s.resource.Main() {
		r.children(ctx, s)
		return
	}
	owner, err := s.resource.MainObject(s.object)
	if err != nil {
		return // it has no controller that is sharded
	}
	i := slices.IndexFunc(s.ring.spread.Resources, func(known catalog.Resource) bool { return known.Main() && known.Kind.GroupKind == owner.Kind.GroupKind })
	if i < 0 {
		return
	}
	resource := &s.ring.spread.Resources[i]
	controller := &relatedObject{Reference: Reference{resource.Resource.GroupResource().String(), owner.Namespace, owner.Name}}
	controller.object, controller.err = r.get(ctx, resource.Resource, owner.Namespace, owner.Name)
	if controller.err != nil {
		controller.object = nil
	}
	if apierrors.IsNotFound(controller.err) {
		controller.err = nil
	}
	s.controller = controller
}

// children reads the objects of controlled kinds that the object controls.
func (r *Reader) children(ctx context.Context, s *objectInRing) {
	for i := range s.ring.spread.Resources {
		resource := &s.ring.spread.Resources[i]
		if !slices.ContainsFunc(resource.Controllers, func(kind catalog.Kind) bool { return kind.GroupKind == s.resource.Kind.GroupKind }) {
			continue
		}
		name := resource.Resource.GroupResource().String()
		err := r.forEachObject(ctx, r.in(resource.Resource, s.object.Namespace), func(object *metav1.PartialObjectMetadata) {
			if controller := metav1.GetControllerOfNoCopy(object); controller != nil && controller.UID == s.object.UID {
				s.children = append(s.children, relatedObject{Reference: Reference{name, object.Namespace, object.Name}, object: object.DeepCopy()})
			}
		})
		if err != nil {
			s.children = append(s.children, relatedObject{Reference: Reference{Resource: name}, err: err})
		}
	}
}
