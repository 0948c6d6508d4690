package fleet

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIsHeld(t *testing.T) {
	t.Parallel()
	now := time.Now()
	renewed := func(ago time.Duration) *metav1.MicroTime { return new(metav1.NewMicroTime(now.Add(-ago))) }
	for name, test := range map[string]struct {
		spec coordinationv1.LeaseSpec
		want bool
	}{
		"renewed":     {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(5 * time.Second), LeaseDurationSeconds: new(int32(15))}, true},
		"expired":     {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(20 * time.Second), LeaseDurationSeconds: new(int32(15))}, false},
		"released":    {coordinationv1.LeaseSpec{HolderIdentity: new(""), RenewTime: renewed(time.Second), LeaseDurationSeconds: new(int32(15))}, false},
		"never held":  {coordinationv1.LeaseSpec{}, false},
		"no duration": {coordinationv1.LeaseSpec{HolderIdentity: new("a"), RenewTime: renewed(time.Second)}, false},
	} {
		if got := isHeld(&coordinationv1.Lease{Spec: test.spec}, now); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
