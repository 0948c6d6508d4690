package coordination

import (
	"context"
	"fmt"
	"maps"
	"time"
)

// run is what this process carries out at the moment: for all, written down so that another participant can go on with it, or
// for its own members only.
type run interface {
	intent() *Intent
	held() bool
	global() bool
	// refresh learns from a view what a write has published whose outcome was unknown.
	refresh(view *View)
	// under returns a context that ends when the lock is lost.
	under(ctx context.Context) (context.Context, context.CancelFunc)
	advance(ctx context.Context, rest []Step) error
	start(ctx context.Context, view *View) error
	raise(ctx context.Context, above int64) error
	skip(ctx context.Context, view *View, reason string, id MemberID, fenced bool, rest []Step) error
	end(ctx context.Context, failure string, fenced bool) error
}

// held returns the grant of what this process carries out, nil if there is none.
func (c *Coordinator) held() *lockGrant {
	switch run := c.run.(type) {
	case *globalRun:
		return run.grant
	case *localRun:
		return run.grant
	}
	return nil
}

// under returns a context that ends with a grant.
func (g *lockGrant) under(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.Context(), func() { cancel(context.Cause(g.Context())) })
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// globalRun is for all.
type globalRun struct{ grant *lockGrant }

func (r *globalRun) refresh(view *View) { r.grant.refresh(view) }
func (r *globalRun) intent() *Intent    { return r.grant.Intent() }
func (r *globalRun) held() bool         { return r.grant.Held() }
func (r *globalRun) global() bool       { return true }
func (r *globalRun) under(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.grant.under(ctx)
}
func (r *globalRun) start(ctx context.Context, view *View) error { return r.grant.Go(ctx, view) }

func (r *globalRun) advance(ctx context.Context, rest []Step) error {
	return r.grant.Advance(ctx, rest...)
}

func (r *globalRun) raise(ctx context.Context, above int64) error { return r.grant.Raise(ctx, above) }

func (r *globalRun) skip(ctx context.Context, view *View, reason string, id MemberID, fenced bool, rest []Step) error {
	return r.grant.Skip(ctx, view, reason, []MemberID{id}, fenced, rest...)
}

func (r *globalRun) end(ctx context.Context, failure string, fenced bool) error {
	return r.grant.end(ctx, failure, fenced)
}

// localRun is for the members of this participant, under the lock that all systems share. Nobody goes on with it.
type localRun struct {
	grant *lockGrant
	doing Intent
}

func (r *localRun) refresh(*View)   {}
func (r *localRun) intent() *Intent { intent := r.doing; return &intent }
func (r *localRun) held() bool      { return r.grant.Held() }
func (r *localRun) global() bool    { return false }
func (r *localRun) under(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.grant.under(ctx)
}
func (r *localRun) start(context.Context, *View) error { return nil }

func (r *localRun) advance(_ context.Context, rest []Step) error {
	r.doing.StepIndex++
	r.doing.Steps = append(r.doing.Steps[:r.doing.StepIndex:r.doing.StepIndex], rest...)
	return nil
}

// raise takes the lock again, with a newer token.
func (r *localRun) raise(ctx context.Context, above int64) error {
	if err := r.grant.Raise(ctx, above); err != nil {
		return err
	}
	r.doing.Token = r.grant.Token
	return nil
}

func (r *localRun) skip(_ context.Context, _ *View, reason string, id MemberID, _ bool, rest []Step) error {
	r.doing.LeftOut = maps.Clone(r.doing.LeftOut)
	if r.doing.LeftOut == nil {
		r.doing.LeftOut = map[MemberID]string{}
	}
	r.doing.LeftOut[id] = reason
	return r.advance(context.Background(), rest)
}

// end gives the lock back, and remembers an action that was given up: nobody writes that down.
func (r *localRun) end(ctx context.Context, failure string, _ bool) error {
	if err := r.grant.Release(ctx); err != nil {
		return err
	}
	c := r.grant.c
	if failure == "" {
		delete(c.givenUp, r.doing.Action)
	} else {
		c.givenUp[r.doing.Action] = givenUp{c.givenUp[r.doing.Action].times + 1, c.clock.Now()}
	}
	return nil
}

// givenUp is how often in a row an action was given up, and when that was last.
type givenUp struct {
	times int
	at    time.Time
}

// local does what is needed for this participant's members alone.
func (p *pass) local(ctx context.Context, needs Needs) error {
	if run := p.c.run; run != nil && run.global() {
		p.c.run = nil // others go on with it
	}
	if p.c.run == nil {
		if err := p.beginLocal(ctx, needs); err != nil || p.c.run == nil {
			return err
		}
	}
	return p.lead(ctx)
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
		last := p.c.givenUp[action]
		if left := p.c.retryAfter(last.times) - p.c.clock.Now().Sub(last.at); left > 0 {
			p.wait("", fmt.Sprintf("%s: retry in %s", action, left.Round(time.Millisecond)))
			p.again(left)
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
		err = p.take(func() (g *lockGrant, err error) { grant, err = p.c.lockAlone(ctx); return grant, err }, "Began",
			string(action)+" of this participant's own members")
		if err != nil || grant == nil {
			return err
		}
		members := map[MemberID]int64{}
		for id := range proposal.Members {
			members[id] = 0
		}
		p.c.run = &localRun{grant, Intent{
			ID: grant.Token, Action: action, Members: members, Steps: steps, Token: grant.Token, Holder: p.c.name, Since: p.c.clock.Now().UTC(),
			// Also of members that are only in steps which are planned later: no version tells what was needed before.
			OtherNeeds: p.needs.beside(action, sortedKeys(p.needs)...),
		}}
		return nil
	}
	return nil
}

func (p *pass) note(reason, message string) {
	p.result.Events = append(p.result.Events, Event{reason, message})
}

func (p *pass) wait(whom, reason string) {
	p.result.WaitReasons = append(p.result.WaitReasons, WaitReason{For: whom, Reason: reason})
}

func (p *pass) waitIf(whom, reason string) {
	if reason != "" {
		p.wait(whom, reason)
	}
}

func (p *pass) again(after time.Duration) {
	if after > 0 {
		p.result.RequeueAfter = min(p.result.RequeueAfter, after)
	}
}
