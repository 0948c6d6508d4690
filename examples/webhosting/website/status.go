package website

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

// result is the outcome of a reconcile, which becomes the status.
type result struct {
	phase           webhostingv1alpha1.Phase
	reason, message string
	// theme is the reason of the condition ThemeFound. It is empty if the Theme was not read.
	theme string
}

// Results that do not depend on the Deployment.
func terminating() result {
	return result{
		phase: webhostingv1alpha1.PhaseTerminating, reason: webhostingv1alpha1.ReasonTerminating,
		message: "The website and its children are being deleted.",
	}
}

func failed(reason, message string) result {
	return result{phase: webhostingv1alpha1.PhaseError, reason: reason, message: message}
}

func pending(reason, message string) result {
	return result{phase: webhostingv1alpha1.PhasePending, reason: reason, message: message}
}

// withTheme adds the reason of the condition ThemeFound to a result.
func (v result) withTheme(reason string) result {
	v.theme = reason
	return v
}

// workloadResult returns the result for the state of the Deployment. Updates of a Deployment with
// the same result are ignored.
func workloadResult(workload *appsv1.Deployment) result {
	wanted := ptr.Deref(workload.Spec.Replicas, 1)
	if wanted == 0 {
		return result{
			phase: webhostingv1alpha1.PhaseReady, reason: webhostingv1alpha1.ReasonWorkloadSkipped,
			message: "All objects exist. The workload is skipped.",
		}
	}
	status := &workload.Status
	if status.ObservedGeneration < workload.Generation {
		return pending(webhostingv1alpha1.ReasonProgressing, "The latest version of the Deployment is not rolled out yet.")
	}
	if status.UpdatedReplicas >= wanted && status.AvailableReplicas >= wanted && status.Replicas <= status.UpdatedReplicas {
		return result{phase: webhostingv1alpha1.PhaseReady, reason: webhostingv1alpha1.ReasonServed, message: "The page is served."}
	}
	if why := failureMessage(status); why != "" {
		return failed(webhostingv1alpha1.ReasonWorkloadFailed, "The Deployment has failed: "+why)
	}
	return pending(webhostingv1alpha1.ReasonProgressing, "Waiting for pods with the page to become available.")
}

// failureMessage returns why a Deployment makes no progress, or an empty string.
func failureMessage(status *appsv1.DeploymentStatus) string {
	for _, condition := range status.Conditions {
		switch {
		case condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue,
			condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse:
			return fmt.Sprintf("%s (%s)", condition.Message, condition.Reason)
		}
	}
	return ""
}

// nextStatus returns the status for a result. It does not change if the result is the same.
func nextStatus(website *webhostingv1alpha1.Website, v result, now time.Time) webhostingv1alpha1.WebsiteStatus {
	status := *website.Status.DeepCopy()
	if status.Phase != v.phase || status.ObservedGeneration != website.Generation || status.LastTransitionTime == nil {
		status.LastTransitionTime = new(metav1.NewMicroTime(now))
	}
	status.Phase, status.ObservedGeneration = v.phase, website.Generation
	set := func(kind string, isTrue bool, reason, message string) {
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: truncateMessage(message),
			ObservedGeneration: website.Generation, LastTransitionTime: metav1.NewTime(now),
		}
		if isTrue {
			condition.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	set(webhostingv1alpha1.ConditionReady, v.phase == webhostingv1alpha1.PhaseReady, v.reason, v.message)
	switch v.theme {
	case "":
	case webhostingv1alpha1.ReasonThemeFound:
		set(webhostingv1alpha1.ConditionThemeFound, true, v.theme, "")
	default:
		set(webhostingv1alpha1.ConditionThemeFound, false, v.theme, v.message)
	}
	return status
}

// truncateMessage limits a message to the length that the schema of conditions allows.
func truncateMessage(message string) string {
	const limit = 1024
	if runes := []rune(message); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return message
}
