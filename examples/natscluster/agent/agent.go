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

// Options configure an agent.
type Options struct {
	// Region is the prefix of the names of the servers, and Cluster the name of the NATS cluster.
	Region, Cluster string
	// Dir is the folder for the data of the servers.
	Dir string
	// Ports are the ports for the servers. Each server needs three.
	Ports []int
	// Seeds are the routes of the first servers of all regions, as host and port.
	Seeds []string
	// Peers are the URLs of the other regions' agents, to find servers with new addresses.
	Peers []string
	// Members is the initial number of servers, and Protocol their protocol.
	Members  int
	Protocol string
}

// Agent runs the servers of a region.
type Agent struct {
	options Options
	ctx     context.Context //nolint:containedctx // it ends with the agent

	mu      sync.Mutex
	token   int64
	servers map[string]*natsServer
	events  []Event
}

// New returns an agent and starts the initial servers. They run until the context ends.
func New(ctx context.Context, options Options) (*Agent, error) {
	a := &Agent{options: options, ctx: ctx, servers: map[string]*natsServer{}}
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

// Events returns all events.
func (a *Agent) Events() []Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

// Do carries out an order. It returns when the process has started or ended.
func (a *Agent) Do(name string, order Order) error {
	s, err := a.checkOrder(name, order)
	if s == nil || err != nil {
		return err
	}
	routes := a.routes()
	s.orderMu.Lock() // one order for a server at a time
	defer s.orderMu.Unlock()
	if s, err = a.checkOrder(name, order); s == nil || err != nil {
		return err // another order was carried out in between
	}
	a.update(func() { s.Ready = false; a.record(name, order.Do, order) })
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

// checkOrder records the token of an order, and returns the server if the order has to be carried out.
func (a *Agent) checkOrder(name string, order Order) (*natsServer, error) {
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

// start starts a server. The caller holds orderMu.
func (a *Agent) start(s *natsServer, routes []string) error {
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

// add adds a server with unused ports.
func (a *Agent) add(name string) (*natsServer, error) {
	free := slices.DeleteFunc(slices.Clone(a.options.Ports), func(port int) bool {
		for _, s := range a.servers {
			if slices.Contains(s.ports[:], port) {
				return true
			}
		}
		return false
	})
	s := &natsServer{options: &a.options, dir: filepath.Join(a.options.Dir, name)}
	if len(free) < len(s.ports) {
		return nil, &FailedError{"no free ports for " + name}
	}
	copy(s.ports[:], free)
	s.Name, s.ClientURL, s.Route = name, "nats://"+address(s.ports[0]), address(s.ports[1])
	a.servers[name] = s
	return s, os.MkdirAll(s.dir, 0o755)
}

// routes returns the addresses at which a server finds others.
func (a *Agent) routes() []string {
	routes := slices.Clone(a.options.Seeds)
	ctx, cancel := context.WithTimeout(a.ctx, time.Second)
	defer cancel()
	for _, peer := range a.options.Peers {
		members, err := (&Client{URL: peer}).Members(ctx)
		if err != nil {
			continue // its servers are seeds, or are found through other servers
		}
		for _, member := range members {
			routes = append(routes, member.Route)
		}
	}
	slices.Sort(routes)
	return slices.Compact(routes)
}

func (a *Agent) record(member, event string, order Order) {
	a.events = append(a.events, Event{Time: time.Now(), Member: member, Operation: event, Task: order.Task, Token: order.Token})
}

// watch records when servers become ready, and restarts crashed servers.
func (a *Agent) watch() {
	const interval, timeout = 50 * time.Millisecond, time.Second
	client := &http.Client{Timeout: timeout}
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-time.After(interval):
		}
		for _, member := range a.Members() {
			a.checkServer(client, member.Name)
		}
	}
}

func (a *Agent) checkServer(client *http.Client, name string) {
	a.mu.Lock()
	s := a.servers[name]
	a.mu.Unlock()
	if s == nil || !s.orderMu.TryLock() {
		return // an order is being carried out
	}
	defer s.orderMu.Unlock()
	switch {
	case s.Problem != "" || s.process == nil || a.ctx.Err() != nil:
	case s.process.ended():
		a.update(func() { s.Ready = false })
		_ = a.start(s, a.routes()) // recorded as the server's Problem
	default:
		ready := isHealthy(a.ctx, client, s.healthURL())
		a.update(func() {
			if ready && !s.Ready {
				a.record(name, Ready, Order{Task: s.Task})
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
