package doctor

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// ring is a ring with the Leases that name it.
type ring struct {
	name string
	// declared is its ControllerRing, or nil.
	declared *shardingv1alpha1.ControllerRing
	// sharders are the Leases of its in-process sharders.
	sharders []*coordinationv1.Lease
	shards   []shard
}

// shard is the Lease of a shard, judged as the sharder does.
type shard struct {
	*coordinationv1.Lease
	refusal members.Refusal
	// namesake is the namespace of the older Lease of the same name.
	namesake string
	held     bool
	silent   bool
	// available is true for a shard that gets objects.
	available bool
}

// exists reports whether anything assigns the objects of the ring: otherwise it is only a label on Leases.
func (r *ring) exists() bool { return r.declared != nil || len(r.sharders) > 0 }

// inProcess reports whether the ring has an in-process sharder and no ControllerRing.
func (r *ring) inProcess() bool { return r.declared == nil && len(r.sharders) > 0 }

// object names the ring in findings.
func (r *ring) object() string {
	if r.declared == nil {
		return "ring " + r.name
	}
	return "ControllerRing/" + r.name
}

// available returns the shards that get objects.
func (r *ring) available() []shard {
	return slices.DeleteFunc(slices.Clone(r.shards), func(s shard) bool { return !s.available })
}

// rings returns the rings to check, sorted by name.
func (f *Facts) rings() []*ring {
	all := map[string]*ring{}
	get := func(name string) *ring {
		if all[name] == nil {
			all[name] = &ring{name: name}
		}
		return all[name]
	}
	for i := range f.Rings.Value {
		get(f.Rings.Value[i].Name).declared = &f.Rings.Value[i]
	}
	leases := map[string][]*coordinationv1.Lease{}
	for i := range f.Leases.Value {
		lease := &f.Leases.Value[i]
		if name := lease.Labels[shardingv1alpha1.LabelSharder]; name != "" {
			get(name).sharders = append(get(name).sharders, lease)
		}
		if name := lease.Labels[shardingv1alpha1.LabelControllerRing]; name != "" {
			get(name)
			leases[name] = append(leases[name], lease)
		}
	}
	var chosen []*ring
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f.selects(name) {
			r := all[name]
			r.classifyLeases(leases[name], f.Now, r.inProcessLeads(f.Now) != nil || r.declared != nil && f.externalLeads())
			chosen = append(chosen, all[name])
		}
	}
	return chosen
}

// fixedClock is a clock that stands still.
type fixedClock time.Time

func (i fixedClock) Now() time.Time                  { return time.Time(i) }
func (i fixedClock) Since(t time.Time) time.Duration { return time.Time(i).Sub(t) }

// classifyLeases decides which Leases make shards, with the code of the sharder. A sharder that leads takes the Lease of a
// silent shard over: if it shows the shard as ready, the clock of the shard is behind.
func (r *ring) classifyLeases(leases []*coordinationv1.Lease, now time.Time, sharderLeads bool) {
	tracker := members.New(fixedClock(now), func(string) {})
	for _, lease := range leases {
		tracker.Observe(lease)
	}
	if r.exists() {
		var recorded []string
		if r.declared != nil {
			recorded = r.declared.Status.ShardNamespaces
		}
		tracker.Declare(r.name, r.shardNamespaces(), recorded...)
	}
	for _, lease := range leases {
		key := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
		s := shard{Lease: lease, refusal: tracker.Refusal(key), held: isHeld(lease)}
		s.silent = isSilent(lease, now) && (!sharderLeads || lease.Labels[shardingv1alpha1.LabelState] != string(membership.Ready))
		if s.refusal == members.NameTaken {
			s.namesake, _ = tracker.Incumbent(key)
		}
		if known, found := tracker.Shard(key); found {
			s.available = s.held && !s.silent && !known.Leaving && !known.Cordoned
		}
		r.shards = append(r.shards, s)
	}
	slices.SortFunc(r.shards, func(a, b shard) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
	})
}

// shardNamespaces are the namespaces from which the ring accepts shards. Empty means all.
func (r *ring) shardNamespaces() []string {
	if r.declared != nil {
		return r.declared.AcceptedNamespaces()
	}
	var namespaces []string
	for _, lease := range r.sharders {
		namespaces = append(namespaces, lease.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// spec is the ring as it was declared: by its ControllerRing or, with an in-process sharder, by its shards.
func (r *ring) spec() *shardingv1alpha1.ControllerRing {
	if r.declared != nil {
		return r.declared
	}
	spec := &shardingv1alpha1.ControllerRing{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	for _, s := range r.available() {
		if resources, ok := declaredResources(s.Lease); ok && len(spec.Spec.Resources) == 0 {
			spec.Spec.Resources = resources
		}
		selector := &metav1.LabelSelector{}
		text := s.Annotations[shardingv1alpha1.AnnotationNamespaceSelector]
		if text != "" && json.Unmarshal([]byte(text), selector) == nil {
			spec.Spec.NamespaceSelector = selector
		}
	}
	return spec
}

// selector selects the namespaces of the ring. A ring that does not say uses the default of the sharder,
// which its webhook shows.
func (r *ring) selector(f *Facts) (labels.Selector, error) {
	selector := r.spec().Spec.NamespaceSelector
	if webhook := f.webhookOf(r.name); selector == nil && webhook != nil {
		selector = webhook.NamespaceSelector
	}
	if selector == nil {
		selector = shardingv1alpha1.DefaultNamespaceSelector()
	}
	return metav1.LabelSelectorAsSelector(selector)
}

func isHeld(lease *coordinationv1.Lease) bool {
	return membership.Lease{Shard: lease.Name, Holder: holder(lease)}.Held()
}

func holder(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

func duration(lease *coordinationv1.Lease) time.Duration {
	seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)
	if seconds <= 0 {
		return membership.DefaultDuration
	}
	return time.Duration(seconds) * time.Second
}

// silenceTolerance is added to twice the duration of a Lease before its holder counts as silent, because
// its clock may differ from that of the API server.
const silenceTolerance = 30 * time.Second

// isSilent reports whether the holder of a Lease has not renewed it for so long that it is certainly late.
func isSilent(lease *coordinationv1.Lease, now time.Time) bool {
	return now.Sub(renewTime(lease)) > 2*duration(lease)+silenceTolerance
}

func renewTime(lease *coordinationv1.Lease) time.Time {
	return ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
}

// isLeading reports whether the Lease of an election has a live holder.
func isLeading(lease *coordinationv1.Lease, now time.Time) bool {
	return lease != nil && holder(lease) != "" && !isSilent(lease, now)
}

// externalLeads reports whether the external sharder has a live leader. A sharder without leader election
// (leaderElection.leaderElect: false) has no Lease.
func (f *Facts) externalLeads() bool {
	election := f.Sharder.Election
	return isLeading(election.Value, f.Now) || election.known() && election.Value == nil && slices.ContainsFunc(f.Sharder.Pods.Value, ready)
}

func ready(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// inProcessLeads returns the Lease of a live in-process sharder, or nil.
func (r *ring) inProcessLeads(now time.Time) *coordinationv1.Lease {
	for _, lease := range r.sharders {
		if isLeading(lease, now) {
			return lease
		}
	}
	return nil
}
