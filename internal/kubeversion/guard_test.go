package kubeversion_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
)

var (
	current     = answer{version: "v1.37.1"}
	old         = answer{version: "v1.33.2"}
	unreachable = answer{err: errors.New("connection refused")}
	hung        = answer{hangs: true}
	refused     = answer{err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))}
)

// answer is the API server's answer to one request.
type answer struct {
	version string
	err     error
	hangs   bool
}

// TestGuard has an API server give one answer after another. The guarded function runs for ten
// minutes, or until its context ends.
func TestGuard(t *testing.T) {
	const runs = 10 * time.Minute
	errStopped := errors.New("stopped")
	for name, test := range map[string]struct {
		answers []answer
		tooOld  bool
		// startedAfter is the delay of start, or negative if start must not be called. endedAfter is the
		// time until Guard returns.
		startedAfter, endedAfter time.Duration
	}{
		"new enough":                   {answers: []answer{current}, endedAfter: runs},
		"too old":                      {answers: []answer{old}, tooOld: true, startedAfter: -1},
		"refuses":                      {answers: []answer{refused}, endedAfter: runs},
		"unreachable, then new enough": {answers: []answer{unreachable, unreachable, current}, endedAfter: runs},
		"unreachable, then too old":    {answers: []answer{unreachable, unreachable, old}, tooOld: true, endedAfter: 3 * time.Second},
		"unreachable, then refuses":    {answers: []answer{unreachable, refused}, endedAfter: runs},
		"hung, then too old":           {answers: []answer{hung, old}, tooOld: true, startedAfter: 5 * time.Second, endedAfter: 6 * time.Second},
		"unreachable":                  {answers: slices.Repeat([]answer{unreachable}, 15), endedAfter: runs},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, requests, startedAfter := time.Now(), 0, time.Duration(-1)
				request := func(ctx context.Context) (*apiversion.Info, error) {
					if requests == len(test.answers) {
						t.Error("it sent a request although it had an answer")
						return nil, unreachable.err
					}
					next := test.answers[requests]
					requests++
					if next.hangs {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return &apiversion.Info{GitVersion: next.version}, next.err
				}
				err := kubeversion.Guard(t.Context(), request, func(ctx context.Context) error {
					startedAfter = time.Since(began)
					select {
					case <-ctx.Done():
					case <-time.After(runs - startedAfter):
					}
					return errStopped
				})
				tooOld := (*kubeversion.TooOldError)(nil)
				if errors.As(err, &tooOld) != test.tooOld || !test.tooOld && !errors.Is(err, errStopped) {
					t.Errorf("got %v", err)
				}
				if startedAfter != test.startedAfter {
					t.Errorf("started after %s, want %s", startedAfter, test.startedAfter)
				}
				if ended := time.Since(began); ended != test.endedAfter {
					t.Errorf("ended after %s, want %s", ended, test.endedAfter)
				}
				if requests != len(test.answers) {
					t.Errorf("it sent %d requests, want %d", requests, len(test.answers))
				}
			})
		})
	}
}
