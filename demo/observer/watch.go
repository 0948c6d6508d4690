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

// Watch says what to watch.
type Watch struct {
	// Config is the access to the cluster.
	Config *rest.Config
	// Kind is that of the objects that are spread.
	Kind schema.GroupVersionKind
	// Rings is whether the cluster knows ControllerRings.
	Rings bool
}

// Watch looks at a cluster until ctx ends. It returns when all that is there was seen.
func (s *Scene) Watch(ctx context.Context, watch Watch) error {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, eventsv1.AddToScheme, shardingv1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			return err
		}
	}
	objects := &unstructured.Unstructured{}
	objects.SetGroupVersionKind(watch.Kind)
	kinds := map[client.Object]toolscache.ResourceEventHandler{
		objects:                 s.objectHandler(),
		&coordinationv1.Lease{}: s.leaseHandler(),
		&eventsv1.Event{}:       toolscache.ResourceEventHandlerDetailedFuncs{AddFunc: s.event},
	}
	if watch.Rings {
		kinds[&shardingv1alpha1.ControllerRing{}] = s.ringHandler()
	}
	looking, err := cache.New(watch.Config, cache.Options{
		Scheme: known,
		ByObject: map[client.Object]cache.ByObject{&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{
			s.options.Namespace: {}, shardingv1alpha1.NamespaceSystem: {},
		}}},
	})
	if err != nil {
		return fmt.Errorf("preparing to look at the cluster: %w", err)
	}
	go func() { _ = looking.Start(ctx) }() // it fails only before it has begun, and then nothing syncs
	for kind, handler := range kinds {
		informer, err := looking.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("looking at the cluster: %w", err)
		}
		seen, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("looking at the cluster: %w", err)
		}
		if !toolscache.WaitForCacheSync(ctx.Done(), seen.HasSynced) {
			return fmt.Errorf("looking at the cluster: %w", ctx.Err())
		}
	}
	return nil
}

func handler[T any](see, miss func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if now, is := object.(T); is {
				see(now)
			}
		},
		UpdateFunc: func(_, object any) {
			if now, is := object.(T); is {
				see(now)
			}
		},
		DeleteFunc: func(object any) {
			if lost, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = lost.Obj
			}
			if gone, is := object.(T); is {
				miss(gone)
			}
		},
	}
}

func (s *Scene) objectHandler() toolscache.ResourceEventHandler {
	return handler(
		func(object *unstructured.Unstructured) { s.See(read(object, s.options.Ring)) },
		func(object *unstructured.Unstructured) { s.Miss(nameOf(object)) })
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// read takes what counts from an object.
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

func (s *Scene) leaseHandler() toolscache.ResourceEventHandler {
	return handler(s.seeLease, func(lease *coordinationv1.Lease) {
		s.tracker.Forget(nameOf(lease))
		s.Elect(nameOf(lease), "")
	})
}

// seeLease notes a Lease, which is that of a shard or of an election.
func (s *Scene) seeLease(lease *coordinationv1.Lease) {
	s.change(func() { s.renewed[nameOf(lease)] = ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time })
	if lease.Labels[shardingv1alpha1.LabelControllerRing] == "" {
		s.Elect(nameOf(lease), leaderOf(lease))
		return
	}
	s.tracker.Observe(lease)
	s.options.Changed()
}

// leaderOf is the instance that holds the Lease of an election. Its identity begins with the instance's
// name, or else with that of this machine: then the name of its program, which the API server has noted
// as the one that renews, tells more.
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

func (s *Scene) ringHandler() toolscache.ResourceEventHandler {
	return handler(
		func(ring *shardingv1alpha1.ControllerRing) {
			if ring.Name == s.options.Ring {
				s.Worry(problemOf(ring))
			}
		},
		func(ring *shardingv1alpha1.ControllerRing) {
			if ring.Name == s.options.Ring {
				s.Worry("the ControllerRing is gone")
			}
		})
}

// problemOf is the first thing that is wrong with a ring.
func problemOf(ring *shardingv1alpha1.ControllerRing) string {
	ready := meta.FindStatusCondition(ring.Status.Conditions, shardingv1alpha1.ConditionReady)
	switch {
	case ready == nil:
		return "no sharder has looked at the ring yet"
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	}
	return ""
}

// event passes on what people should know. What was there before is no news, and who leads and that a website
// is well is seen elsewhere.
func (s *Scene) event(object any, old bool) {
	event, is := object.(*eventsv1.Event)
	if !is || old || event.Reason == "LeaderElection" || !slices.Contains([]string{"Lease", "ControllerRing", "Website"}, event.Regarding.Kind) {
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
	s.Tell(about, event.Note, warning)
}
