package status

import (
	"encoding/json"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/catalog"
)

// now is the time of the tests.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

func micro(d time.Duration) *metav1.MicroTime { return &metav1.MicroTime{Time: now.Add(-d)} }

// lease returns the Lease of a shard that joined an hour ago and renewed it a second ago, with changes.
func lease(name string, changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "system", Name: name, CreationTimestamp: *before(time.Hour),
			Labels:      map[string]string{shardingv1alpha1.LabelControllerRing: "ring", shardingv1alpha1.LabelState: "ready"},
			Annotations: map[string]string{},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &name, LeaseDurationSeconds: new(int32(15)), AcquireTime: micro(time.Hour), RenewTime: micro(time.Second),
		},
	}
	for _, change := range changes {
		change(l)
	}
	return l
}

func in(namespace string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Namespace = namespace }
}

func heldBy(holder string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &holder }
}

func shows(state string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Labels[shardingv1alpha1.LabelState] = state }
}

func renewed(ago time.Duration) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Spec.RenewTime = micro(ago) }
}

func leaves(l *coordinationv1.Lease) { l.Annotations[shardingv1alpha1.AnnotationLeaving] = "true" }

func worksOn(resources ...shardingv1alpha1.RingResource) func(*coordinationv1.Lease) {
	content, err := json.Marshal(resources)
	if err != nil {
		panic(err)
	}
	return func(l *coordinationv1.Lease) { l.Annotations[shardingv1alpha1.AnnotationResources] = string(content) }
}

// elected returns the Lease of an in-process sharder.
func elected(holder string, changes ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	l := lease("ring-sharder", append([]func(*coordinationv1.Lease){heldBy(holder)}, changes...)...)
	l.Labels = map[string]string{shardingv1alpha1.LabelSharder: "ring"}
	return l
}

func resource(name string, controlled ...string) shardingv1alpha1.RingResource {
	r := shardingv1alpha1.RingResource{GroupResource: groupResource(name)}
	for _, c := range controlled {
		r.ControlledResources = append(r.ControlledResources, groupResource(c))
	}
	return r
}

func groupResource(name string) shardingv1alpha1.GroupResource {
	parsed := schema.ParseGroupResource(name)
	return shardingv1alpha1.GroupResource{Group: parsed.Group, Resource: parsed.Resource}
}

// controllerRing returns a ring that a sharder has observed, if it has conditions.
func controllerRing(conditions ...metav1.Condition) *shardingv1alpha1.ControllerRing {
	ring := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: "ring"}}
	ring.Spec.Resources = []shardingv1alpha1.RingResource{resource("websites.example.com", "deployments.apps")}
	ring.Status.Conditions = conditions
	return ring
}

func condition(kind string, status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Reason", Message: message, LastTransitionTime: *before(time.Minute)}
}

var isReady = condition("Ready", metav1.ConditionTrue, "All is well.")

// The resources of the ring.
var (
	websiteKind = catalog.Kind{GroupKind: schema.GroupKind{Group: "example.com", Kind: "Website"}, Namespaced: true}
	websites    = catalog.Resource{Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "websites"}, Kind: websiteKind}
	deployments = catalog.Resource{
		Resource:    schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Kind:        catalog.Kind{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Namespaced: true},
		Controllers: []catalog.Kind{websiteKind},
	}
)

// ringStateOf returns a ring with these shards, whose objects are to be counted.
func ringStateOf(ring *shardingv1alpha1.ControllerRing, shards ...*coordinationv1.Lease) *ringState {
	return &ringState{
		declaration: &declaration{name: "ring", ring: ring, shards: shards},
		spread:      &catalog.Ring{Name: "ring", Resources: []catalog.Resource{websites, deployments}, Namespaces: labels.Everything()},
		counters:    []*objectCounter{newObjectCounter(), newObjectCounter()},
	}
}

// uncounted returns the same ring as it is reported without counting objects.
func uncounted(f *ringState) *ringState { return newRingState(f.declaration) }

// publishes sets the numbers of objects that a shard publishes.
func publishes(annotation string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Annotations[shardingv1alpha1.AnnotationObjects] = annotation }
}

// website returns a main object. Its labels are its shard and, if it is being drained, its next owner.
func website(name string, shardAndDrain ...string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "project", Name: name, Labels: map[string]string{}}}
	for i, value := range shardAndDrain {
		object.Labels[[]string{shardingv1alpha1.LabelShard("ring"), shardingv1alpha1.LabelDrain("ring")}[i]] = value
	}
	if len(shardAndDrain) > 0 && shardAndDrain[0] == "" {
		delete(object.Labels, shardingv1alpha1.LabelShard("ring"))
	}
	return object
}

// deployment returns an object whose controller is a website.
func deployment(controller string, shard ...string) *metav1.PartialObjectMetadata {
	object := website("deployment", shard...)
	if controller != "" {
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Website", Name: controller, Controller: new(true)}}
	}
	return object
}

// written adds managed fields that a manager wrote some time ago.
func written(object *metav1.PartialObjectMetadata, manager string, ago time.Duration, fields string) *metav1.PartialObjectMetadata {
	object.ManagedFields = append(object.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: before(ago), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	})
	return object
}

// byUs returns the managed fields of a manager that writes only labels.
func byUs(labels ...string) string {
	fields := map[string]any{".": map[string]any{}}
	for _, label := range labels {
		fields["f:"+label] = map[string]any{}
	}
	content, err := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:labels": fields}})
	if err != nil {
		panic(err)
	}
	return string(content)
}
