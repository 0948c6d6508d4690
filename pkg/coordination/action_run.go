package coordination

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// actionRun is an action that this process carries out: for all participants, with an intent in the store so that another participant
// can continue it, or in local mode only for its own members.
type actionRun interface {
	intent() *Intent
	holdsLock() bool
	isGlobal() bool
	// refresh updates the intent from a view: the outcome of an earlier write may have been unknown.
	refresh(view *View)
	// withLock returns a context that ends when the lock is lost.
	withLock(ctx context.Context) (context.Context, context.CancelFunc)
	advance(ctx context.Context, rest []Step) error
	startTogether(ctx context.Context, view *View) error
	raiseToken(ctx context.Context, above int64) error
	skipMember(ctx context.Context, view *View, reason string, id MemberID, fenced bool, rest []Step) error
	finish(ctx context.Context, failure string, fenced bool) error
}

// currentGrant returns the grant of the current run, or nil.
func (c *Coordinator) currentGrant() *lockGrant {
	switch run := c.currentRun.(type) {
	case *globalRun:
		return run.grant
	case *localRun:
		return run.grant
	}
	return nil
}

// withLock returns a context that ends when the lock is lost or released.
func (g *lockGrant) withLock(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.Context(), func() { cancel(context.Cause(g.Context())) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// globalRun is an action for the members of all participants.
type globalRun struct{ grant *lockGrant }

func (r *globalRun) refresh(view *View) { r.grant.refresh(view) }
func (r *globalRun) intent() *Intent    { return r.grant.Intent() }
func (r *globalRun) holdsLock() bool    { return r.grant.Held() }
func (r *globalRun) isGlobal() bool     { return true }
func (r *globalRun) withLock(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.grant.withLock(ctx)
}

func (r *globalRun) startTogether(ctx context.Context, view *View) error {
	return r.grant.StartTogether(ctx, view)
}

func (r *globalRun) advance(ctx context.Context, rest []Step) error {
	return r.grant.Advance(ctx, rest...)
}

func (r *globalRun) raiseToken(ctx context.Context, above int64) error {
	return r.grant.RaiseToken(ctx, above)
}

func (r *globalRun) skipMember(ctx context.Context, view *View, reason string, id MemberID, fenced bool, rest []Step) error {
	return r.grant.SkipMembers(ctx, view, reason, []MemberID{id}, fenced, rest...)
}

func (r *globalRun) finish(ctx context.Context, failure string, fenced bool) error {
	return r.grant.end(ctx, failure, fenced)
}

// localRun is an action for the members of this participant, in local mode. No other process continues it.
type localRun struct {
	grant   *lockGrant
	current Intent
}

func (r *localRun) refresh(*View)   {}
func (r *localRun) intent() *Intent { intent := r.current; return &intent }
func (r *localRun) holdsLock() bool { return r.grant.Held() }
func (r *localRun) isGlobal() bool  { return false }
func (r *localRun) withLock(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.grant.withLock(ctx)
}
func (r *localRun) startTogether(context.Context, *View) error { return nil }

func (r *localRun) advance(_ context.Context, rest []Step) error {
	r.current.StepIndex++
	r.current.Steps = append(r.current.Steps[:r.current.StepIndex:r.current.StepIndex], rest...)
	return nil
}

// raiseToken takes the lock again, with a higher token.
func (r *localRun) raiseToken(ctx context.Context, above int64) error {
	if err := r.grant.RaiseToken(ctx, above); err != nil {
		return err
	}
	r.current.Token = r.grant.Token
	return nil
}

func (r *localRun) skipMember(_ context.Context, _ *View, reason string, id MemberID, _ bool, rest []Step) error {
	r.current.LeftOut = maps.Clone(r.current.LeftOut)
	if r.current.LeftOut == nil {
		r.current.LeftOut = map[MemberID]string{}
	}
	r.current.LeftOut[id] = reason
	return r.advance(context.Background(), rest)
}

// finish releases the lock. It remembers an action that was given up, because the store does not record it.
func (r *localRun) finish(ctx context.Context, failure string, _ bool) error {
	if err := r.grant.Release(ctx); err != nil {
		return err
	}
	c := r.grant.c
	if failure == "" {
		delete(c.localFailures, r.current.Action)
	} else {
		c.localFailures[r.current.Action] = localFailure{c.localFailures[r.current.Action].count + 1, c.clock.Now()}
	}
	return nil
}

// localFailure counts how often in a row an action was given up.
type localFailure struct {
	count int
	last  time.Time
}

// local reconciles in local mode.
func (p *pass) local(ctx context.Context, needs Needs) error {
	if run := p.c.currentRun; run != nil && run.isGlobal() {
		p.c.currentRun = nil // another participant continues it
	}
	if p.c.currentRun == nil {
		if err := p.beginLocal(ctx, needs); err != nil || p.c.currentRun == nil {
			return err
		}
	}
	return p.runAsHolder(ctx)
}

// beginLocal begins the most urgent action for which all members that need it are ready.
func (p *pass) beginLocal(ctx context.Context, needs Needs) error {
	for _, action := range p.c.actions {
		proposal := Proposal{Action: action, Mode: Local, Members: Members{}, View: p.view}
		ready := true
		for _, need := range needs.Pending {
			if need.Action == action {
				proposal.Members[need.Member] = Member{Prefix: p.c.currentSettings().Prefix, Addresses: need.Addresses}
				ready = ready && need.Ready
			}
		}
		if len(proposal.Members) == 0 || !ready {
			continue
		}
		last := p.c.localFailures[action]
		if left := p.c.retryAfter(last.count) - p.c.clock.Now().Sub(last.last); left > 0 {
			p.addWaitReason("", fmt.Sprintf("%s: retry in %s", action, left.Round(time.Millisecond)))
			p.requeueAfter(left)
			continue
		}
		steps, err := p.plan(ctx, proposal)
		if err != nil || len(steps) == 0 {
			if err != nil {
				return err
			}
			continue
		}
		grant := (*lockGrant)(nil)
		err = p.takeLock(func() (g *lockGrant, err error) { grant, err = p.c.takeLocalLock(ctx); return grant, err }, "Began",
			string(action)+" of this participant's own members")
		if err != nil || grant == nil {
			return err
		}
		members := map[MemberID]int64{}
		for id := range proposal.Members {
			members[id] = 0
		}
		p.c.currentRun = &localRun{grant, Intent{
			ID: grant.Token, Action: action, Members: members, Steps: steps, Token: grant.Token, Holder: p.c.name, Since: p.c.clock.Now().UTC(),
			// Also of members in steps that are planned later: without versions, their present needs would look new.
			OtherNeeds: p.needs.otherNeeds(action, sortedKeys(p.needs)...),
		}}
		return nil
	}
	return nil
}

func (p *pass) addEvent(reason, message string) {
	p.result.Events = append(p.result.Events, Event{reason, message})
}

func (p *pass) addWaitReason(subject, reason string) {
	p.result.WaitReasons = append(p.result.WaitReasons, WaitReason{For: subject, Reason: reason})
}

func (p *pass) addWaitReasonIf(subject, reason string) {
	if reason != "" {
		p.addWaitReason(subject, reason)
	}
}

func (p *pass) requeueAfter(delay time.Duration) {
	if delay > 0 {
		p.result.RequeueAfter = min(p.result.RequeueAfter, delay)
	}
}
