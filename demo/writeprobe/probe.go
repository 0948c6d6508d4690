// Package writeprobe is an etcd client that writes continuously, to show what clients notice of a
// change in the cluster.
//
// It sends one write at a time, up to ten in a second, and counts acknowledged, failed and slow
// writes.
package writeprobe

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
	// key is the key that is written.
	key = "/ringmaster-demo/probe"
	// interval is the time between two writes, timeout the limit for one write.
	interval = 100 * time.Millisecond
	timeout  = 3 * time.Second
	// window is the period over which the slowest write is reported.
	window = time.Minute
)

// Options configure a probe.
type Options struct {
	// Endpoints returns the current endpoints of the members.
	Endpoints func() []string
	// Report receives events, Changed is called after each write.
	Report  func(about, message string, warning bool)
	Changed func()
}

// Probe writes until its context ends.
type Probe struct {
	options Options
	client  *clientv3.Client
	ended   chan struct{}

	mu     sync.Mutex
	counts view.Clients
	leader string
	term   uint64
	recent []write
}

// write is a write with its latency.
type write struct {
	at   time.Time
	took time.Duration
}

// Start starts a probe, which runs until ctx ends.
func Start(ctx context.Context, options Options) (*Probe, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: options.Endpoints(), Logger: zap.NewNop(), DialKeepAliveTime: timeout, DialKeepAliveTimeout: timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the etcd client of the write probe: %w", err)
	}
	p := &Probe{options: options, client: client, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		defer client.Close()
		for n := 0; ctx.Err() == nil; n++ {
			p.writeOnce(ctx, n)
		}
	}()
	return p, nil
}

// Wait returns when the probe has ended.
func (p *Probe) Wait() { <-p.ended }

// writeOnce sends one write, refreshes the leader now and then, and waits until the next write is
// due.
func (p *Probe) writeOnce(ctx context.Context, n int) {
	const leaderInterval = 5
	next := time.NewTimer(interval)
	defer next.Stop()
	if endpoints := p.options.Endpoints(); len(endpoints) > 0 && !slices.Equal(endpoints, p.client.Endpoints()) {
		p.client.SetEndpoints(endpoints...)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	answer, err := p.client.Put(limited, key, strconv.Itoa(n))
	if ctx.Err() != nil {
		return
	}
	p.recordWrite(time.Now(), time.Since(began), err)
	if err == nil {
		p.updateLeader(ctx, answer.Header.RaftTerm, n%leaderInterval == 0)
	}
	select {
	case <-ctx.Done():
	case <-next.C:
	}
}

// recordWrite counts a write.
func (p *Probe) recordWrite(now time.Time, took time.Duration, err error) {
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
		p.options.Report("client", "a write failed: "+problem, true)
	}
	p.options.Changed()
}

// updateLeader asks a member for the leader if refresh is true or the term has changed.
func (p *Probe) updateLeader(ctx context.Context, term uint64, refresh bool) {
	p.mu.Lock()
	known := p.term
	p.mu.Unlock()
	endpoints := p.client.Endpoints()
	if term == known && !refresh || len(endpoints) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, err := p.client.Status(limited, endpoints[int(time.Now().UnixNano()/int64(interval))%len(endpoints)])
	if err != nil || status.Leader == 0 {
		return // the next write tries again
	}
	p.recordLeader(strconv.FormatUint(status.Leader, 16), status.RaftTerm)
}

// recordLeader records the leader of a term, and counts changes of the leader. A member that lags
// behind may still report the leader of an earlier term, which is ignored.
func (p *Probe) recordLeader(leader string, term uint64) {
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

// Counts returns the counters, and the member ID of the leader in hexadecimal digits.
func (p *Probe) Counts() (counts view.Clients, leader string) {
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
