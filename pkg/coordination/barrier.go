package coordination

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// decision is the verdict whether an action may begin, with the reasons if it may not.
type decision struct {
	Action Action `json:"action"`
	Class  string `json:"class,omitempty"`
	Open   bool   `json:"open"`
	// Members are the members that the action would disturb.
	Members Members `json:"members,omitempty"`
	// WaitReasons are the reasons why it may not begin.
	Waits []WaitReason `json:"waits,omitempty"`
	// LeftOut are the members that are left out, with the reasons.
	LeftOut map[MemberID]string `json:"leftOut,omitempty"`
	// Again is the minimum delay before the next decision, if only time has to pass.
	Again time.Duration `json:"again,omitempty"`

	view *View
}

// WaitReason is a reason why an action has not begun or continued.
type WaitReason struct {
	// For is the member or the participant that is waited for, or empty.
	For    string `json:"for,omitempty"`
	Reason string `json:"reason"`
}

func (w WaitReason) String() string {
	if w.For == "" {
		return w.Reason
	}
	return w.For + ": " + w.Reason
}

// Summary returns in one line what an action waits for.
func (v *decision) Summary() string {
	if v.Open {
		return fmt.Sprintf("%s of %s may begin", v.Action, names(v.Members))
	}
	if len(v.Waits) == 0 {
		return fmt.Sprintf("nothing waits for %s", v.Action)
	}
	reasons := make([]string, 0, len(v.Waits))
	for _, w := range v.Waits {
		reasons = append(reasons, w.String())
	}
	return fmt.Sprintf("%s waits for %s", v.Action, strings.Join(reasons, "; "))
}

func names(members Members) string {
	ids := make([]string, 0, len(members))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		ids = append(ids, string(id))
	}
	return strings.Join(ids, ", ")
}

// question is what a barrier is asked about.
type question struct {
	action Action
	class  string
}

// seen is what was pending when this instance looked last, and since when it has looked like this.
type seen struct {
	pending string
	since   time.Time
}

// judge decides on a view whether an action may begin for a class. It remembers what was pending, to know how long
// that has not changed: by the clock of this instance. In local mode no action may begin.
func (c *Coordinator) judge(view *View, action Action, class string) *decision {
	if c.currentSettings().Mode != Global {
		return &decision{Action: action, Class: class, Waits: []WaitReason{{c.name, errLocal.Error()}}, view: view}
	}
	pending := c.pending(view, action, class)
	calm := c.calm(question{action, class}, pending, view.givenUp(action, class))
	policies := view.policies(action)
	quiet := max(policies.quiet(), c.retryAfter(view.failures(action)))
	verdict := judge(view, pending, policies, quiet, calm, action)
	verdict.Class = class
	c.metrics.judged(verdict)
	return verdict
}

// pending are the members of a class that have something to be done, and not been done.
func (c *Coordinator) pending(view *View, action Action, class string) Members {
	set, _ := action.Sets()
	pending := maps.Clone(view.Sets[set])
	maps.DeleteFunc(pending, func(id MemberID, _ Member) bool { return c.class(id) != class || view.acted(set, id) })
	return pending
}

// failures counts how often in a row an action was given up, up to now.
func (v *View) failures(action Action) int {
	failures := 0
	for _, done := range v.DoneRecords {
		if done.Action != action {
			continue
		}
		if done.Failure == "" {
			break
		}
		failures++
	}
	return failures
}

// retryAfter is the backoff of an action after consecutive failures.
func retryAfter(failures int) time.Duration {
	const first, most = time.Second, time.Minute
	if failures == 0 {
		return 0
	}
	return min(first<<min(failures-1, 6), most)
}

// givenUp is the newest of those acts that were given up, or 0: it is tried again after another quiet window.
func (v *View) givenUp(action Action, class string) int64 {
	for _, done := range v.DoneRecords {
		if done.Action == action && done.Class == class && done.Failure != "" {
			return done.ID
		}
	}
	return 0
}

