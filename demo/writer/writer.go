// Package writer is a client of an etcd that writes all the time, so that people see what a change of the system means to
// those who use it.
//
// It promises one write at a time, some in a second, and that it counts what it was told: acknowledged, failed or late.
package writer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringmaster-project/ringmaster/demo/view"
)

const (
	// key is what is written.
	key = "/ringmaster-demo/pulse"
	// pause is between two writes, patience how long one may take.
	pause    = 100 * time.Millisecond
	patience = 3 * time.Second
	// window is for how long the slowest write is remembered.
	window = time.Minute
)

// Options say what to write to.
type Options struct {
	// Endpoints are where the members are at the moment.
	Endpoints func() []string
	// Tell is told what people should know, Changed that something has changed.
	Tell    func(about, what string, warning bool)
	Changed func()
}

// Pulse writes until its context ends.
type Pulse struct {
	options Options
	client  *clientv3.Client
	ended   chan struct{}

	mu     sync.Mutex
	counts view.Clients
	leader string
	term   uint64
	recent []write
}

// write is one that took a while.
type write struct {
	at   time.Time
	took time.Duration
}

// Start begins to write.
func Start(ctx context.Context, options Options) (*Pulse, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: options.Endpoints(), Logger: zap.NewNop(), DialKeepAliveTime: patience, DialKeepAliveTimeout: patience,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting a client to the system: %w", err)
	}
	p := &Pulse{options: options, client: client, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer client.Close()
		for n := 0; ctx.Err() == nil; n++ {
			p.beat(ctx, n)
		}
	}()
	return p, nil
}

// Wait returns when it has ended.
func (p *Pulse) Wait() { <-p.ended }

// beat writes once, now and then asks who leads, and waits until it is time for the next one.
func (p *Pulse) beat(ctx context.Context, n int) {
	const seldom = 5
	next := time.NewTimer(pause)
	defer next.Stop()
	if endpoints := p.options.Endpoints(); len(endpoints) > 0 && !slices.Equal(endpoints, p.client.Endpoints()) {
		p.client.SetEndpoints(endpoints...)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	answer, err := p.client.Put(limited, key, strconv.Itoa(n))
	if ctx.Err() != nil {
		return
	}
	p.note(time.Now(), time.Since(began), err)
	if err == nil {
		p.lead(ctx, answer.Header.RaftTerm, n%seldom == 0)
	}
	select {
	case <-ctx.Done():
	case <-next.C:
	}
}

// note counts a write.
func (p *Pulse) note(now time.Time, took time.Duration, err error) {
	p.mu.Lock()
	before := p.counts.Problem
	p.counts.Problem = ""
	if err != nil {
		p.counts.Failed++
		p.counts.Problem = err.Error()
	} else {
		p.counts.Writes++
	}
	if took > view.SlowWrite {
		p.counts.Slow++
	}
	p.recent = slices.DeleteFunc(append(p.recent, write{now, took}), func(w write) bool { return now.Sub(w.at) > window || w.took < took })
	problem := p.counts.Problem
	p.mu.Unlock()
	if problem != "" && before == "" {
		p.options.Tell("client", "a write fails: "+problem, true)
	}
	p.options.Changed()
}

// lead notes who leads, if that is asked for or has changed.
func (p *Pulse) lead(ctx context.Context, term uint64, ask bool) {
	p.mu.Lock()
	known := p.term
	p.mu.Unlock()
	endpoints := p.client.Endpoints()
	if term == known && !ask || len(endpoints) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := p.client.Status(limited, endpoints[int(time.Now().UnixNano()/int64(pause))%len(endpoints)])
	if err != nil || status.Leader == 0 {
		return // it is asked again
	}
	p.heard(strconv.FormatUint(status.Leader, 16), status.RaftTerm)
}

// heard takes down who leads in a term, and counts when that is another one. A member that lags behind may still name one
// of a term before.
func (p *Pulse) heard(leader string, term uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if term < p.term {
		return
	}
	if p.leader != "" && leader != p.leader {
		p.counts.Elections++
	}
	p.leader, p.term = leader, term
}

// Counts are what the client has noticed, and Leader etcd's number of the member that leads, in hexadecimal digits.
func (p *Pulse) Counts() (counts view.Clients, leader string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts = p.counts
	for _, w := range p.recent {
		if time.Since(w.at) <= window {
			counts.Slowest = max(counts.Slowest, w.took)
		}
	}
	return counts, p.leader
}
