package oracle

// rest looks for writes when nothing should be written (I5).
func (r *run) rest() {
	for _, o := range r.objects {
		for i := range o.versions {
			if v := &o.versions[i]; r.Quiet.contains(v.at) && !v.Listed {
				r.found(Restless, o.Object, v.at, v.at, nil, "version %d was written, by the label %q of %q", v.Version, v.Shard, v.Manager)
			}
		}
	}
}

// endState looks whether all objects are where they belong in the end (I6).
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

func (r *run) endOfMain(o *object, last *seen, members *epoch) {
	if want := members.owner(o.Object); last.Shard != want {
		r.found(EndState, o.Object, last.at, r.end, []string{last.Shard}, "it belongs to %q and is with %q", want, last.Shard)
		return
	}
	if last.Draining {
		r.found(EndState, o.Object, last.at, r.end, []string{last.Shard}, "%s is still asked to let it go", last.Shard)
	}
}

// endOfChild wants a child to be where its owner is. One without owner belongs nowhere.
func (r *run) endOfChild(o *object, last *seen) {
	if last.Controller == nil || r.byName[*last.Controller] == nil {
		return
	}
	owner := r.byName[*last.Controller].last()
	if owner != nil && owner.Shard != last.Shard {
		r.found(EndState, o.Object, last.at, r.end, []string{last.Shard}, "%s is with %q and it with %q", owner.Object, owner.Shard, last.Shard)
	}
}
