package history

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/assignment"
)

// Watcher records every write of objects and of shards' Leases.
type Watcher struct {
	Client   dynamic.Interface
	Recorder *Recorder
	// Ring is the name of the ring whose labels and Leases are recorded.
	Ring string
	// Namespace is the namespace of the objects. If it is empty, the Watcher watches the ring itself.
	Namespace string
	// Everything watches all objects of all namespaces instead. It records Leases as objects, not as those of shards.
	Everything bool
	// Content returns the part of an object that the oracle compares, or is nil.
	Content func(object *unstructured.Unstructured) string
}

// Leases is the resource of shards' Leases.
var Leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// Watch records the writes of a resource, starting with a list, until ctx ends. It returns when the list is
// recorded. done waits for the end.
func (w *Watcher) Watch(ctx context.Context, resource schema.GroupVersionResource, done *sync.WaitGroup) error {
	stream := &stream{Watcher: w, resource: resource, known: map[string]*unstructured.Unstructured{}}
	if err := stream.list(ctx); err != nil {
		return fmt.Errorf("listing %s: %w", resource.Resource, err)
	}
	done.Go(func() { stream.run(ctx) })
	return nil
}

// stream records the writes of one resource.
type stream struct {
	*Watcher
	resource schema.GroupVersionResource
	// version is the last recorded resourceVersion, and known are the objects at that version.
	version string
	known   map[string]*unstructured.Unstructured
}

