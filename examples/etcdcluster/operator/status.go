package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/controller"
)

// report writes into the status what was observed, and what came of the coordination.
func (r *region) report(result *coordination.Result, err error) {
	status := &r.cluster.Status
	status.ObservedGeneration, status.Waiting = r.cluster.Generation, controller.Truncate(result.Waiting(), 1024)
	if errors.Is(err, errAgentUnreachable) { // nothing else was observed
		r.set(condition(etcdclusterv1alpha1.ConditionReady, false, etcdclusterv1alpha1.ReasonAgentUnreachable, "%s", oneLine(err)))
		return
	}
	if r.state != nil {
		status.ClusterID, status.Endpoints = strconv.FormatUint(r.state.Cluster, 16), nil
		for _, m := range r.state.Members { // a region that loses all of its own finds the system there
			if _, own := r.processes[m.Name]; !own && len(m.ClientURLs) > 0 {
				status.Endpoints = append(status.Endpoints, m.ClientURLs[0])
			}
		}
		status.Endpoints = status.Endpoints[:min(len(status.Endpoints), 16)]
	}
	last := status.Members
	status.Members, status.Ready = nil, 0
	for _, id := range slices.Sorted(maps.Keys(r.processes)) {
		m := r.member(r.processes[id], last)
		if status.Members = append(status.Members, m); m.Healthy && m.Phase == etcdclusterv1alpha1.MemberVoter {
			status.Ready++
		}
	}
	r.set(r.readiness())
	r.set(r.coordinated(result, err))
	r.set(r.progress())
}

// member is the status of a member. What is not known now is as it was last.
func (r *region) member(p agent.Member, last []etcdclusterv1alpha1.MemberStatus) etcdclusterv1alpha1.MemberStatus {
	status := etcdclusterv1alpha1.MemberStatus{ID: etcdclusterv1alpha1.MemberID(p.ID), Phase: etcdclusterv1alpha1.MemberPrepared}
	if at := slices.IndexFunc(last, func(m etcdclusterv1alpha1.MemberStatus) bool { return m.ID == status.ID }); at >= 0 {
		status.MemberID, status.Phase = last[at].MemberID, last[at].Phase
	}
	status.ClientURL, status.PeerURL, status.Problem, status.PID = p.ClientURL, p.PeerURL, controller.Truncate(p.Problem, 512), int64(p.PID)
	status.ArgsCurrent, status.Removing = current(p, &r.cluster.Spec), r.needs.removing[p.ID]
	m, known := knownAs(p, r.state)
	if known {
		status.MemberID, status.Version = strconv.FormatUint(m.ID, 16), m.Version
		status.Healthy, status.Leader = m.Healthy(), m.ID == r.state.Leader
	}
	switch {
	case known && !p.Running && p.Phase != agent.Prepared:
		status.Phase = etcdclusterv1alpha1.MemberStopped
	case known && m.Learner:
		status.Phase = etcdclusterv1alpha1.MemberLearner
	case known:
		status.Phase = etcdclusterv1alpha1.MemberVoter
	case r.state != nil && p.Phase != agent.Prepared:
		status.Phase = etcdclusterv1alpha1.MemberLeaving
	}
	return status
}

func (r *region) readiness() metav1.Condition {
	const kind = etcdclusterv1alpha1.ConditionReady
	ready, wanted, all := r.cluster.Status.Ready, r.cluster.Spec.Members, r.cluster.Status.Members
	var problems strings.Builder
	for _, m := range all {
		if m.Problem != "" {
			fmt.Fprintf(&problems, " %s: %s.", m.ID, m.Problem)
		}
	}
	switch {
	case errors.Is(r.stateErr, system.ErrOtherSystem):
		return condition(kind, false, etcdclusterv1alpha1.ReasonOtherSystem, "%s", oneLine(r.stateErr))
	case errors.Is(r.stateErr, system.ErrUnreachable):
		return condition(kind, false, etcdclusterv1alpha1.ReasonSystemUnreachable, "No member of the system answers.%s", &problems)
	case r.state == nil || !r.state.HasQuorum():
		return condition(kind, false, etcdclusterv1alpha1.ReasonNoQuorum, "Too few members of the system are healthy.%s", &problems)
	case ready < wanted:
		return condition(kind, false, etcdclusterv1alpha1.ReasonMembersMissing,
			"%d of %d members are healthy.%s", ready, wanted, &problems)
	case len(all) > int(wanted):
		return condition(kind, false, etcdclusterv1alpha1.ReasonTooManyMembers, "There are %d members instead of %d.", len(all), wanted)
	}
	return condition(kind, true, etcdclusterv1alpha1.ReasonMembersReady, "All members of this region are healthy.")
}

func (r *region) coordinated(result *coordination.Result, err error) metav1.Condition {
	const kind = coordination.ConditionCoordinated
	var regions []string
	for _, prefix := range r.cluster.Spec.Regions {
		if !slices.Contains(r.cluster.Spec.LostRegions, prefix) {
			regions = append(regions, string(prefix))
		}
	}
	refused := &agent.RefusedError{}
	switch {
	case errors.As(err, &refused):
		return condition(kind, false, etcdclusterv1alpha1.ReasonAgentRefused, "%s", oneLine(err))
	case r.Coordinator == nil:
		return condition(kind, false, etcdclusterv1alpha1.ReasonStarting, "There is no system to meet in yet.")
	case err != nil && (!r.met && !errors.Is(err, coordination.ErrPrefixTaken) || errors.Is(err, context.DeadlineExceeded)):
		return condition(kind, false, etcdclusterv1alpha1.ReasonStoreUnreachable, "%s", oneLine(err))
	}
	return r.Coordinator.Condition(result, err, regions...)
}

func (r *region) progress() metav1.Condition {
	const kind = etcdclusterv1alpha1.ConditionProgressing
	needs := slices.Clone(r.needs.create)
	for _, need := range r.needs.pending {
		needs = append(needs, fmt.Sprintf("%s of %s", need.Action, need.Member))
	}
	switch {
	case r.state == nil:
		return condition(kind, true, etcdclusterv1alpha1.ReasonStarting, "The system does not answer.")
	case len(needs) > 0:
		return condition(kind, true, etcdclusterv1alpha1.ReasonMembersPending, "These are needed: %s.", strings.Join(needs, ", "))
	}
	return condition(kind, false, etcdclusterv1alpha1.ReasonUpToDate, "All members are as the spec wants them.")
}

func condition(kind string, is bool, reason, format string, args ...any) metav1.Condition {
	status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[is]
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// set sets a condition. A new reason why something is not as it should be is an event too. Progressing is false when all is well.
func (r *region) set(c metav1.Condition) {
	c.ObservedGeneration = r.cluster.Generation
	if c.Type == etcdclusterv1alpha1.ConditionProgressing {
		apimeta.SetStatusCondition(&r.cluster.Status.Conditions, c)
		return
	}
	r.note.SetCondition(&r.cluster.Status.Conditions, c)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
