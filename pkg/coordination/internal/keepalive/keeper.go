// Package keepalive renews a session of a store, and reports when the session is lost.
//
// It guarantees that a session counts as lost, by the local monotonic clock, before the store can have ended it: it counts from the
// time before the last confirmed renewal was sent, and keeps a part of the session's duration as a margin for the owner to stop. A lost
// session stays lost.
package keepalive

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrSessionEnded is returned by a renewal when the store has ended the session.
var ErrSessionEnded = errors.New("the store has ended the session")

// Options configure a Keeper.
type Options struct {
	Clock clock.Clock
	// Duration is how long the store keeps the session after a renewal.
	Duration time.Duration
	// Renew renews the session once. After an error other than ErrSessionEnded it is retried. Calls do not overlap.
	Renew func(ctx context.Context) error
}

// A session is renewed every third of its duration, and after a failure every twentieth. A fifth is the margin for the owner.
const (
	renewalsPerDuration = 3
	retriesPerDuration  = 20
	marginFraction      = 5
)

// Keeper renews a session until it is stopped or the session is lost.
type Keeper struct {
	options Options
	lost    chan struct{}
	once    sync.Once
	stop    context.CancelFunc
	done    chan struct{}

	mu sync.Mutex
	// expiresAt is when the session counts as lost unless it is renewed.
	expiresAt time.Time
}

// Start renews a session until Stop, or until the session is lost. The store has opened the session for a request that was sent at the
// given time. Only the values of the context are used.
func Start(ctx context.Context, sent time.Time, options Options) *Keeper {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &Keeper{options: options, lost: make(chan struct{}), stop: stop, done: make(chan struct{})}
	k.extend(sent)
	go func() {
		defer close(k.done)
		defer stop()
		k.run(ctx)
	}()
	return k
}

// Lost is closed when the session is lost.
func (k *Keeper) Lost() <-chan struct{} { return k.lost }

// Alive reports whether the process has the session now. After the process hung, it may return false before Lost is closed.
func (k *Keeper) Alive() bool {
	select {
	case <-k.lost:
		return false
	default:
		return k.remaining() > 0
	}
}

// MarkLost marks the session as lost. It does not wait.
func (k *Keeper) MarkLost() {
	k.once.Do(func() { close(k.lost) })
	k.stop()
}

// Stop marks the session as lost, and returns when no renewal is in flight.
func (k *Keeper) Stop() {
	k.MarkLost()
	<-k.done
}

func (k *Keeper) extend(sent time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expiresAt = sent.Add(k.options.Duration - k.options.Duration/marginFraction)
}

func (k *Keeper) remaining() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.expiresAt.Sub(k.options.Clock.Now())
}

// run renews the session until it is lost. When a paused process resumes, several channels are ready, in any order, so each iteration
// first checks the remaining time.
func (k *Keeper) run(ctx context.Context) {
	renewal := &renewal{results: make(chan error, 1), cancel: func() {}}
	defer func() { renewal.wait() }()
	interval := k.options.Duration / renewalsPerDuration
	expiry, next := k.options.Clock.NewTimer(k.remaining()), k.options.Clock.NewTimer(interval)
	defer expiry.Stop()
	defer next.Stop()
	for ctx.Err() == nil {
		remaining := k.remaining()
		if remaining <= 0 {
			k.MarkLost()
			return
		}
		select {
		case <-ctx.Done():
		case <-expiry.C():
			expiry.Reset(k.remaining())
		case <-next.C():
			// A renewal that is still in flight returns soon after it is cancelled, and another one follows.
			renewal.cancel()
			if !renewal.inFlight {
				renewal.start(ctx, k.options)
			}
			next.Reset(interval)
		case err := <-renewal.results:
			renewal.finish()
			switch {
			case err == nil:
				k.extend(renewal.sent)
				expiry.Reset(k.remaining())
				next.Reset(max(0, interval-k.options.Clock.Since(renewal.sent)))
			case errors.Is(err, ErrSessionEnded):
				k.MarkLost()
			default:
				next.Reset(k.options.Duration / retriesPerDuration)
			}
		}
	}
}

// renewal is the renewal in flight, if any.
type renewal struct {
	inFlight bool
	sent     time.Time
	cancel   context.CancelFunc
	results  chan error
}

func (r *renewal) start(ctx context.Context, options Options) {
	ctx, r.cancel = context.WithCancel(ctx)
	r.inFlight, r.sent = true, options.Clock.Now()
	go func() { r.results <- options.Renew(ctx) }()
}

func (r *renewal) finish() {
	r.cancel()
	r.inFlight = false
}

// wait cancels the renewal in flight and waits for it: it must not write later.
func (r *renewal) wait() {
	r.cancel()
	if r.inFlight {
		<-r.results
	}
}
