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
	// Waits are the reasons why it may not begin.
	Waits []WaitReason `json:"waits,omitempty"`
	// LeftOut are the members that are left out, with the reasons.
	LeftOut map[MemberID]string `json:"leftOut,omitempty"`
	// RetryAfter is the minimum delay before the next decision, if only time has to pass.
	RetryAfter time.Duration `json:"again,omitempty"`

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

// Summary returns the state of the barrier in one line.
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

// barrierKey identifies a barrier.
type barrierKey struct {
	action Action
	class  string
}

// observation is the pending entries of the last view, and since when they are unchanged.
type observation struct {
	pending string
	since   time.Time
}

// decide decides whether an action may begin for a class. It remembers the pending members, to measure with the clock of this process
// how long they are unchanged. In local mode no action may begin.
func (c *Coordinator) decide(view *View, action Action, class string) *decision {
	if c.currentSettings().Mode != Global {
		return &decision{Action: action, Class: class, Waits: []WaitReason{{c.name, errLocal.Error()}}, view: view}
	}
	pending := c.pending(view, action, class)
	unchangedFor := c.pendingUnchangedFor(barrierKey{action, class}, pending, view.lastGivenUp(action, class))
	policies := view.policies(action)
	quiet := max(policies.quietWindow(), c.retryAfter(view.failures(action)))
	verdict := decide(view, pending, policies, quiet, unchangedFor, action)
	verdict.Class = class
	c.metrics.observeDecision(verdict)
	return verdict
}

// pending returns the members of a class that need an action which has not been done.
func (c *Coordinator) pending(view *View, action Action, class string) Members {
	set, _ := action.Sets()
	pending := maps.Clone(view.Sets[set])
	maps.DeleteFunc(pending, func(id MemberID, _ Member) bool { return c.class(id) != class || view.isDone(set, id) })
	return pending
}

// failures returns how often in a row an action was given up, up to now.
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
	const initial, maximum = time.Second, time.Minute
	if failures == 0 {
		return 0
	}
	return min(initial<<min(failures-1, 6), maximum)
}

// lastGivenUp returns the ID of the newest intent that was given up, or 0. After it, another quiet window begins.
func (v *View) lastGivenUp(action Action, class string) int64 {
	for _, done := range v.DoneRecords {
		if done.Action == action && done.Class == class && done.Failure != "" {
			return done.ID
		}
	}
	return 0
}

// pendingUnchangedFor returns how long this process has seen the same pending members, and no intent given up in between.
func (c *Coordinator) pendingUnchangedFor(barrier barrierKey, pending Members, givenUp int64) time.Duration {
	var versions strings.Builder
	fmt.Fprintln(&versions, givenUp)
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		fmt.Fprintln(&versions, id, pending[id].Version)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	last, known := c.observed[barrier]
	if !known || last.pending != versions.String() {
		last = observation{versions.String(), now}
		c.observed[barrier] = last
	}
	return now.Sub(last.since)
}

// decide decides, given how long the pending members have to be unchanged, and are.
func decide(view *View, pending Members, policies policies, quiet, unchangedFor time.Duration, action Action) *decision {
	v := &decision{Action: action, Members: Members{}, LeftOut: map[MemberID]string{}, view: view}
	set, ready := action.Sets()
	if len(pending) == 0 {
		return v
	}
	for _, id := range slices.Sorted(maps.Keys(pending)) {
		member := pending[id]
		reason, dead := view.notReadyReason(set, ready, id, member)
		if reason == "" {
			member.Addresses = view.Sets[ready][id].Addresses
			v.Members[id] = member
			continue
		}
		if v.leaveOut(policies, dead, unchangedFor, string(id), reason) {
			v.LeftOut[id] = reason
		}
	}
	for _, prefix := range view.undeclared() {
		v.leaveOut(policies, !view.Present(prefix), unchangedFor, prefix, view.undeclaredReason(prefix))
	}
	if left := quiet - unchangedFor; left > 0 {
		v.Waits = append(v.Waits, WaitReason{Reason: fmt.Sprintf("another %s without a change", left.Round(time.Millisecond))})
		v.RetryAfter = max(v.RetryAfter, left)
	}
	if view.Intent != nil {
		v.Waits = append(v.Waits, WaitReason{cmp.Or(view.Intent.Holder, "another participant"), fmt.Sprintf("its %s is not done yet", view.Intent.Action)})
	}
	v.Open = len(v.Waits) == 0 && len(v.Members) > 0
	return v
}

// leaveOut reports whether the action begins without a member or a participant, and otherwise notes that it waits.
func (v *decision) leaveOut(policies policies, dead bool, unchangedFor time.Duration, subject, reason string) bool {
	out, retryAfter := policies.leaveOut(dead, unchangedFor)
	if !out {
		v.Waits = append(v.Waits, WaitReason{subject, reason})
		v.RetryAfter = max(v.RetryAfter, retryAfter)
	}
	return out
}

// undeclared returns the prefixes of participants whose needs are not completely known: they are expected and not alive, or are in the
// middle of a declaration.
func (v *View) undeclared() []string {
	undeclared := map[string]bool{}
	for _, participant := range v.Participants {
		for _, prefix := range participant.Expected {
			undeclared[prefix] = undeclared[prefix] || !v.Present(prefix)
		}
	}
	for _, prefix := range v.incomplete {
		undeclared[prefix] = true
	}
	maps.DeleteFunc(undeclared, func(_ string, missing bool) bool { return !missing })
	return sortedKeys(undeclared)
}

func (v *View) undeclaredReason(prefix string) string {
	if slices.Contains(v.incomplete, prefix) {
		return "its declaration is incomplete"
	}
	return "it is expected, but not alive"
}

// notReadyReason returns why a member is not ready, or "", and whether all participants that declare it are dead. A member is ready
// if all participants that need an action for it say so.
func (v *View) notReadyReason(pending, ready Set, id MemberID, member Member) (reason string, dead bool) {
	declaring := v.declaredBy[pending][id]
	if len(declaring) == 0 {
		declaring = []string{member.Prefix}
	}
	isReady := func(prefix string) bool { return slices.Contains(v.declaredBy[ready][id], prefix) }
	dead = !slices.ContainsFunc(declaring, v.Present)
	notReady := slices.ContainsFunc(declaring, func(prefix string) bool { return !isReady(prefix) })
	switch {
	case dead && notReady:
		return fmt.Sprintf("it is not ready, and no process of %s is alive", member.Prefix), true
	case dead:
		return fmt.Sprintf("no process of %s is alive", member.Prefix), true
	case notReady:
		return "it is not ready", false
	}
	return "", false
}
