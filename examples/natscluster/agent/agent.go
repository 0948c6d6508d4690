package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say what an agent runs.
type Options struct {
	// Region is what the names of the servers begin with, and Cluster that of the NATS cluster.
	Region, Cluster string
	// Dir is where the data of the servers are.
	Dir string
	// Ports are those for the servers: each takes three.
	Ports []int
	// Seeds are the routes of the first servers of all regions, as host and port.
	Seeds []string
	// Peers are the URLs of the other regions' agents: their servers may have moved.
	Peers []string
	// Members is how many servers the region begins with, and Protocol theirs.
	Members  int
	Protocol string
}

// Agent runs the servers of a region.
type Agent struct {
	options Options
	ctx     context.Context //nolint:containedctx // it ends with the agent

	mu      sync.Mutex
	token   int64
	servers map[string]*nats
	events  []Event
}

// New makes an agent, and starts the servers that the region begins with. They end with the context.
func New(ctx context.Context, options Options) (*Agent, error) {
	a := &Agent{options: options, ctx: ctx, servers: map[string]*nats{}}
	for i := range options.Members {
		name := fmt.Sprintf("%s-%d", options.Region, i+1)
		if err := a.Do(name, Order{Do: Start, Protocol: options.Protocol, Task: "first"}); err != nil {
			return nil, err
		}
	}
	go a.watch()
	return a, nil
}

// Members returns the servers.
func (a *Agent) Members() []Member {
	a.mu.Lock()
	defer a.mu.Unlock()
	members := []Member{}
	for _, s := range a.servers {
		members = append(members, s.Member)
	}
	slices.SortFunc(members, func(x, y Member) int { return strings.Compare(x.Name, y.Name) })
	return members
}

// Events returns all that has happened.
func (a *Agent) Events() []Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// Do carries out an order. It returns when the process is there, or gone.
func (a *Agent) Do(name string, order Order) error {
	s, err := a.admit(name, order)
	if s == nil || err != nil {
		return err
	}
	routes := a.routes()
	s.busy.Lock() // one order for a server at a time
	defer s.busy.Unlock()
	if s, err = a.admit(name, order); s == nil || err != nil {
		return err // something has happened meanwhile
	}
	a.update(func() { s.Ready = false; a.note(name, order.Do, order) })
	s.stop()
	if order.Do == Delete {
		a.update(func() { delete(a.servers, name) })
		return os.RemoveAll(s.dir)
	}
	a.update(func() { s.Config, s.Protocol, s.Task = order.Config, order.Protocol, order.Task })
	if err := a.start(s, routes); err != nil {
		return &FailedError{fmt.Sprintf("%s does not start: %v", name, err)}
	}
	return nil
}

// admit returns the server of an order that is not carried out yet, and notes its token.
func (a *Agent) admit(name string, order Order) (*nats, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if order.Token < a.token {
		return nil, &FencedError{a.token}
	}
	a.token = order.Token
	s := a.servers[name]
	switch {
	case s != nil && s.Task == order.Task, s == nil && order.Do == Delete:
		return nil, nil
	case s == nil && order.Do == Start:
		return a.add(name)
	case s == nil:
		return nil, &FailedError{fmt.Sprintf("server %q not found", name)}
	}
	return s, nil
}

// start starts a server, which nobody else does meanwhile.
func (a *Agent) start(s *nats, routes []string) error {
	p, err := s.start(routes)
	a.update(func() {
		s.process, s.Problem = p, ""
		if err != nil {
			s.Problem = err.Error()
		}
	})
	return err
}

func (a *Agent) update(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// add makes a server with ports of its own.
func (a *Agent) add(name string) (*nats, error) {
	free := slices.DeleteFunc(slices.Clone(a.options.Ports), func(port int) bool {
		for _, s := range a.servers {
			if slices.Contains(s.ports[:], port) {
				return true
			}
		}
		return false
	})
	s := &nats{options: &a.options, dir: filepath.Join(a.options.Dir, name)}
	if len(free) < len(s.ports) {
		return nil, &FailedError{"no ports are left for " + name}
	}
	copy(s.ports[:], free)
	s.Name, s.ClientURL, s.Route = name, "nats://"+address(s.ports[0]), address(s.ports[1])
	a.servers[name] = s
	return s, os.MkdirAll(s.dir, 0o755)
}

// routes are where a server finds others.
func (a *Agent) routes() []string {
	routes := slices.Clone(a.options.Seeds)
	ctx, cancel := context.WithTimeout(a.ctx, time.Second)
	defer cancel()
	for _, peer := range a.options.Peers {
		members, err := (&Client{URL: peer}).Members(ctx)
		if err != nil {
			continue // its servers are among the seeds, or are found through others
		}
		for _, member := range members {
			routes = append(routes, member.Route)
		}
	}
	slices.Sort(routes)
	return slices.Compact(routes)
}

func (a *Agent) note(member, what string, order Order) {
	a.events = append(a.events, Event{Time: time.Now(), Member: member, What: what, Task: order.Task, Token: order.Token})
}

// watch sees when servers become ready, and starts those again that have ended unasked.
func (a *Agent) watch() {
	const interval, patience = 50 * time.Millisecond, time.Second
	client := &http.Client{Timeout: patience}
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(interval):
		}
		for _, member := range a.Members() {
			a.look(client, member.Name)
		}
	}
}

func (a *Agent) look(client *http.Client, name string) {
	a.mu.Lock()
	s := a.servers[name]
	a.mu.Unlock()
	if s == nil || !s.busy.TryLock() {
		return // an order is being carried out
	}
	defer s.busy.Unlock()
	switch {
	case s.Problem != "" || s.process == nil || a.ctx.Err() != nil:
	case s.process.ended():
		a.update(func() { s.Ready = false })
		_ = a.start(s, a.routes()) // it is the server's problem
	default:
		ready := isHealthy(a.ctx, client, s.health())
		a.update(func() {
			if ready && !s.Ready {
				a.note(name, Ready, Order{Task: s.Task})
			}
			s.Ready = ready
		})
	}
}

func isHealthy(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	return err == nil && errors.Join(response.Body.Close()) == nil && response.StatusCode == http.StatusOK
}
