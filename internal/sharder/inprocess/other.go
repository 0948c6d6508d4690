package inprocess

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// otherPeriod is how often to look for another sharder.
const otherPeriod = 30 * time.Second

// lookForOther tells people when a ControllerRing of the same name makes an external sharder spread the same
// objects. They come to the same decisions, with preconditions, so that nothing is at stake but twice
// the effort; but nobody means it to stay so.
func (s *Sharder) lookForOther(ctx context.Context) {
	rings := s.metadata.Resource(shardingv1alpha1.SchemeGroupVersion.WithResource("controllerrings"))
	told, unknown := false, false
	for {
		found, err := rings.Get(ctx, s.Ring, metav1.GetOptions{})
		switch {
		case err == nil && found.DeletionTimestamp == nil:
			if !told {
				const note = "A ControllerRing of this name exists, so an external sharder may assign the same objects. " +
					"Delete the ControllerRing, or run the instances in mode shard"
				logf.FromContext(ctx).Info(note)
				s.events.Eventf(s.Election, nil, corev1.EventTypeWarning, shardingv1alpha1.ReasonTwoSharders, "Shard", "%s", note)
			}
			told = true
		case err == nil || apierrors.IsNotFound(err): // there is none, or not even its kind
			told = false
		case apierrors.IsForbidden(err) && !unknown:
			logf.FromContext(ctx).Info("Cannot check for an external sharder: reading ControllerRings is forbidden", "error", err.Error())
			unknown = true
		}
		timer := time.NewTimer(otherPeriod)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
