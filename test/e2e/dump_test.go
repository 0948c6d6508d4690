//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dump logs the pods, events and logs of the namespace.
func (c *cluster) dump() {
	ctx := context.WithoutCancel(c.Context())
	pods, err := c.client.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		c.Logf("listing pods: %v", err)
		return
	}
	for _, pod := range pods.Items {
		c.Logf("pod %s is %s on %s (%s): %s", pod.Name, pod.Status.Phase, pod.Spec.NodeName, pod.Status.PodIP, conditions(&pod))
	}
	c.dumpEvents(ctx)
	const lines = 40
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			tail := int64(lines)
			log, err := c.logs(ctx, pod.Name, &corev1.PodLogOptions{Container: container.Name, TailLines: &tail})
			if err != nil {
				log = err.Error()
			}
			c.Logf("log of %s/%s, the last %d lines:\n%s", pod.Name, container.Name, lines, log)
		}
	}
}

func (c *cluster) dumpEvents(ctx context.Context) {
	events, err := c.client.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		c.Logf("listing events: %v", err)
		return
	}
	for _, event := range events.Items {
		c.Logf("event: %s %s/%s %s: %s", event.Type, event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Reason, event.Message)
	}
}

// conditions describes the conditions that a pod does not meet, and the states of its containers.
func conditions(pod *corev1.Pod) string {
	var all []string
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			all = append(all, fmt.Sprintf("not %s (%s)", condition.Type, condition.Message))
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case status.State.Waiting != nil:
			all = append(all, fmt.Sprintf("%s waits: %s %s", status.Name, status.State.Waiting.Reason, status.State.Waiting.Message))
		case status.State.Terminated != nil:
			all = append(all, fmt.Sprintf("%s ended with %d: %s", status.Name, status.State.Terminated.ExitCode, status.State.Terminated.Reason))
		}
	}
	return strings.Join(all, "; ")
}
