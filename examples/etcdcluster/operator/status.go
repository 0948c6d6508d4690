package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// How much of a text is kept is what the schemas allow.
const longestMessage, longestProblem, longestAction = 1024, 512, 128

func cut(message string, longest int) string {
	if len(message) > longest {
		return strings.ToValidUTF8(message[:longest-3], "") + "..."
	}
	return message
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// reportTaken says that another EtcdCluster is what this one should be.
func reportTaken(cluster *etcdclusterv1alpha1.EtcdCluster, by string) {
	cluster.Status = etcdclusterv1alpha1.EtcdClusterStatus{ObservedGeneration: cluster.Generation, Conditions: cluster.Status.Conditions}
	set(cluster, etcdclusterv1alpha1.ConditionReady, false, etcdclusterv1alpha1.ReasonSystemTaken, fmt.Sprintf(
		"The EtcdCluster %s is this region's part of the system %s already, and nothing is done for this one: delete one of them.", by, cluster.SystemName()))
}

func set(cluster *etcdclusterv1alpha1.EtcdCluster, kind string, is bool, reason, message string) {
	value := metav1.ConditionFalse
	if is {
		value = metav1.ConditionTrue
	}
	apimeta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: cut(message, longestMessage), ObservedGeneration: cluster.Generation,
	})
}

// report writes into the status what was seen, and what came of it.
func (r *region) report(result *coordination.Result, err error) {
	status := &r.cluster.Status
	status.ObservedGeneration = r.cluster.Generation
	if away := (&agentError{}); errors.As(err, &away) {
		status.Waiting = cut(oneLine(err), longestMessage)
		set(r.cluster, etcdclusterv1alpha1.ConditionReady, false, etcdclusterv1alpha1.ReasonAgentUnreachable, oneLine(err))
		return // nothing else was seen
	}
	r.reportMembers()
	status.Waiting = cut(waiting(result.Waits), longestMessage)
	is, reason, message := r.readiness()
	set(r.cluster, etcdclusterv1alpha1.ConditionReady, is, reason, message)
	is, reason, message = r.agreement(result, err)
	set(r.cluster, etcdclusterv1alpha1.ConditionCoordinated, is, reason, message)
	is, reason, message = r.progress()
	set(r.cluster, etcdclusterv1alpha1.ConditionProgressing, is, reason, message)
}

// reportMembers keeps which system this is a part of, where it is, and how the region's members are. A region that has lost all of
// its own has nothing else to tell that there is a system.
func (r *region) reportMembers() {
	status := &r.cluster.Status
	if r.state != nil && r.state.Agreed {
		if status.ClusterID == "" {
			status.ClusterID = r.state.Cluster.String()
		}
		const most = 16
		status.Endpoints = nil
		for _, url := range slices.Sorted(slices.Values(r.state.ClientURLs())) {
			own := slices.ContainsFunc(slices.Collect(maps.Values(r.processes)), func(p agent.Member) bool { return p.ClientURL == url })
			if !own && len(status.Endpoints) < most {
				status.Endpoints = append(status.Endpoints, etcdclusterv1alpha1.ClientURL(url))
			}
		}
	}
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
}

