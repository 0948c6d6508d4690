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

	"github.com/ringmaster-project/ringmaster/hack/node/internal/layout"
)

const (
	// podGrace is how long containers have to end. It is less than they would have in real life:
	// nobody waits for their answers any more.
	podGrace = 3
	// drainTimeout bounds how long all pods have.
	drainTimeout = 20 * time.Second
)

// drain deletes all pods and waits until they are gone.
func (s *Supervisor) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	// Or controllers would start new ones here.
	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	_, err := s.client.CoreV1().Nodes().Patch(ctx, layout.NodeName, types.StrategicMergePatchType, cordon, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("closing the node for new pods: %w", err)
	}
	return s.await(ctx, s.kubelet, s.deletePods)
}

// deletePods deletes the pods of the node and fails while there are any.
func (s *Supervisor) deletePods(ctx context.Context) error {
	pods, err := s.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + layout.NodeName,
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
			// Only this very pod: one with the same name may have been made meanwhile.
			Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting it: %w", err))
		}
	}
	return errors.Join(errs...)
}
