// Package tenure tells a process for how long it has a session of a store.
//
// It promises that a tenure is lost, on the local monotonic clock, before the store can have ended the session:
// it counts from the moment before a renewal was sent that the store has confirmed, whatever became of later
// ones, and leaves a part of the session's duration for who has to hear of it. What is lost stays lost.
package tenure

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrEnded is what a renewal returns when the store has no such session any more.
var ErrEnded = errors.New("the store has ended the session")

// Options say how a session is kept.
type Options struct {
	Clock clock.Clock
	// Duration is for how long the store keeps the session after a renewal.
	Duration time.Duration
	// Renew asks the store once. After an error other than ErrEnded it is called again, soon. It is never called
	// twice at a time.
	Renew func(ctx context.Context) error
}

// The parts of the duration: an attempt to renew is made every third, and again soon after one has failed; a
// fifth is left for who has to hear that the session is lost.
const (
	renewals = 3
	retries  = 20
	margin   = 5
)

// Tenure is a session as its process has it.
type Tenure struct {
	options Options
	lost    chan struct{}
	once    sync.Once
	stop    context.CancelFunc
	done    chan struct{}

	mu sync.Mutex
	// until is when the session is lost unless it is renewed.
	until time.Time
}

// Begin keeps a session that the store has granted to a request which was sent at the given time. It goes on
// until End, or until the session is lost; the context only brings values.
func Begin(ctx context.Context, sent time.Time, options Options) *Tenure {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	t := &Tenure{options: options, lost: make(chan struct{}), stop: stop, done: make(chan struct{})}
	t.confirm(sent)
	go func() {
		defer close(t.done)
		defer stop()
		t.keep(ctx)
	}()
	return t
}

// Lost is closed when the session is lost.
func (t *Tenure) Lost() <-chan struct{} { return t.lost }

// Held tells whether the session is this process's at this moment. One that hung may learn from it earlier than
// from Lost.
func (t *Tenure) Held() bool {
	select {
	case <-t.lost:
		return false
	default:
		return t.left() > 0
	}
}

// Lose gives the session up, without waiting for anything.
func (t *Tenure) Lose() {
	t.once.Do(func() { close(t.lost) })
	t.stop()
}

// End gives the session up and returns when no renewal is under way any more.
func (t *Tenure) End() {
	t.Lose()
	<-t.done
}

func (t *Tenure) confirm(sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = sent.Add(t.options.Duration - t.options.Duration/margin)
}

func (t *Tenure) left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.until.Sub(t.options.Clock.Now())
}

// keep renews the session until it is lost. A process that was paused finds several things to do when it goes
// on, in any order, so whatever happens it looks first at how much is left.
func (t *Tenure) keep(ctx context.Context) {
	renewal := &renewal{answers: make(chan error, 1), giveUp: func() {}}
	defer func() { renewal.wait() }()
	interval := t.options.Duration / renewals
	expiry, next := t.options.Clock.NewTimer(t.left()), t.options.Clock.NewTimer(interval)
	defer expiry.Stop()
	defer next.Stop()
	for ctx.Err() == nil {
		left := t.left()
		if left <= 0 {
			t.Lose()
			return
		}
		select {
		case <-ctx.Done():
		case <-expiry.C():
			expiry.Reset(t.left())
		case <-next.C():
			// One that is still under way is answered soon after it was given up, and followed by another.
			renewal.giveUp()
			if !renewal.underWay {
				renewal.begin(ctx, t.options)
			}
			next.Reset(interval)
		case err := <-renewal.answers:
			renewal.end()
			switch {
			case err == nil:
				t.confirm(renewal.sent)
				expiry.Reset(t.left())
				next.Reset(max(0, interval-t.options.Clock.Since(renewal.sent)))
			case errors.Is(err, ErrEnded):
				t.Lose()
			default:
				next.Reset(t.options.Duration / retries)
			}
		}
	}
}

// renewal is the attempt to renew that is under way, if any.
type renewal struct {
	underWay bool
	sent     time.Time
	giveUp   context.CancelFunc
	answers  chan error
}

func (r *renewal) begin(ctx context.Context, options Options) {
	ctx, r.giveUp = context.WithCancel(ctx)
	r.underWay, r.sent = true, options.Clock.Now()
	go func() { r.answers <- options.Renew(ctx) }()
}

func (r *renewal) end() {
	r.giveUp()
	r.underWay = false
}

// wait waits for the end of what is under way, which must not write after others have gone on.
func (r *renewal) wait() {
	r.giveUp()
	if r.underWay {
		<-r.answers
	}
}
