package observer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// Watch describes the objects to watch.
type Watch struct {
	// Config is the access to the cluster.
	Config *rest.Config
	// Kind is the kind of the sharded objects.
	Kind schema.GroupVersionKind
	// Rings is true if the API server serves ControllerRings.
	Rings bool
}

// Watch starts watches that run until ctx ends. It returns when all existing objects were observed.
func (o *Observer) Watch(ctx context.Context, watch Watch) error {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, eventsv1.AddToScheme, shardingv1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			return err
		}
	}
	objects := &unstructured.Unstructured{}
	objects.SetGroupVersionKind(watch.Kind)
	kinds := map[client.Object]toolscache.ResourceEventHandler{
		objects:                 o.objectHandler(),
		&coordinationv1.Lease{}: o.leaseHandler(),
		&eventsv1.Event{}:       toolscache.ResourceEventHandlerDetailedFuncs{AddFunc: o.event},
	}
	if watch.Rings {
		kinds[&shardingv1alpha1.ControllerRing{}] = o.ringHandler()
	}
	watching, err := cache.New(watch.Config, cache.Options{
		Scheme: known,
		ByObject: map[client.Object]cache.ByObject{&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{
			o.options.Namespace: {}, shardingv1alpha1.NamespaceSystem: {},
		}}},
	})
	if err != nil {
		return fmt.Errorf("preparing to watch the cluster: %w", err)
	}
	go func() { _ = watching.Start(ctx) }() // on failure the informers below do not sync
	for kind, handler := range kinds {
		informer, err := watching.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching the cluster: %w", err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching the cluster: %w", err)
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return fmt.Errorf("watching the cluster: %w", ctx.Err())
		}
	}
	return nil
}

func handler[T any](set, remove func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if now, ok := object.(T); ok {
				set(now)
			}
		},
		UpdateFunc: func(_, object any) {
			if now, ok := object.(T); ok {
				set(now)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if deleted, ok := object.(T); ok {
				remove(deleted)
			}
		},
	}
}

func (o *Observer) objectHandler() toolscache.ResourceEventHandler {
	return handler(
		func(object *unstructured.Unstructured) { o.SetObject(read(object, o.options.Ring)) },
		func(object *unstructured.Unstructured) { o.RemoveObject(nameOf(object)) })
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// read returns the observed state of an object.
func read(object *unstructured.Unstructured, ring string) Object {
	labels := object.GetLabels()
	_, draining := labels[shardingv1alpha1.LabelDrain(ring)]
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	theme, _, _ := unstructured.NestedString(object.Object, "spec", "theme")
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return Object{
		NamespacedName: nameOf(object), Shard: labels[shardingv1alpha1.LabelShard(ring)], Draining: draining,
		Phase: phase, Theme: theme,
		Ready: phase == "Ready" && observed == object.GetGeneration(), Failed: phase == "Error" && observed == object.GetGeneration(),
	}
}

func (o *Observer) leaseHandler() toolscache.ResourceEventHandler {
	return handler(o.observeLease, func(lease *coordinationv1.Lease) {
		o.tracker.Forget(nameOf(lease))
		o.SetLeader(nameOf(lease), "")
	})
}

// observeLease records the Lease of a shard or of a leader election.
func (o *Observer) observeLease(lease *coordinationv1.Lease) {
	o.change(func() {
		o.renewed[nameOf(lease)] = ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
		o.released[nameOf(lease)] = ptr.Deref(lease.Spec.HolderIdentity, "") == ""
	})
	if lease.Labels[shardingv1alpha1.LabelControllerRing] == "" {
		o.SetLeader(nameOf(lease), leaderOf(lease))
		return
	}
	o.tracker.Observe(lease)
	o.options.Changed()
}

// leaderOf returns the instance that holds a leader election Lease. The identity begins with the
// name of the instance, or with the name of the machine. In the latter case the field manager of
// the renew time is the name of the process.
func leaderOf(lease *coordinationv1.Lease) string {
	holder, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_")
	if holder == "" {
		return ""
	}
	for _, entry := range lease.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:renewTime"`) && strings.HasPrefix(entry.Manager, "sharder-") {
			return entry.Manager
		}
	}
	return holder
}

func (o *Observer) ringHandler() toolscache.ResourceEventHandler {
	return handler(
		func(ring *shardingv1alpha1.ControllerRing) {
			if ring.Name == o.options.Ring {
				o.SetRingProblem(problemOf(ring))
			}
		},
		func(ring *shardingv1alpha1.ControllerRing) {
			if ring.Name == o.options.Ring {
				o.SetRingProblem("the ControllerRing was deleted")
			}
		})
}

// problemOf returns why a ring is not ready, or an empty string.
func problemOf(ring *shardingv1alpha1.ControllerRing) string {
	ready := meta.FindStatusCondition(ring.Status.Conditions, shardingv1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return "no sharder has reconciled the ring yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	}
	return ""
}

// event records events of Leases, ControllerRings and Websites. It skips events that existed before
// the watch, those of leader election, and normal events of Websites, which the view shows in other
// places.
func (o *Observer) event(object any, old bool) {
	event, ok := object.(*eventsv1.Event)
	if !ok || old || event.Reason == "LeaderElection" || !slices.Contains([]string{"Lease", "ControllerRing", "Website"}, event.Regarding.Kind) {
		return
	}
	warning := event.Type == corev1.EventTypeWarning
	about := event.Regarding.Name
	if event.Regarding.Kind == "Website" {
		if !warning {
			return
		}
		about = event.Regarding.Namespace + "/" + event.Regarding.Name
	}
	o.RecordEvent(about, event.Note, warning)
}