func (r *region) member(p agent.Member, last etcdclusterv1alpha1.MemberStatus) etcdclusterv1alpha1.MemberStatus {
	m := etcdclusterv1alpha1.MemberStatus{
		ID: etcdclusterv1alpha1.MemberID(p.ID), MemberID: last.MemberID, ClientURL: p.ClientURL, PeerURL: p.PeerURL,
		ArgsCurrent: current(p, &r.cluster.Spec), Removing: r.needs.removing[p.ID],
		Phase: etcdclusterv1alpha1.MemberPrepared, Problem: cut(p.Problem, longestProblem),
	}
	if p.Running {
		m.PID = int64(p.PID)
	}
	known, is := knownAs(p, r.state)
	if is {
		m.MemberID, m.Healthy, m.Leader, m.Version = known.ID.String(), known.Healthy(), known.ID == r.state.Leader, known.Health.Version
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

func (r *region) readiness() (bool, string, string) {
	spec, status := &r.cluster.Spec, &r.cluster.Status
	var problems strings.Builder
	for _, m := range status.Members {
		if m.Problem != "" {
			fmt.Fprintf(&problems, " %s: %s.", m.ID, m.Problem)
		}
	}
	switch {
	case errors.Is(r.unseen, system.ErrOtherSystem):
		return false, etcdclusterv1alpha1.ReasonOtherSystem, oneLine(r.unseen)
	case r.state == nil:
		return false, etcdclusterv1alpha1.ReasonSystemUnreachable, "No member of the system answers." + problems.String()
	case !r.state.HasQuorum():
		return false, etcdclusterv1alpha1.ReasonNoQuorum, "Too few members of the system are well."
	case status.Ready < spec.Members:
		return false, etcdclusterv1alpha1.ReasonMembersMissing, fmt.Sprintf("%d of %d members are well.%s", status.Ready, spec.Members, problems.String())
	case len(status.Members) > int(spec.Members):
		return false, etcdclusterv1alpha1.ReasonTooManyMembers, fmt.Sprintf("There are %d members, and %d are wanted.", len(status.Members), spec.Members)
	}
	return true, etcdclusterv1alpha1.ReasonMembersReady, "All members of this region are well."
}

func (r *region) agreement(result *coordination.Result, err error) (bool, string, string) {
	refused := &agent.RefusedError{}
	absent := r.absent(result.View)
	switch doing := result.Doing; {
	case errors.Is(err, coordination.ErrPrefixTaken):
		return false, etcdclusterv1alpha1.ReasonPrefixTaken, oneLine(err)
	case errors.As(err, &refused):
		return false, etcdclusterv1alpha1.ReasonAgentRefused, oneLine(err)
	case err != nil && r.c != nil && (!r.met || errors.Is(err, context.DeadlineExceeded)):
		return false, etcdclusterv1alpha1.ReasonStoreUnreachable, oneLine(err)
	case err != nil:
		return false, etcdclusterv1alpha1.ReasonFailed, oneLine(err)
	case result.Superseded:
		return false, etcdclusterv1alpha1.ReasonSuperseded, "A newer process of this operator works."
	case result.View.Denied[r.name()] != nil:
		return false, etcdclusterv1alpha1.ReasonDenied, "This operator is on the deny list and does not act."
	case !r.global():
		return true, etcdclusterv1alpha1.ReasonLocal, "This operator agrees with nobody before it acts."
	case len(absent) > 0:
		return false, etcdclusterv1alpha1.ReasonMixedModes,
			fmt.Sprintf("These regions take no part, because they are in local mode, not started or gone: %v. Nobody waits for what they do.", absent)
	case doing != nil && doing.At < len(doing.Steps):
		return true, etcdclusterv1alpha1.ReasonActing, fmt.Sprintf("%s by %s: step %d of %d, %s", doing.Action, doing.By, doing.At+1, len(doing.Steps), doing.Steps[doing.At])
	case len(result.Waits) > 0:
		return true, etcdclusterv1alpha1.ReasonWaiting, waiting(result.Waits)
	}
	return true, etcdclusterv1alpha1.ReasonSettled, "Nothing is to be done."
}

func (r *region) name() string {
	if r.c == nil {
		return ""
	}
	return r.c.Name()
}

// absent are the regions that take no part in the coordination.
func (r *region) absent(view *coordination.View) []string {
	var regions []string
	for _, region := range r.cluster.Spec.Regions {
		if region != r.cluster.Spec.ProcessGroupIDPrefix && !slices.Contains(r.cluster.Spec.LostRegions, region) {
			regions = append(regions, string(region))
		}
	}
	return view.Absent(regions...)
}

func (r *region) progress() (bool, string, string) {
	needs := func(action coordination.Action) bool {
		return slices.ContainsFunc(r.needs.pending, func(need coordination.Need) bool { return need.Action == action })
	}
	switch {
	case needs(Exclusion):
		return true, etcdclusterv1alpha1.ReasonReplacing, "Members are being replaced or removed."
	case needs(Removal):
		return true, etcdclusterv1alpha1.ReasonRemoving, "Members that are lost are being removed."
	case needs(Inclusion) || len(r.needs.create) > 0:
		return true, etcdclusterv1alpha1.ReasonJoining, "Members are being added."
	case needs(Restart):
		return true, etcdclusterv1alpha1.ReasonRestarting, "Members are restarted with other arguments."
	case r.state == nil:
		return true, etcdclusterv1alpha1.ReasonStarting, "The system is not there yet."
	}
	return false, etcdclusterv1alpha1.ReasonUpToDate, "All is as it should be."
}

var durations = regexp.MustCompile(`\b([0-9.]+(h|m|s|ms))+\b`)

// waiting says in a line what has to happen first. Of a duration it shows the seconds: a status is not for watching it.
func waiting(all []coordination.Waits) string {
	var texts []string
	for _, waits := range all {
		if !slices.Contains(texts, waits.String()) {
			texts = append(texts, waits.String())
		}
	}
	return durations.ReplaceAllStringFunc(strings.Join(texts, "; "), func(text string) string {
		if left, err := time.ParseDuration(text); err == nil {
			return (left + time.Second - 1).Truncate(time.Second).String()
		}
		return text
	})
}

// warnings are the reasons of events that somebody should look at.
var warnings = []string{
	"LockLost", "GaveUp", "StoodBack", "LeftOut", etcdclusterv1alpha1.ReasonFailed,
	etcdclusterv1alpha1.ReasonAgentUnreachable, etcdclusterv1alpha1.ReasonNoQuorum, etcdclusterv1alpha1.ReasonOtherSystem,
	etcdclusterv1alpha1.ReasonSystemTaken, etcdclusterv1alpha1.ReasonMixedModes, etcdclusterv1alpha1.ReasonDenied, etcdclusterv1alpha1.ReasonPrefixTaken,
	etcdclusterv1alpha1.ReasonStoreUnreachable, etcdclusterv1alpha1.ReasonAgentRefused, etcdclusterv1alpha1.ReasonSuperseded,
}

// recorder tells people what happens to an EtcdCluster, in its events and in the log. The events' recorder takes events of one reason
// and action for one that happens again, and would not show what is new: so what it is about is the action.
func recorder(ctx context.Context, recorder events.EventRecorder, cluster *etcdclusterv1alpha1.EtcdCluster) func(reason, message string) {
	return func(reason, message string) {
		kind := corev1.EventTypeNormal
		if slices.Contains(warnings, reason) {
			kind = corev1.EventTypeWarning
		}
		recorder.Eventf(cluster, nil, kind, reason, cut(message, longestAction), "%s", cut(message, longestMessage))
		logf.FromContext(ctx).Info(message, "reason", reason)
	}
}

// noteChanges notes what has changed in the conditions, once for each reason, and what is waited for, once for each thing: that less
// time is left is no news.
func noteChanges(before, after *etcdclusterv1alpha1.EtcdClusterStatus, note func(reason, message string)) {
	reason := func(status *etcdclusterv1alpha1.EtcdClusterStatus, kind string) string {
		if found := apimeta.FindStatusCondition(status.Conditions, kind); found != nil {
			return found.Reason
		}
		return ""
	}
	for _, is := range after.Conditions {
		if is.Reason != reason(before, is.Type) && slices.Contains(warnings, is.Reason) {
			note(is.Reason, is.Message)
		}
	}
	unmeasured := func(text string) string {
		return regexp.MustCompile(`[0-9]+ entries`).ReplaceAllString(durations.ReplaceAllString(text, ""), "")
	}
	away := reason(after, etcdclusterv1alpha1.ConditionReady) == etcdclusterv1alpha1.ReasonAgentUnreachable
	if after.Waiting != "" && !away && unmeasured(after.Waiting) != unmeasured(before.Waiting) {
		note(etcdclusterv1alpha1.ReasonWaiting, after.Waiting)
	}
}
