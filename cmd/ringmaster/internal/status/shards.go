package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/membership"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/ring"
	"github.com/ringmaster-project/ringmaster/internal/sharder/members"
)

// shardSet has the shards of a ring.
type shardSet struct {
	members *ring.Ring
	// shards are those with a Lease that the ring accepts, by name.
	shards map[string]*Shard
	// refused are those with a Lease that the ring refuses.
	refused          []*Shard
	leasesUnreadable bool
}

// fixedClock is a clock that does not advance.
type fixedClock time.Time

func (m fixedClock) Now() time.Time                  { return time.Time(m) }
func (m fixedClock) Since(t time.Time) time.Duration { return time.Time(m).Sub(t) }

// shardSet returns the shards of the ring, with the membership that the sharder decides.
func (d *declaration) shardSet(now time.Time) *shardSet {
	namespaces := d.shardNamespaces()
	tracker := members.New(fixedClock(now), func(string) {})
	for _, lease := range d.shards {
		tracker.Observe(lease)
	}
	var recorded []string
	if d.ring != nil {
		recorded = d.ring.Status.ShardNamespaces
	}
	tracker.Declare(d.name, namespaces, recorded...)
	c := &shardSet{shards: map[string]*Shard{}, leasesUnreadable: d.leasesUnreadable}
	c.members, _ = tracker.Ring(d.name)
	for _, lease := range d.shards {
		shard := describe(lease)
		key := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
		if _, counts := tracker.Shard(key); counts {
			shard.Member, shard.Cordoned = c.members.Has(lease.Name), c.members.IsCordoned(lease.Name)
			c.shards[lease.Name] = shard
			continue
		}
		shard.State, shard.Refused, shard.Leaving = StateRefused, refusal(tracker, key, namespaces), false
		c.refused = append(c.refused, shard)
	}
	return c
}

// shardNamespaces returns the namespaces from which shards may join the ring; none means all. An in-process sharder
// reads only the Leases of its own namespace.
func (d *declaration) shardNamespaces() []string {
	if d.ring != nil {
		return d.ring.AcceptedNamespaces()
	}
	var namespaces []string
	for _, lease := range d.sharders {
		namespaces = append(namespaces, lease.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// describe returns the state of a shard according to its Lease.
func describe(lease *coordinationv1.Lease) *Shard {
	shard := &Shard{Name: lease.Name, Namespace: lease.Namespace, State: string(stateOf(lease)), holder: ptr.Deref(lease.Spec.HolderIdentity, "")}
	if shard.holder == "" {
		shard.State = StateLeft // which is dead for the sharder
	}
	_, shard.Leaving = lease.Annotations[shardingv1alpha1.AnnotationLeaving]
	shard.Leaving = shard.Leaving && holdsLease(lease)
	shard.published = publishedCounts(lease.Annotations[shardingv1alpha1.AnnotationObjects])
	if !lease.CreationTimestamp.IsZero() {
		shard.Created = &lease.CreationTimestamp
	}
	shard.Renewed = timeOf(lease.Spec.RenewTime)
	// Both a release and a take-over of the Lease set its renew time.
	shard.Since = shard.Renewed
	if holdsLease(lease) {
		shard.Since = timeOf(lease.Spec.AcquireTime)
	}
	if shard.Renewed != nil {
		shard.Expires = &metav1.Time{Time: shard.Renewed.Add(durationOf(lease))}
	}
	return shard
}

// publishedCounts parses the numbers of objects on a Lease. It returns nil if there are none. It ignores values that
// are not numbers: a later version may publish more about a resource.
func publishedCounts(annotation string) map[string]int {
	values := map[string]any{}
	if annotation == "" || json.Unmarshal([]byte(annotation), &values) != nil {
		return nil
	}
	counts := map[string]int{}
	for resource, value := range values {
		if number, ok := value.(float64); ok {
			counts[resource] = int(number)
		}
	}
	return counts
}

// stateOf returns the state that the sharder has written to a Lease, unless its holder has changed since.
func stateOf(lease *coordinationv1.Lease) membership.State {
	shown := membership.State(lease.Labels[shardingv1alpha1.LabelState])
	switch {
	case slices.Contains(membership.States, shown) && shown.Member() == holdsLease(lease):
		return shown
	case holdsLease(lease):
		return membership.Ready
	}
	return membership.Dead
}

// holdsLease reports whether a shard holds its own Lease, which makes it a member.
func holdsLease(lease *coordinationv1.Lease) bool {
	return membership.Lease{Shard: lease.Name, Holder: ptr.Deref(lease.Spec.HolderIdentity, "")}.Held()
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(cmp.Or(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0), int32(membership.DefaultDuration/time.Second))) * time.Second
}

func timeOf(t *metav1.MicroTime) *metav1.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Time}
}

// refusal returns why a ring refuses a Lease.
func refusal(tracker *members.Tracker, key types.NamespacedName, namespaces []string) string {
	if len(key.Name) > shardingv1alpha1.MaxNameLength {
		return fmt.Sprintf("its name has more than %d characters", shardingv1alpha1.MaxNameLength)
	}
	if len(namespaces) > 0 && !slices.Contains(namespaces, key.Namespace) {
		return "the ring accepts shards only from the namespaces " + prose.List(namespaces)
	}
	switch tracker.Refusal(key) {
	case members.DurationTooLong:
		return "its lease duration exceeds " + membership.MaxDuration.String()
	case members.RingFull:
		return fmt.Sprintf("the ring has %d shards with older leases", membership.MaxShards)
	case members.NotRefused, members.NoRing, members.NameTooLong, members.WrongNamespace, members.NameTaken:
	}
	other, _ := tracker.Incumbent(key)
	return fmt.Sprintf("an older shard in the namespace %s has the same name", other)
}

// shard returns a shard that the label of an object names.
func (c *shardSet) shard(name string) *Shard {
	if known := c.shards[name]; known != nil {
		return known
	}
	for _, refused := range c.refused {
		if refused.Name == name {
			return refused
		}
	}
	if c.leasesUnreadable {
		return &Shard{Name: name, State: StateUnknown}
	}
	return &Shard{Name: name, State: StateGone}
}

// unrenewedFor returns the time since a member last renewed its Lease, by the clock of this computer, or 0 if the
// renewal is not late. A shard stops after two thirds of the lease duration.
func (s *Shard) unrenewedFor(now time.Time) time.Duration {
	if !s.Member || s.Renewed == nil || s.Expires == nil {
		return 0
	}
	deadline := s.Expires.Sub(s.Renewed.Time) * 2 / 3
	if age := now.Sub(s.Renewed.Time); age > deadline {
		return age
	}
	return 0
}
