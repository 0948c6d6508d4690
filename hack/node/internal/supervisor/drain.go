//go:build linux

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
)

const (
	// podGrace is the grace period of pods in seconds. It is shorter than usual, because no client
	// waits for them any more.
	podGrace = 3
	// drainTimeout is the timeout for all pods.
	drainTimeout = 20 * time.Second
)

// drain deletes all pods and waits until they are gone.
func (s *Supervisor) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	// So that controllers start no new pods here.
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	_, err := s.client.CoreV1().Nodes().Patch(ctx, config.NodeName, types.StrategicMergePatchType, cordon, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cordoning the node: %w", err)
	}
	return s.await(ctx, s.kubelet, s.deletePods)
}

// deletePods deletes the pods of the node, and fails while pods exist.
func (s *Supervisor) deletePods(ctx context.Context) error {
	pods, err := s.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + config.NodeName,
	})
	if err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	var errs []error
	grace := int64(podGrace)
	for _, pod := range pods.Items {
		errs = append(errs, fmt.Errorf("pod %s/%s has not ended", pod.Namespace, pod.Name))
		if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds <= grace {
			continue
		}
		err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &grace,
			// A new pod may have the same name.
			Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting it: %w", err))
		}
	}
	return errors.Join(errs...)
}
