package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// updateStatus looks at the system, and says how the region's members are.
func (r *round) updateStatus(ctx context.Context) error {
	if r.system != nil {
		state, err := r.system.State(ctx)
		if err != nil && !errors.Is(err, system.ErrUnreachable) && ctx.Err() != nil {
			return err
		}
		r.state, r.unseen = state, err // nil if nobody answers
	}
	r.remember()
	r.needs = decide(&r.cluster.Spec, r.processes, r.state, r.heard())
	status := &r.cluster.Status
	last := map[etcdclusterv1alpha1.MemberID]etcdclusterv1alpha1.MemberStatus{}
	for _, m := range status.Members {
		last[m.ID] = m
	}
	status.Members, status.Ready = nil, 0
	for _, id := range slices.Sorted(maps.Keys(r.processes)) {
		m := r.member(r.processes[id], last[etcdclusterv1alpha1.MemberID(id)])
		if m.Healthy && m.Phase == etcdclusterv1alpha1.MemberVoter {
			status.Ready++
		}
		status.Members = append(status.Members, m)
	}
	return nil
}

// remember keeps which system this is a part of, and where it is. A region that has lost all of its own has nothing else to
// tell that there is one.
func (r *round) remember() {
	if r.state == nil || !r.state.Agreed {
		return
	}
	const most = 16
	status := &r.cluster.Status
	if status.ClusterID == "" {
		status.ClusterID = r.state.Cluster.String()
	}
	status.Endpoints = nil
	for _, url := range slices.Sorted(slices.Values(r.state.ClientURLs())) {
		own := slices.ContainsFunc(slices.Collect(maps.Values(r.processes)), func(p agent.Member) bool { return p.ClientURL == url })
		if !own && len(status.Endpoints) < most {
			status.Endpoints = append(status.Endpoints, etcdclusterv1alpha1.ClientURL(url))
		}
	}
}

// heard is what counts beside what this region sees.
func (r *round) heard() heard {
	h := heard{joined: r.cluster.Status.ClusterID != ""}
	// Who has not been heard, or is just about it, may be the one that lets a learner come.
	if r.global() && r.view.Intent == nil && len(r.cluster.Spec.Regions) > 0 && len(r.absent()) == 0 {
		h.claims = r.heardClaims()
	}
	return h
}

func (r *round) member(p agent.Member, last etcdclusterv1alpha1.MemberStatus) etcdclusterv1alpha1.MemberStatus {
	m := etcdclusterv1alpha1.MemberStatus{
		ID: etcdclusterv1alpha1.MemberID(p.ID), MemberID: last.MemberID, ClientURL: p.ClientURL, PeerURL: p.PeerURL,
		ArgsCurrent: current(p, &r.cluster.Spec), Removing: r.needs.removing[p.ID],
		Phase: etcdclusterv1alpha1.MemberPrepared, Problem: cut(p.Problem, longestProblem),
	}
	if p.Running {
		m.PID = int64(p.PID)
	}
	known, is := r.find(coordination.MemberID(p.ID), p.PeerURL)
	if is {
		m.MemberID = known.ID.String()
		m.Healthy, m.Leader, m.Version = known.Healthy(), known.ID == r.state.Leader, known.Health.Version
	}
	switch {
	case is && !p.Running && p.Phase != agent.Prepared:
		m.Phase = etcdclusterv1alpha1.MemberStopped
	case is && known.Learner:
		m.Phase = etcdclusterv1alpha1.MemberLearner
	case is:
		m.Phase = etcdclusterv1alpha1.MemberVoter
	case r.state == nil || !r.state.Agreed:
		m.Phase = last.Phase // nobody knows
	case p.Phase != agent.Prepared:
		m.Phase = etcdclusterv1alpha1.MemberLeaving
	}
	return m
}

func (r *round) set(kind string, is bool, reason, message string) {
	value := metav1.ConditionFalse
	if is {
		value = metav1.ConditionTrue
	}
	apimeta.SetStatusCondition(&r.cluster.Status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: shorten(message), ObservedGeneration: r.cluster.Generation,
	})
}

// reportTaken says that another EtcdCluster is what this one should be.
func (r *round) reportTaken(by string) {
	r.cluster.Status = etcdclusterv1alpha1.EtcdClusterStatus{
		ObservedGeneration: r.cluster.Generation, Conditions: r.cluster.Status.Conditions,
	}
	r.set(etcdclusterv1alpha1.ConditionReady, false, etcdclusterv1alpha1.ReasonSystemTaken, fmt.Sprintf(
		"The EtcdCluster %s is this region's part of the system %s already, and nothing is done for this one: delete one of them.",
		by, r.cluster.SystemName()))
}

// report says in conditions how it goes.
func (r *round) report(err error) {
	status := &r.cluster.Status
	status.ObservedGeneration = r.cluster.Generation
	status.Waiting = shorten(r.waiting)
	ready, reason, message := r.readiness(err)
	r.set(etcdclusterv1alpha1.ConditionReady, ready, reason, message)
	if reason == etcdclusterv1alpha1.ReasonAgentUnreachable {
		status.Waiting = shorten(message)
		return // nothing else was looked at
	}
	coordinated, reason, message := r.agreement(err)
	r.set(etcdclusterv1alpha1.ConditionCoordinated, coordinated, reason, message)
	progressing, reason, message := r.progress()
	r.set(etcdclusterv1alpha1.ConditionProgressing, progressing, reason, message)
}

