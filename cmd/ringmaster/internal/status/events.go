package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// Event is an event of an object, of its ring, or of the Lease of a shard.
type Event struct {
	// About names the object of the event.
	About   Reference    `json:"about"`
	Type    string       `json:"type,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Count   int32        `json:"count,omitempty"`
	Last    *metav1.Time `json:"last,omitempty"`
}

// The maximum numbers of events that are shown of an object, and of its ring and each of its shards.
const (
	maxObjectEvents  = 10
	maxRelatedEvents = 5
	// maxListedEvents bounds the events that are read to find the newest.
	maxListedEvents = 500
)

// eventSource is an object whose events are read.
type eventSource struct {
	Reference
	kind string
	uid  types.UID
	max  int
}

// eventSources returns the objects whose events are shown: first the object itself, then those of its rings and of the
// Leases of its owner and of the shard that should own it.
func (o *objectState) eventSources() []eventSource {
	sources := []eventSource{{o.Reference, o.kind, o.UID, maxObjectEvents}}
	for i := range o.Places {
		place := &o.Places[i]
		in := slices.IndexFunc(o.inRings, func(in *objectInRing) bool { return in.ring.name == place.Ring })
		if in < 0 {
			continue // a leader
		}
		ring := o.inRings[in].ring
		if ring.ring != nil {
			sources = append(sources, eventSource{Reference{"controllerrings.sharding.timebertt.dev", "", ring.name}, "ControllerRing", "", maxRelatedEvents})
		}
		for _, lease := range ring.shards {
			if lease.Name == place.Shard || lease.Name == place.Desired {
				sources = append(sources, eventSource{Reference{"leases.coordination.k8s.io", lease.Namespace, lease.Name}, "Lease", lease.UID, maxRelatedEvents})
			}
		}
	}
	return sources
}

// addEvents adds the recent events of an object. If they cannot be read, it returns a warning.
func (r *Reader) addEvents(ctx context.Context, o *objectState) (warning string) {
	for _, source := range o.eventSources() {
		events, err := r.events(ctx, source)
		if err != nil {
			return fmt.Sprintf("events are not shown: %v", err)
		}
		o.Events = append(o.Events, events...)
	}
	return ""
}

// events returns the newest events about something, newest first.
func (r *Reader) events(ctx context.Context, source eventSource) ([]Event, error) {
	list, err := r.core.CoreV1().Events(cmp.Or(source.Namespace, metav1.NamespaceDefault)).List(ctx, metav1.ListOptions{
		Limit: maxListedEvents,
		FieldSelector: fields.SelectorFromSet(fields.Set{
			"involvedObject.kind": source.kind, "involvedObject.name": source.Name, "involvedObject.namespace": source.Namespace,
		}).String(),
	})
	if err != nil {
		return nil, err
	}
	return newest(list.Items, source), nil
}

// newest returns the newest events about something. It ignores those about an earlier object of the same name.
func newest(all []corev1.Event, source eventSource) []Event {
	var events []Event
	for i := range all {
		e := &all[i]
		if source.uid != "" && e.InvolvedObject.UID != "" && e.InvolvedObject.UID != source.uid {
			continue
		}
		event := Event{About: source.Reference, Type: e.Type, Reason: e.Reason, Message: e.Message, Count: e.Count, Last: lastSeen(e)}
		if e.Series != nil {
			event.Count = e.Series.Count
		}
		events = append(events, event)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.Last.Compare(a.Last.Time) })
	return events[:min(len(events), source.max)]
}

// lastSeen returns when an event last occurred. Which field has it depends on the version of the events API.
func lastSeen(e *corev1.Event) *metav1.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return &metav1.Time{Time: e.Series.LastObservedTime.Time}
	case !e.LastTimestamp.IsZero():
		return &e.LastTimestamp
	case !e.EventTime.IsZero():
		return &metav1.Time{Time: e.EventTime.Time}
	}
	return &e.CreationTimestamp
}
