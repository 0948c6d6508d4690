package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
)

// probes checks all members periodically, independently of operators and agents.
type probes struct {
	mu    sync.Mutex
	downs []downtime
	asked int
}

// startProbes starts the probes.
func (w *fixture) startProbes(t *testing.T) *probes {
	t.Helper()
	p := &probes{}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for _, r := range w.regions {
		client, err := agent.NewClient("http://" + r.address)
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() { p.probeRegion(ctx, client) })
	}
	t.Cleanup(func() { stop(); ended.Wait() })
	return p
}

// probeRegion checks the members of a region.
func (p *probes) probeRegion(ctx context.Context, region *agent.Client) {
	client := &http.Client{Timeout: time.Second}
	served, since := map[string]bool{}, map[string]time.Time{}
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		members, err := region.Members(ctx)
		if err != nil {
			continue
		}
		for _, m := range members {
			at := time.Now()
			switch err := isServing(ctx, client, m.ClientURL); {
			case ctx.Err() != nil:
				return
			case os.IsTimeout(err): // slow, as everything on a busy machine
			case err == nil:
				served[m.ID] = true
				delete(since, m.ID)
				p.record(nil)
			case served[m.ID]: // a member that has never served does not count
				if since[m.ID].IsZero() {
					since[m.ID] = at
				}
				p.record(&downtime{system: m.System, member: m.ID, from: since[m.ID], until: at})
			}
		}
	}
}

// isServing checks the health of a member itself, which does not need a leader.
func isServing(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health?serializable=true", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

// record counts a probe, and records the downtime of a member.
func (p *probes) record(now *downtime) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if now == nil {
		return
	}
	for i := range p.downs {
		if p.downs[i].member == now.member && p.downs[i].from.Equal(now.from) {
			p.downs[i] = *now
			return
		}
	}
	p.downs = append(p.downs, *now)
}