func (r *round) readiness(err error) (bool, string, string) {
	spec, status := &r.cluster.Spec, &r.cluster.Status
	var unreachable *agentError
	switch {
	case errors.As(err, &unreachable):
		return false, etcdclusterv1alpha1.ReasonAgentUnreachable, err.Error()
	case r.state == nil:
		if errors.Is(r.unseen, system.ErrOtherSystem) {
			return false, etcdclusterv1alpha1.ReasonOtherSystem, oneLine(r.unseen)
		}
		return false, etcdclusterv1alpha1.ReasonSystemUnreachable, "No member of the system answers." + r.problems()
	case !r.state.HasQuorum():
		return false, etcdclusterv1alpha1.ReasonNoQuorum, "Too few members of the system are well."
	case status.Ready < spec.Members:
		return false, etcdclusterv1alpha1.ReasonMembersMissing, fmt.Sprintf("%d of %d members are well.%s", status.Ready, spec.Members, r.problems())
	case len(status.Members) > int(spec.Members):
		return false, etcdclusterv1alpha1.ReasonTooManyMembers, fmt.Sprintf("%d members are there, %d are wanted.", len(status.Members), spec.Members)
	}
	return true, etcdclusterv1alpha1.ReasonMembersReady, "All members of this region are well."
}

// problems are what the agent says of members that do not run although they should.
func (r *round) problems() string {
	var all strings.Builder
	for _, m := range r.cluster.Status.Members {
		if m.Problem != "" {
			fmt.Fprintf(&all, " %s: %s.", m.ID, m.Problem)
		}
	}
	return all.String()
}

func (r *round) agreement(err error) (bool, string, string) {
	if err != nil {
		if errors.Is(err, coordination.ErrPrefixTaken) {
			return false, etcdclusterv1alpha1.ReasonPrefixTaken, err.Error()
		}
		return false, failedBecause(err), oneLine(err)
	}
	if r.denied {
		return false, etcdclusterv1alpha1.ReasonDenied, "This operator is on the deny list and does not act."
	}
	if !r.global() {
		return true, etcdclusterv1alpha1.ReasonLocal, "This operator agrees with nobody before it acts."
	}
	if absent := r.absent(); len(absent) > 0 {
		return false, etcdclusterv1alpha1.ReasonMixedModes,
			fmt.Sprintf("These regions take no part, because they are in local mode, not started or gone: %v. Nobody waits for what they do.", absent)
	}
	switch {
	case r.acting != "":
		return true, etcdclusterv1alpha1.ReasonActing, r.acting
	case r.waiting != "":
		return true, etcdclusterv1alpha1.ReasonWaiting, r.waiting
	}
	return true, etcdclusterv1alpha1.ReasonSettled, "Nothing is to be done."
}

// failedBecause is who could not do something.
func failedBecause(err error) string {
	var refused *agent.RefusedError
	var store *storeError
	switch {
	case errors.As(err, &refused):
		return etcdclusterv1alpha1.ReasonAgentRefused
	case errors.As(err, &store):
		return etcdclusterv1alpha1.ReasonStoreUnreachable
	}
	return etcdclusterv1alpha1.ReasonFailed
}

// absent are the regions that take no part in the coordination.
func (r *round) absent() []string {
	var regions []string
	for _, region := range r.cluster.Spec.Regions {
		if region != r.cluster.Spec.ProcessGroupIDPrefix && !slices.Contains(r.cluster.Spec.LostRegions, region) {
			regions = append(regions, string(region))
		}
	}
	return r.view.Absent(regions...)
}

func (r *round) progress() (bool, string, string) {
	wants := r.needs.wants
	switch {
	case len(wants[coordination.PendingForExclusion]) > 0:
		return true, etcdclusterv1alpha1.ReasonReplacing, "Members are being replaced."
	case len(wants[coordination.PendingForRemoval]) > 0 || len(r.needs.discard) > 0:
		return true, etcdclusterv1alpha1.ReasonRemoving, "Members are being removed."
	case len(wants[coordination.PendingForInclusion]) > 0 || len(r.needs.create) > 0:
		return true, etcdclusterv1alpha1.ReasonJoining, "Members are being added."
	case len(wants[coordination.PendingForRestart]) > 0:
		return true, etcdclusterv1alpha1.ReasonRestarting, "Members are restarted with other arguments."
	case r.state == nil:
		return true, etcdclusterv1alpha1.ReasonStarting, "The system is not there yet."
	}
	return false, etcdclusterv1alpha1.ReasonUpToDate, "All is as it should be."
}

// How much of a text is kept is what the schema allows.
const longestMessage, longestProblem = 1024, 512

func shorten(message string) string { return cut(message, longestMessage) }

func cut(message string, longest int) string {
	if len(message) > longest {
		return strings.ToValidUTF8(message[:longest-3], "") + "..."
	}
	return message
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
