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

// probes asks all members again and again whether they serve, whatever operators and agents say.
type probes struct {
	mu    sync.Mutex
	downs []down
	asked int
}

// probe begins to ask.
func (w *world) probe(t *testing.T) *probes {
	t.Helper()
	p := &probes{}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for _, r := range w.regions {
		client, err := agent.NewClient("http://" + r.address)
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() { p.follow(ctx, client) })
	}
	t.Cleanup(func() { stop(); ended.Wait() })
	return p
}

// follow asks the members of a region.
func (p *probes) follow(ctx context.Context, region *agent.Client) {
	client := &http.Client{Timeout: time.Second}
	served, since := map[string]bool{}, map[string]time.Time{}
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
		members, err := region.Members(ctx)
		if err != nil {
			continue
		}
		for _, m := range members {
			at := time.Now()
			switch err := serves(ctx, client, m.ClientURL); {
			case ctx.Err() != nil:
				return
			case os.IsTimeout(err): // it may be slow, as all is on a busy machine
			case err == nil:
				served[m.ID] = true
				delete(since, m.ID)
				p.note(nil)
			case served[m.ID]: // one that has never served is not missed
				if since[m.ID].IsZero() {
					since[m.ID] = at
				}
				p.note(&down{system: m.System, member: m.ID, from: since[m.ID], until: at})
			}
		}
	}
}

// serves asks a member whether it is well by itself, also without a leader.
func serves(ctx context.Context, client *http.Client, url string) error {
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

// note counts a question, and takes for how long a member has been down.
func (p *probes) note(now *down) {
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
