package operator

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// warnings are the reasons of events that somebody should look at.
var warnings = []string{
	"LockLost", "GaveUp", "StoodBack", "LeftOut",
	etcdclusterv1alpha1.ReasonAgentUnreachable, etcdclusterv1alpha1.ReasonNoQuorum, etcdclusterv1alpha1.ReasonOtherSystem,
	etcdclusterv1alpha1.ReasonSystemTaken, etcdclusterv1alpha1.ReasonMixedModes, etcdclusterv1alpha1.ReasonDenied, etcdclusterv1alpha1.ReasonPrefixTaken,
	etcdclusterv1alpha1.ReasonStoreUnreachable, etcdclusterv1alpha1.ReasonAgentRefused, etcdclusterv1alpha1.ReasonFailed,
}

// teller tells people what happens to an EtcdCluster, in its events and in the log. The recorder takes events of one reason
// and action for one that happens again, and would not show what is new: so what it is about is the action.
func teller(ctx context.Context, recorder events.EventRecorder, cluster *etcdclusterv1alpha1.EtcdCluster) func(reason, message string) {
	return func(reason, message string) {
		kind := corev1.EventTypeNormal
		if slices.Contains(warnings, reason) {
			kind = corev1.EventTypeWarning
		}
		recorder.Eventf(cluster, nil, kind, reason, action(message), "%s", cut(message, longestMessage))
		logf.FromContext(ctx).Info(message, "reason", reason)
	}
}

// action is a message as an event's action, which has no more than 128 characters.
func action(message string) string { return cut(message, 128) }

// tellNews tells what has changed in whether the operators agree, once for each reason, and what is waited for, once for each
// thing: that less time is left is no news.
func tellNews(before, after *etcdclusterv1alpha1.EtcdClusterStatus, note func(reason, message string)) {
	for _, kind := range []string{etcdclusterv1alpha1.ConditionReady, etcdclusterv1alpha1.ConditionCoordinated} {
		was, is := condition(before, kind), condition(after, kind)
		if is.Reason != was.Reason && slices.Contains(warnings, is.Reason) {
			note(is.Reason, is.Message)
		}
	}
	away := condition(after, etcdclusterv1alpha1.ConditionReady).Reason == etcdclusterv1alpha1.ReasonAgentUnreachable
	if after.Waiting != "" && !away && unmeasured(after.Waiting) != unmeasured(before.Waiting) {
		note(etcdclusterv1alpha1.ReasonWaiting, after.Waiting)
	}
}

func condition(status *etcdclusterv1alpha1.EtcdClusterStatus, kind string) metav1.Condition {
	if found := apimeta.FindStatusCondition(status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

var measure = regexp.MustCompile(`\b([0-9.]+(h|m|s|ms))+\b|\b[0-9]+ entries`)

// unmeasured is a text without how long something takes, or how much it is.
func unmeasured(text string) string { return measure.ReplaceAllString(text, "") }

// calm says in a line what an action waits for. Of a quiet window it counts the seconds: a status is not for watching it.
func calm(verdict *coordination.Verdict) string {
	const quiet = " more without a change"
	shown := *verdict
	shown.Waits = slices.Clone(verdict.Waits)
	for i, waits := range shown.Waits {
		text, is := strings.CutSuffix(waits.Reason, quiet)
		if left, err := time.ParseDuration(text); is && err == nil {
			shown.Waits[i].Reason = (left + time.Second - 1).Truncate(time.Second).String() + quiet
		}
	}
	return shown.Summary()
}
