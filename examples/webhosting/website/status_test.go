package website

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

func workload(replicas int32, generation int64, status appsv1.DeploymentStatus) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}, Status: status,
	}
}

func TestWorkloadResult(t *testing.T) {
	condition := func(kind appsv1.DeploymentConditionType, holds corev1.ConditionStatus) []appsv1.DeploymentCondition {
		return []appsv1.DeploymentCondition{{Type: kind, Status: holds, Reason: "Because", Message: "so it is"}}
	}
	all := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
	old := all
	old.ObservedGeneration = 1
	surging := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2}
	starting := appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1}
	quota, slow, fine := starting, starting, starting
	quota.Conditions = condition(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue)
	slow.Conditions = condition(appsv1.DeploymentProgressing, corev1.ConditionFalse)
	fine.Conditions = condition(appsv1.DeploymentProgressing, corev1.ConditionTrue)
	recovered := all
	recovered.Conditions = slow.Conditions
	for name, test := range map[string]struct {
		workload *appsv1.Deployment
		phase    webhostingv1alpha1.Phase
		reason   string
	}{
		"just created":       {workload(1, 1, appsv1.DeploymentStatus{}), webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing},
		"not observed yet":   {workload(1, 2, old), webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing},
		"pods are starting":  {workload(1, 2, starting), webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing},
		"in progress":        {workload(1, 2, fine), webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing},
		"old pods still run": {workload(1, 2, surging), webhostingv1alpha1.PhasePending, webhostingv1alpha1.ReasonProgressing},
		"available":          {workload(1, 2, all), webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed},
		"recovered":          {workload(1, 2, recovered), webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonServed},
		"a quota":            {workload(1, 2, quota), webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonWorkloadFailed},
		"deadline exceeded":  {workload(1, 2, slow), webhostingv1alpha1.PhaseError, webhostingv1alpha1.ReasonWorkloadFailed},
		"no pods desired":    {workload(0, 1, appsv1.DeploymentStatus{}), webhostingv1alpha1.PhaseReady, webhostingv1alpha1.ReasonWorkloadSkipped},
	} {
		t.Run(name, func(t *testing.T) {
			got := workloadResult(test.workload)
			if got.phase != test.phase || got.reason != test.reason || got.message == "" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestNextStatus(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	website := &webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	ready := workloadResult(workload(0, 1, appsv1.DeploymentStatus{})).withTheme(webhostingv1alpha1.ReasonThemeFound)
	missing := failed(webhostingv1alpha1.ReasonThemeNotFound, "Theme not found.").withTheme(webhostingv1alpha1.ReasonThemeNotFound)
	now := begin
	step := func(v result) webhostingv1alpha1.WebsiteStatus {
		t.Helper()
		before := *website.Status.DeepCopy()
		status := nextStatus(website, v, now)
		if diff := cmp.Diff(before, website.Status); diff != "" {
			t.Errorf("the Website itself was changed: %s", diff)
		}
		website.Status = status
		return status
	}

	first := step(ready)
	if first.Phase != webhostingv1alpha1.PhaseReady || first.ObservedGeneration != 1 || !first.LastTransitionTime.Time.Equal(begin) {
		t.Errorf("got %+v", first)
	}
	now = begin.Add(time.Minute)
	if diff := cmp.Diff(first, step(ready)); diff != "" {
		t.Errorf("the status changes with the same result: %s", diff)
	}
	website.Generation = 2
	if second := step(ready); second.ObservedGeneration != 2 || !second.LastTransitionTime.Time.Equal(now) {
		t.Errorf("a new generation: got %+v", second)
	}
	now = begin.Add(time.Hour)
	third := step(missing)
	if third.Phase != webhostingv1alpha1.PhaseError || !third.LastTransitionTime.Time.Equal(now) ||
		!meta.IsStatusConditionFalse(third.Conditions, webhostingv1alpha1.ConditionReady) ||
		!meta.IsStatusConditionFalse(third.Conditions, webhostingv1alpha1.ConditionThemeFound) {
		t.Errorf("got %+v", third)
	}
	if fourth := step(terminating()); fourth.Phase != webhostingv1alpha1.PhaseTerminating ||
		!meta.IsStatusConditionFalse(fourth.Conditions, webhostingv1alpha1.ConditionThemeFound) {
		t.Errorf("the condition ThemeFound has changed: got %+v", fourth)
	}
}

func TestTruncateMessage(t *testing.T) {
	if got := truncateMessage(strings.Repeat("ö", 5000)); len([]rune(got)) != 1024 {
		t.Errorf("got %d characters", len([]rune(got)))
	}
	if got := truncateMessage("short"); got != "short" {
		t.Errorf("got %q", got)
	}
}
