package kubeversion_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
)

var (
	current = answer{version: "v1.37.1"}
	old     = answer{version: "v1.33.2"}
	away    = answer{err: errors.New("connection refused")}
	hung    = answer{hangs: true}
	refused = answer{err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))}
)

// answer is what the API server does with one request.
type answer struct {
	version string
	err     error
	hangs   bool
}

// TestGuard asks API servers that answer, one after the other, what the test says. What is started runs
// for ten minutes, or until its context ends.
func TestGuard(t *testing.T) {
	const runs = 10 * time.Minute
	errStopped := errors.New("stopped")
	for name, test := range map[string]struct {
		answers []answer
		tooOld  bool
		// startedAfter is negative if nothing may start, endedAfter the time until Guard returns.
		startedAfter, endedAfter time.Duration
	}{
		"new enough":               {answers: []answer{current}, endedAfter: runs},
		"too old":                  {answers: []answer{old}, tooOld: true, startedAfter: -1},
		"does not tell":            {answers: []answer{refused}, endedAfter: runs},
		"away, then new enough":    {answers: []answer{away, away, current}, endedAfter: runs},
		"away, then too old":       {answers: []answer{away, away, old}, tooOld: true, endedAfter: 3 * time.Second},
		"away, then does not tell": {answers: []answer{away, refused}, endedAfter: runs},
		"hung, then too old":       {answers: []answer{hung, old}, tooOld: true, startedAfter: 5 * time.Second, endedAfter: 6 * time.Second},
		"away until it is stopped": {answers: repeat(away, 15), endedAfter: runs},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, asked, startedAfter := time.Now(), 0, time.Duration(-1)
				ask := func(ctx context.Context) (*apiversion.Info, error) {
					if asked == len(test.answers) {
						t.Error("it asked although it had an answer")
						return nil, away.err
					}
					next := test.answers[asked]
					asked++
					if next.hangs {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return &apiversion.Info{GitVersion: next.version}, next.err
				}
				err := kubeversion.Guard(t.Context(), ask, func(ctx context.Context) error {
					startedAfter = time.Since(began)
					select {
					case <-ctx.Done():
					case <-time.After(runs - startedAfter):
					}
					return errStopped
				})
				tooOld := (*kubeversion.TooOldError)(nil)
				if errors.As(err, &tooOld) != test.tooOld || !test.tooOld && !errors.Is(err, errStopped) {
					t.Errorf("it returned %v", err)
				}
				if startedAfter != test.startedAfter {
					t.Errorf("started after %s, want %s", startedAfter, test.startedAfter)
				}
				if ended := time.Since(began); ended != test.endedAfter {
					t.Errorf("ended after %s, want %s", ended, test.endedAfter)
				}
				if asked != len(test.answers) {
					t.Errorf("it asked %d times, want %d", asked, len(test.answers))
				}
			})
		})
	}
}

func repeat(one answer, n int) []answer {
	all := make([]answer, n)
	for i := range all {
		all[i] = one
	}
	return all
}
