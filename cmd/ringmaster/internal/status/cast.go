package status

import (
	"cmp"
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

// cast is who is in a ring.
type cast struct {
	members *ring.Ring
	// shards are all that have a Lease, by name. Of two with one name it is the one that counts.
	shards map[string]*Shard
	// refused are those that do not count.
	refused []*Shard
	blind   bool
}

// moment is a clock that stands still.
type moment time.Time

func (m moment) Now() time.Time                  { return time.Time(m) }
func (m moment) Since(t time.Time) time.Duration { return time.Time(m).Sub(t) }

// cast finds out who is in the ring, as the sharder does.
func (d *declaration) cast(now time.Time) *cast {
	namespaces := d.shardNamespaces()
	tracker := members.New(moment(now), func(string) {})
	for _, lease := range d.shards {
		tracker.Observe(lease)
	}
	var recorded []string
	if d.ring != nil {
		recorded = d.ring.Status.ShardNamespaces
	}
	tracker.Declare(d.name, namespaces, recorded...)
	c := &cast{shards: map[string]*Shard{}, blind: d.blind}
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

// shardNamespaces are the namespaces whose Leases may join the ring; none means all. One of the ring's own
// instances that is its sharder sees the Leases of its namespace.
func (d *declaration) shardNamespaces() []string {
	if d.ring != nil {
		return d.ring.Spec.ShardNamespaces
	}
	var namespaces []string
	for _, lease := range d.sharders {
		namespaces = append(namespaces, lease.Namespace)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// describe is what a Lease tells of its shard.
func describe(lease *coordinationv1.Lease) *Shard {
	shard := &Shard{Name: lease.Name, Namespace: lease.Namespace, State: string(stateOf(lease)), holder: ptr.Deref(lease.Spec.HolderIdentity, "")}
	if shard.holder == "" {
		shard.State = StateLeft // to the sharder it is as dead as any other that does not hold its Lease
	}
	_, shard.Leaving = lease.Annotations[shardingv1alpha1.AnnotationLeaving]
	shard.Leaving = shard.Leaving && held(lease)
	if !lease.CreationTimestamp.IsZero() {
		shard.Created = &lease.CreationTimestamp
	}
	shard.Renewed = seconds(lease.Spec.RenewTime)
	// Who gives a Lease up, or takes it over, renews it a last time.
	shard.Since = shard.Renewed
	if held(lease) {
		shard.Since = seconds(lease.Spec.AcquireTime)
	}
	if shard.Renewed != nil {
		shard.Expires = &metav1.Time{Time: shard.Renewed.Add(durationOf(lease))}
	}
	return shard
}

// stateOf is the state that the sharder shows on a Lease, unless the Lease has changed since.
func stateOf(lease *coordinationv1.Lease) membership.State {
	shown := membership.State(lease.Labels[shardingv1alpha1.LabelState])
	switch {
	case slices.Contains(membership.States, shown) && shown.Member() == held(lease):
		return shown
	case held(lease):
		return membership.Ready
	}
	return membership.Dead
}

// held tells whether a shard holds its Lease, which makes it a member.
func held(lease *coordinationv1.Lease) bool {
	return membership.Lease{Shard: lease.Name, Holder: ptr.Deref(lease.Spec.HolderIdentity, "")}.Held()
}

func durationOf(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(cmp.Or(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0), int32(membership.DefaultDuration/time.Second))) * time.Second
}

func seconds(t *metav1.MicroTime) *metav1.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Time}
}

// refusal is why a ring does not take a Lease.
func refusal(tracker *members.Tracker, key types.NamespacedName, namespaces []string) string {
	if len(key.Name) > shardingv1alpha1.MaxNameLength {
		return fmt.Sprintf("its name has more than %d characters", shardingv1alpha1.MaxNameLength)
	}
	if len(namespaces) > 0 && !slices.Contains(namespaces, key.Namespace) {
		return "the ring takes shards only from the namespaces " + prose.List(namespaces)
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

// shard is what is known of a shard that an object names.
func (c *cast) shard(name string) *Shard {
	if known := c.shards[name]; known != nil {
		return known
	}
	for _, refused := range c.refused {
		if refused.Name == name {
			return refused
		}
	}
	if c.blind {
		return &Shard{Name: name, State: StateUnknown}
	}
	return &Shard{Name: name, State: StateGone}
}

// silence is how long ago a member should have renewed its Lease, by this computer's clock; 0 if it
// need not have. A shard gives up trying after two thirds of the duration.
func (s *Shard) silence(now time.Time) time.Duration {
	if !s.Member || s.Renewed == nil || s.Expires == nil {
		return 0
	}
	patience := s.Expires.Sub(s.Renewed.Time) * 2 / 3
	if silent := now.Sub(s.Renewed.Time); silent > patience {
		return silent
	}
	return 0
}
