//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/rest"
)

// user creates, changes and deletes Deployments continuously. None of the requests may fail during any step of
// the test.
type user struct {
	client appsv1client.DeploymentInterface
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	requests int
	slowest  time.Duration
	failures []string
	warnings int
	created  map[string]time.Time
}

const (
	// pause is the time between two rounds, and keep the lifetime of an object in rounds. With more rounds the
	// controller manager falls behind, which sends 20 requests a second for all Deployments of a cluster.
	pause = 250 * time.Millisecond
	keep  = 40
	// maxReactionTime is the time until the operator must have seen a new object.
	maxReactionTime = 3 * time.Second
)

// HandleWarningHeader counts warnings, for example that an object is unassigned.
func (u *user) HandleWarningHeader(int, string, string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.warnings++
}

// startUser starts a user in a namespace.
func (c *cluster) startUser(namespace string) *user {
	c.Helper()
	u := &user{created: map[string]time.Time{}}
	config := rest.CopyConfig(c.config)
	config.QPS, config.WarningHandler = -1, u
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.Fatal(err)
	}
	u.client = client.AppsV1().Deployments(namespace)
	ctx, stop := context.WithCancel(c.Context())
	u.stop = stop
	u.ended.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			u.round(ctx, i)
			time.Sleep(pause)
		}
	})
	c.Cleanup(func() { u.stop(); u.ended.Wait() })
	return u
}

func (u *user) round(ctx context.Context, i int) {
	u.request(ctx, "create", func(ctx context.Context) error {
		u.note(siteName(i))
		_, err := u.client.Create(ctx, site(siteName(i)), metav1.CreateOptions{})
		return err
	})
	if changed := i - keep/2; changed >= 0 {
		u.request(ctx, "patch", func(ctx context.Context) error {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"round":"%d"}},"spec":{"minReadySeconds":%d}}`, i, i%keep)
			_, err := u.client.Patch(ctx, siteName(changed), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	if old := i - keep; old >= 0 {
		u.request(ctx, "delete", func(ctx context.Context) error {
			return u.client.Delete(ctx, siteName(old), metav1.DeleteOptions{})
		})
	}
}

// request sends one request. The end of the test does not cancel it.
func (u *user) request(ctx context.Context, kind string, send func(context.Context) error) {
	began := time.Now()
	err := send(context.WithoutCancel(ctx))
	took := time.Since(began)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests++
	u.slowest = max(u.slowest, took)
	if err != nil {
		u.failures = append(u.failures, fmt.Sprintf("%s after %s: %v", kind, took.Round(time.Millisecond), err))
	}
}

func (u *user) note(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.created[name] = time.Now()
}

// isYoung reports whether an object is so new that the operator may not have seen it.
func (u *user) isYoung(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	created, mine := u.created[name]
	return mine && time.Since(created) < maxReactionTime
}

// expectNoFailures fails the test if a request has failed.
func (u *user) expectNoFailures(c *cluster) {
	c.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.failures) > 0 {
		c.Fatalf("%d of the user's %d requests failed, the first: %s", len(u.failures), u.requests, u.failures[0])
	}
	// The webhook's timeout, and as much for the rest of a busy API server.
	if limit := 10 * time.Second; u.slowest > limit {
		c.Errorf("a request of the user took %s, more than %s", u.slowest, limit)
	}
	c.Logf("%d requests of the user, none failed; the slowest took %s; %d had a warning",
		u.requests, u.slowest.Round(time.Millisecond), u.warnings)
	u.slowest = 0
}