// calm is for how long this instance has seen just these members pending, and nothing given up since.
func (c *Coordinator) calm(q question, pending Members, givenUp int64) time.Duration {
	var versions strings.Builder
	fmt.Fprintln(&versions, givenUp)
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		fmt.Fprintln(&versions, id, pending[id].Version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	last, known := c.seen[q]
	if !known || last.pending != versions.String() {
		last = seen{versions.String(), now}
		c.seen[q] = last
	}
	return now.Sub(last.since)
}

// judge decides. It is given how long just these members have to be pending, and have been.
func judge(view *View, pending Members, policies policies, quiet, calm time.Duration, action Action) *decision {
	v := &decision{Action: action, Members: Members{}, LeftOut: map[MemberID]string{}, view: view}
	set, ready := action.Sets()
	if len(pending) == 0 {
		return v
	}
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		member := pending[id]
		reason, gone := view.unready(set, ready, id, member)
		if reason == "" {
			member.Addresses = view.Sets[ready][id].Addresses
			v.Members[id] = member
			continue
		}
		if v.leaveOut(policies, gone, calm, string(id), reason) {
			v.LeftOut[id] = reason
		}
	}
	for _, prefix := range view.silent() {
		v.leaveOut(policies, !view.Present(prefix), calm, prefix, view.silence(prefix))
	}
	if left := quiet - calm; left > 0 {
		v.Waits = append(v.Waits, WaitReason{Reason: fmt.Sprintf("another %s without a change", left.Round(time.Millisecond))})
		v.Again = max(v.Again, left)
	}
	if view.Intent != nil {
		v.Waits = append(v.Waits, WaitReason{cmp.Or(view.Intent.Holder, "somebody"), fmt.Sprintf("its %s is not done yet", view.Intent.Action)})
	}
	v.Open = len(v.Waits) == 0 && len(v.Members) > 0
	return v
}

// leaveOut reports whether the action begins without a member or a participant, and otherwise notes that it waits.
func (v *decision) leaveOut(policies policies, gone bool, calm time.Duration, whom, reason string) bool {
	out, again := policies.leaveOut(gone, calm)
	if !out {
		v.Waits = append(v.Waits, WaitReason{whom, reason})
		v.Again = max(v.Again, again)
	}
	return out
}

// silent returns the prefixes of participants whose needs are not completely known: they are expected and not alive, or are in the
// middle of a declaration.
func (v *View) silent() []string {
	silent := map[string]bool{}
	for _, participant := range v.Participants {
		for _, prefix := range participant.Expected {
			silent[prefix] = silent[prefix] || !v.Present(prefix)
		}
	}
	for _, prefix := range v.incomplete {
		silent[prefix] = true
	}
	maps.DeleteFunc(silent, func(_ string, is bool) bool { return !is })
	return sortedKeys(silent)
}

func (v *View) silence(prefix string) string {
	if slices.Contains(v.incomplete, prefix) {
		return "its declaration is incomplete"
	}
	return "it is expected, but not alive"
}

// unready says why a member is not ready, or nothing if it is, and whether all instances are gone that ask for it. Each of
// them has to say that it is ready.
func (v *View) unready(pending, ready Set, id MemberID, member Member) (reason string, gone bool) {
	asking := v.asking[pending][id]
	if len(asking) == 0 {
		asking = []string{member.Prefix}
	}
	said := func(prefix string) bool { return slices.Contains(v.asking[ready][id], prefix) }
	gone = !slices.ContainsFunc(asking, v.Present)
	unsaid := slices.ContainsFunc(asking, func(prefix string) bool { return !said(prefix) })
	switch {
	case gone && unsaid:
		return fmt.Sprintf("it is not ready, and no process of %s is alive", member.Prefix), true
	case gone:
		return fmt.Sprintf("no process of %s is alive", member.Prefix), true
	case unsaid:
		return "it is not ready", false
	}
	return "", false
}
