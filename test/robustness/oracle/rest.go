package oracle

import (
	"maps"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// rest finds writes other than renewals at rest (I5).
func (r *run) rest() {
	written := map[uint64]bool{} // versions, because the record may have a write twice
	for _, o := range r.objects {
		for i := range o.versions {
			v := &o.versions[i]
			if !r.Quiet.contains(v.at) || v.Listed {
				continue
			}
			written[v.Version] = true
			if !v.Renewal {
				r.found(WrittenAtRest, o.Object, v.at, v.at, nil, "version %d was written, with the shard label %q of %q", v.Version, v.Shard, v.Manager)
			}
		}
	}
	for shard, writes := range r.leases {
		for i := range writes {
			lease := &writes[i]
			if !r.Quiet.contains(lease.at) {
				continue
			}
			written[lease.Version] = true
			// The sharder deletes the Lease of a dead shard after a minute, whatever else happens.
			if forgotten := lease.Deleted && i > 0 && !writes[i-1].Held(); !lease.Renewal && !forgotten {
				r.found(WrittenAtRest, leaseOf(shard), lease.at, lease.at, []string{shard}, "version %d changed more than the renewTime", lease.Version)
			}
		}
	}
	r.figures.Rest, r.figures.WrittenAtRest = r.Quiet.length(), len(written)
}

// leaseOf returns the name of a shard's Lease for a violation.
func leaseOf(shard string) history.Object {
	return history.Object{Group: "coordination.k8s.io", Kind: "Lease", Name: shard}
}

// unrecorded finds versions in Counted that are not in the record (I5).
func (r *run) unrecorded() {
	recorded := map[uint64]bool{}
	for _, o := range r.objects {
		for i := range o.versions {
			recorded[o.versions[i].Version] = true
		}
	}
	for _, writes := range r.leases {
		for i := range writes {
			recorded[writes[i].Version] = true
		}
	}
	for version := r.Counted.After + 1; version < r.Counted.Before; version++ {
		if !recorded[version] {
			r.found(WrittenAtRest, history.Object{}, r.Quiet.From, r.Quiet.To, nil, "version %d is not in the record", version)
		}
	}
}

// endState checks the owners of all objects in the end (I6).
func (r *run) endState() {
	members := &r.epochs[len(r.epochs)-1]
	for _, o := range r.objects {
		last := o.last()
		if last == nil {
			continue
		}
		switch {
		case r.main(o):
			r.endOfMain(o, last, members)
		case r.controlled(o):
			r.endOfChild(o, last)
		}
	}
}

func (r *run) endOfMain(o *object, last *observedWrite, members *epoch) {
	if want := members.owner(o.Object); last.Shard != want {
		r.found(EndState, o.Object, last.at, r.end, []string{last.Shard}, "its owner by the ring is %q, and its label says %q", want, last.Shard)
		return
	}
	if last.Draining {
		r.found(EndState, o.Object, last.at, r.end, []string{last.Shard}, "%s has not released it", last.Shard)
	}
}

// endOfChild checks that a child has the same owner as its controller, if it has one.
func (r *run) endOfChild(o *object, last *observedWrite) {
	if last.Controller == nil || r.byName[*last.Controller] == nil {
		return
	}
	owner := r.byName[*last.Controller].last()
	if owner != nil && owner.Shard != last.Shard {
		r.found(EndState, o.Object, last.at, r.end, []string{last.Shard}, "the owner of %s is %q, and its own is %q", owner.Object, owner.Shard, last.Shard)
	}
}

// content checks that all main objects have the expected children in the end (I6).
func (r *run) content() {
	if r.Children == nil {
		return
	}
	have := map[history.Object]map[history.Object]string{} // by controller
	for _, o := range r.objects {
		if last := o.last(); last != nil && r.controlled(o) && last.Controller != nil {
			if have[*last.Controller] == nil {
				have[*last.Controller] = map[history.Object]string{}
			}
			have[*last.Controller][o.Object] = last.Content
		}
	}
	for _, o := range r.objects {
		last := o.last()
		if last == nil || !r.main(o) {
			continue
		}
		if want := r.Children(&last.Write); !maps.Equal(want, have[o.Object]) {
			r.found(Content, o.Object, last.at, r.end, []string{last.Shard}, "it should have %v and has %v", want, have[o.Object])
		}
	}
}
