package watches

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// minRetryDelay and maxRetryDelay bound the random delay between two attempts of a process.
	minRetryDelay = 500 * time.Millisecond
	maxRetryDelay = 1500 * time.Millisecond
	// maxResumeJitter bounds the random delay before a watch resumes when the outage has ended.
	maxResumeJitter = time.Second
	// startupTimeout is how long after an outage the API server may refuse valid requests. It answers before it
	// has loaded roles, accounts and custom resources.
	startupTimeout = 30 * time.Second
)

// reachability is the shared state of the watches of a process: whether the API server is reachable.
type reachability struct {
	clock clock.Clock
	// turn holds one token, whose holder sends the next attempt. The watches take turns, so that one that is
	// forbidden even after the outage does not delay the others.
	turn chan struct{}

	mu          sync.Mutex
	lostAt      time.Time     // when the outage began, or zero
	lastFailure time.Time     // when a request last failed to reach the API server
	reachable   chan struct{} // closed when the outage ends
}

func newReachability(clock clock.Clock) *reachability {
	r := &reachability{clock: clock, turn: make(chan struct{}, 1)}
	r.turn <- struct{}{}
	return r
}

// observe records the result of a request and reports whether to send it again.
func (r *reachability) observe(ctx context.Context, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	outage := !r.lostAt.IsZero()
	switch {
	case unreachable(err):
		if !outage {
			log.FromContext(ctx).Info("API server is unreachable, retrying", "error", err.Error())
			r.lostAt, r.reachable = now, make(chan struct{})
		}
		r.lastFailure = now
		return true
	case outage && starting(err) && now.Sub(r.lastFailure) < startupTimeout:
		return true
	case outage && (err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown):
		log.FromContext(ctx).Info("API server is reachable again", "outage", now.Sub(r.lostAt).Round(time.Millisecond))
		r.lostAt = time.Time{}
		close(r.reachable)
	}
	return false
}

// wait returns when the caller may send its request again.
func (r *reachability) wait(ctx context.Context) error {
	r.mu.Lock()
	reachable := r.reachable
	r.mu.Unlock()
	select {
	case <-r.turn:
		defer func() { r.turn <- struct{}{} }()
		return r.sleep(ctx, minRetryDelay+rand.N(maxRetryDelay-minRetryDelay), reachable)
	case <-reachable:
		return r.sleep(ctx, rand.N(maxResumeJitter), nil)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sleep returns after the delay or when the channel is closed. It returns an error when ctx ends.
func (r *reachability) sleep(ctx context.Context, delay time.Duration, until <-chan struct{}) error {
	timer := r.clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-until:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unreachable reports whether a request failed without an answer from the API server.
func unreachable(err error) bool {
	var operation *net.OpError
	if errors.As(err, &operation) && (operation.Op == "dial" || operation.Op == "proxyconnect") {
		return true
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsHTTP2ConnectionLost(err)
}

// starting reports whether an error is an answer of an API server that is starting.
func starting(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsServiceUnavailable(err)
}
