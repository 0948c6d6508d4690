package robustness_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// brokenReader returns an error: that of the context if it has ended, or else its own.
type brokenReader struct {
	client.Reader
	err error
}

func (r *brokenReader) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.err
}

// TestUnreadableLeaseEndsTheRecorder has a shard that cannot read its own Lease.
func TestUnreadableLeaseEndsTheRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden, began := errors.New("forbidden"), time.Now()
		if _, err := readInstance(t.Context(), &brokenReader{err: forbidden}, client.ObjectKey{}, time.Minute); !errors.Is(err, forbidden) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}