// run records writes, also after outages of the API server.
func (s *stream) run(ctx context.Context) {
	const pause = 50 * time.Millisecond
	for ctx.Err() == nil {
		if err := s.follow(ctx); apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			// A restarted API server may not have the earlier versions. The list has the latest ones.
			_ = s.list(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (s *stream) options() metav1.ListOptions {
	switch {
	case s.Everything:
		return metav1.ListOptions{}
	case s.Namespace == "":
		return metav1.ListOptions{FieldSelector: "metadata.name=" + s.Ring}
	case s.resource == Leases:
		return metav1.ListOptions{LabelSelector: shardingv1alpha1.LabelControllerRing + "=" + s.Ring}
	}
	return metav1.ListOptions{}
}

func (s *stream) list(ctx context.Context) error {
	list, err := s.client().List(ctx, s.options())
	if err != nil {
		return err
	}
	missing := s.known
	s.known = map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		object := &list.Items[i]
		before := missing[key(object)]
		delete(missing, key(object))
		s.known[key(object)] = object
		if before == nil || before.GetResourceVersion() != object.GetResourceVersion() {
			s.record(object, before, false, true)
		}
	}
	for _, object := range missing {
		before := object.DeepCopy()
		object.SetResourceVersion(list.GetResourceVersion())
		s.record(object, before, true, true)
	}
	s.version = list.GetResourceVersion()
	return nil
}

// key returns the key of an object among those of its resource.
func key(object *unstructured.Unstructured) string {
	return object.GetNamespace() + "/" + object.GetName()
}

func (s *stream) client() dynamic.ResourceInterface {
	if s.Namespace == "" || s.Everything {
		return s.Client.Resource(s.resource)
	}
	return s.Client.Resource(s.resource).Namespace(s.Namespace)
}

// follow records until the watch ends, and returns the error of the API server, if any.
func (s *stream) follow(ctx context.Context) error {
	options := s.options()
	options.ResourceVersion, options.AllowWatchBookmarks = s.version, true
	events, err := s.client().Watch(ctx, options)
	if err != nil {
		return err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		s.take(event.Type, event.Object)
	}
	return nil
}

func (s *stream) take(kind watch.EventType, seen runtime.Object) {
	object, ok := seen.(*unstructured.Unstructured)
	if !ok {
		panic(fmt.Sprintf("unexpected type %[2]T in a watch of %[1]s", s.resource.Resource, seen))
	}
	s.version = object.GetResourceVersion()
	switch kind {
	case watch.Added, watch.Modified:
		before := s.known[key(object)]
		s.known[key(object)] = object
		s.record(object, before, false, false)
	case watch.Deleted:
		before := s.known[key(object)]
		delete(s.known, key(object))
		s.record(object, before, true, false)
	case watch.Bookmark, watch.Error:
	}
}

// record records a write of an object. before is its previous version, or nil.
func (s *stream) record(object, before *unstructured.Unstructured, deleted, listed bool) {
	renewal := s.resource == Leases && !deleted && onlyRenewed(before, object)
	if s.resource == Leases && !s.Everything {
		lease := s.lease(object, deleted)
		lease.Renewal = renewal
		s.Recorder.Record(Event{Type: Leased, Lease: lease})
		return
	}
	write := s.write(object, deleted, listed)
	write.Renewal = renewal
	s.Recorder.Record(Event{Type: Wrote, Write: write})
}

// onlyRenewed reports whether only the renew time of a Lease has changed.
func onlyRenewed(before, after *unstructured.Unstructured) bool {
	if before == nil || before.GetUID() != after.GetUID() {
		return false
	}
	before, after = before.DeepCopy(), after.DeepCopy()
	for _, lease := range []*unstructured.Unstructured{before, after} {
		lease.SetResourceVersion("")
		lease.SetManagedFields(nil)
		unstructured.RemoveNestedField(lease.Object, "spec", "renewTime")
	}
	return equality.Semantic.DeepEqual(before.Object, after.Object)
}

// write returns the recorded fields of an object.
func (s *stream) write(object *unstructured.Unstructured, deleted, listed bool) *Write {
	labels, kind := object.GetLabels(), object.GroupVersionKind()
	shardLabel := shardingv1alpha1.LabelShard(s.Ring)
	destination, draining := labels[shardingv1alpha1.LabelDrain(s.Ring)]
	write := &Write{
		Object:      Object{Group: kind.Group, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName()},
		UID:         string(object.GetUID()),
		Version:     Version(object),
		Shard:       labels[shardLabel],
		Draining:    draining,
		Destination: destination,
		Manager:     manager(object, shardLabel),
		Deleted:     deleted,
		Listed:      listed,
	}
	if s.Content != nil {
		write.Content = s.Content(object)
	}
	if controller, name, found := assignment.Controller(object.GetOwnerReferences()); found {
		write.Controller = &Object{Group: controller.Group, Kind: controller.Kind, Namespace: object.GetNamespace(), Name: name}
	}
	return write
}

func (s *stream) lease(object *unstructured.Unstructured, deleted bool) *Lease {
	lease := &coordinationv1.Lease{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, lease); err != nil {
		panic(fmt.Sprintf("reading a Lease: %v", err))
	}
	observed := &Lease{
		Shard: lease.Name, Version: Version(object), Deleted: deleted,
		Instance: lease.Annotations[shardingv1alpha1.AnnotationInstance],
	}
	_, observed.Leaving = lease.Annotations[shardingv1alpha1.AnnotationLeaving]
	if lease.Spec.HolderIdentity != nil {
		observed.Holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		observed.Renewed = lease.Spec.RenewTime.Time
	}
	return observed
}

// Version returns the resourceVersion as a number. It is the revision of etcd, which orders the writes of all
// kinds.
func Version(object metav1.Object) uint64 {
	const decimal, bits = 10, 64
	number, err := strconv.ParseUint(object.GetResourceVersion(), decimal, bits)
	if err != nil {
		panic(fmt.Sprintf("reading a resourceVersion: %v", err))
	}
	return number
}

// manager returns the field manager of a label.
func manager(object *unstructured.Unstructured, label string) string {
	entries, _, _ := unstructured.NestedSlice(object.Object, "metadata", "managedFields")
	for _, entry := range entries {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		if _, set, _ := unstructured.NestedFieldNoCopy(fields, "fieldsV1", "f:metadata", "f:labels", "f:"+label); set {
			name, _, _ := unstructured.NestedString(fields, "manager")
			return name
		}
	}
	return ""
}
