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

// externalSharderCheckInterval is the time between two checks for an external sharder.
const externalSharderCheckInterval = 30 * time.Second

// watchExternalSharder reports a ControllerRing of the same name, for which an external sharder assigns the same
// objects. This is safe, because both come to the same decisions and write with preconditions, but does the
// work twice.
func (s *Sharder) watchExternalSharder(ctx context.Context) {
	rings := s.metadata.Resource(shardingv1alpha1.SchemeGroupVersion.WithResource("controllerrings"))
	reported, forbidden := false, false
	for {
		found, err := rings.Get(ctx, s.Ring, metav1.GetOptions{})
		switch {
		case err == nil && found.DeletionTimestamp == nil:
			if !reported {
				const note = "A ControllerRing of this name exists, so an external sharder may assign the same objects. " +
					"Delete the ControllerRing, or run the instances in mode shard"
				logf.FromContext(ctx).Info(note)
				s.events.Eventf(s.Election, nil, corev1.EventTypeWarning, shardingv1alpha1.ReasonTwoSharders, "Shard", "%s", note)
			}
			reported = true
		case err == nil || apierrors.IsNotFound(err): // no such ring, or no such kind
			reported = false
		case apierrors.IsForbidden(err) && !forbidden:
			logf.FromContext(ctx).Info("Cannot check for an external sharder: reading ControllerRings is forbidden", "error", err.Error())
			forbidden = true
		}
		timer := time.NewTimer(externalSharderCheckInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}
