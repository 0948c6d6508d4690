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

// verdict is how a Website is doing, and why.
type verdict struct {
	phase           webhostingv1alpha1.Phase
	reason, message string
	// theme is what is wrong with the Theme, or that nothing is. It is empty if nobody has looked.
	theme string
}

// The verdicts that need not look at a Deployment.
func terminating() verdict {
	return verdict{
		phase: webhostingv1alpha1.PhaseTerminating, reason: webhostingv1alpha1.ReasonTerminating,
		message: "The website is being deleted, and what belongs to it with it.",
	}
}

func failed(reason, message string) verdict {
	return verdict{phase: webhostingv1alpha1.PhaseError, reason: reason, message: message}
}

func pending(reason, message string) verdict {
	return verdict{phase: webhostingv1alpha1.PhasePending, reason: reason, message: message}
}

// withTheme adds to a verdict what is known of the Theme.
func (v verdict) withTheme(reason string) verdict {
	v.theme = reason
	return v
}

// judge tells from its Deployment how a Website is doing. News of a Deployment that change nothing here are
// no news.
func judge(workload *appsv1.Deployment) verdict {
	wanted := ptr.Deref(workload.Spec.Replicas, 1)
	if wanted == 0 {
		// There is nothing to wait for.
		return verdict{
			phase: webhostingv1alpha1.PhaseReady, reason: webhostingv1alpha1.ReasonWorkloadSkipped,
			message: "All objects are there, and no pods are wanted.",
		}
	}
	status := &workload.Status
	if status.ObservedGeneration < workload.Generation {
		return pending(webhostingv1alpha1.ReasonProgressing, "The Deployment's newest version is not rolled out yet.")
	}
	if status.UpdatedReplicas >= wanted && status.AvailableReplicas >= wanted && status.Replicas <= status.UpdatedReplicas {
		return verdict{phase: webhostingv1alpha1.PhaseReady, reason: webhostingv1alpha1.ReasonServed, message: "The page is served."}
	}
	if why := stuck(status); why != "" {
		return failed(webhostingv1alpha1.ReasonWorkloadFailed, "The Deployment cannot go on: "+why)
	}
	return pending(webhostingv1alpha1.ReasonProgressing, "Pods with the page are on their way.")
}

// stuck tells why a Deployment does not go on by itself.
func stuck(status *appsv1.DeploymentStatus) string {
	for _, condition := range status.Conditions {
		switch {
		case condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue,
			condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse:
			return fmt.Sprintf("%s (%s)", condition.Message, condition.Reason)
		}
	}
	return ""
}

// next is the status of a Website after a verdict. Told the same again, it is the same.
func next(website *webhostingv1alpha1.Website, v verdict, now time.Time) webhostingv1alpha1.WebsiteStatus {
	status := *website.Status.DeepCopy()
	if status.Phase != v.phase || status.ObservedGeneration != website.Generation || status.LastTransitionTime == nil {
		status.LastTransitionTime = new(metav1.NewMicroTime(now))
	}
	status.Phase, status.ObservedGeneration = v.phase, website.Generation
	set := func(kind string, holds bool, reason, message string) {
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: limited(message),
			ObservedGeneration: website.Generation, LastTransitionTime: metav1.NewTime(now),
		}
		if holds {
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

// limited keeps a message within what the schema of conditions takes, which others' messages may exceed.
func limited(message string) string {
	const most = 1024
	if runes := []rune(message); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return message
}
