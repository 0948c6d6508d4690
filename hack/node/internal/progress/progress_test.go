package progress_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/progress"
)

func TestStep(t *testing.T) {
	var out strings.Builder
	clock := time.Unix(0, 0)
	printer := progress.New(&out, func() time.Time {
		clock = clock.Add(1500 * time.Millisecond)
		return clock
	})
	if err := printer.Step("starting kubelet", func() error { return nil }); err != nil {
		t.Error(err)
	}
	broken := errors.New("no memory")
	if err := printer.Step("starting etcd", func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v, want it to be %v", err, broken)
	}
	if want := "  starting kubelet … 1.5 s\n  starting etcd … failed\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}
