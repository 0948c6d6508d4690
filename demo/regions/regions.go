package regions

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/demo/balancer"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/fakenode"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/demo/writeprobe"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

const (
	// program is the name of the operator's executable, agent that of the program that runs the
	// members of a region.
	program = "etcdcluster"
	agent   = "etcdagent"
	// account is the name of the operators' ServiceAccounts.
	account = "etcdcluster-operator"
	// gracePeriod is how long a process may take to exit.
	gracePeriod = 10 * time.Second
	// startLimit is the limit for the start, joinLimit the limit until all members vote.
	startLimit = 2 * time.Minute
	joinLimit  = 2 * time.Minute
	// sessionDuration is how long a silent operator counts as a participant. It is short, so that a
	// failover is quick to see.
	sessionDuration = 6 * time.Second
	// quietWindow is how long no new action may have become pending before an operator acts for
	// all.
	quietWindow = 3 * time.Second
)

// regionNames are the names of the regions, which are their namespaces and the prefixes of the IDs
// of their members.
var regionNames = []string{"dc1", "dc2", "dc3"}

// Options configure the demo.
type Options struct {
	cluster.Options
	// Etcd is the path of the etcd executable.
	Etcd string
	// Mode is the initial mode of the operators: local or global.
	Mode string
	// Report receives each step of the start as it begins.
	Report func(step string)
	// Hints returns the hints of the live view, given the endpoint of the etcd cluster.
	Hints func(endpoint string) view.Hints
}

// Validate returns an error for options that cannot be used.
func (o Options) Validate() error {
	if o.Mode != view.ModeGlobal && o.Mode != view.ModeLocal {
		return fmt.Errorf("unknown mode %q (available: %s, %s)", o.Mode, view.ModeGlobal, view.ModeLocal)
	}
	return nil
}

// FindPrograms returns the absolute path of the folder if it has the programs of the demo.
func FindPrograms(folder string) (string, error) { return cluster.FindPrograms(folder, program, agent) }

// Demo is the running demo.
type Demo struct {
	*cluster.Cluster
	options   Options
	startedAt time.Time

	operators, agents *supervisor.Supervisor
	node              *fakenode.Node
	// loadBalancer is one address for all members.
	loadBalancer *balancer.Balancer
	hints        view.Hints
	probe        *writeprobe.Probe
	changed      chan struct{}
	editing      sync.Mutex
	// addresses has the addresses of the agents by region. Only Start writes it.
	addresses map[string]string
	ports     []*process.Port
	// system is the name of the demo's system. Users may create other systems beside it.
	system string
	// cache has all EtcdClusters.
	cache client.Reader

	mu                sync.Mutex
	processes         map[string]member // of the agents, by ID
	coordinationState coordinationstatus.Summary
	events            []view.Event
	eventCount        int

	started atomic.Bool
	// background are the goroutines that run until Stop.
	background sync.WaitGroup
	ctx        context.Context
	cancel     context.CancelFunc
}

// Start starts everything, and waits until all members vote. If it fails, it leaves nothing behind.
func Start(ctx context.Context, options Options) (*Demo, error) {
	system, err := systemName()
	if err != nil {
		return nil, err
	}
	d := &Demo{
		options: options, startedAt: time.Now(), changed: make(chan struct{}, 1), system: system,
		addresses: map[string]string{}, processes: map[string]member{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	supervision := supervisor.Options{Report: d.reportProcess, Changed: d.change, Removed: func(string) {}, GracePeriod: gracePeriod}
	d.operators, d.agents = supervisor.New(supervision), supervisor.New(supervision)
	if err := d.start(ctx); err != nil {
		d.Kill()
		return nil, err
	}
	d.started.Store(true)
	return d, nil
}

// change notifies Changed, unless a notification is pending.
func (d *Demo) change() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// reportProcess records an event of a process. During the start it also reports failures.
func (d *Demo) reportProcess(name, message string, failure bool) {
	d.recordEvent(name, message, failure)
	for _, region := range regionNames {
		if name == operatorOf(region) {
			d.node.Enqueue(region, name)
		}
	}
	if failure && !d.started.Load() {
		d.options.Report(name + " " + message)
	}
}

// recordEvent records an event.
func (d *Demo) recordEvent(about, message string, warning bool) {
	const maxEvents = 1000
	d.mu.Lock()
	d.eventCount++
	d.events = append(d.events, view.Event{Number: d.eventCount, At: time.Now(), About: about, Message: message, Warning: warning})
	d.events = d.events[max(0, len(d.events)-maxEvents):]
	d.mu.Unlock()
	d.change()
}

// Changed receives a value after State has changed.
func (d *Demo) Changed() <-chan struct{} { return d.changed }

// Endpoint returns the URL of the etcd cluster, which stays the same when members change.
func (d *Demo) Endpoint() string { return "http://" + d.loadBalancer.Address() }

// Stop stops everything gracefully, and kills processes that still run when ctx ends. The operators stop
// first, because they would treat stopped members as failed.
func (d *Demo) Stop(ctx context.Context) {
	d.cancel()
	d.operators.Close(ctx)
	d.agents.Close(ctx)
	if d.loadBalancer != nil {
		d.loadBalancer.Close()
	}
	d.background.Wait()
	for _, port := range d.ports {
		port.Release()
	}
}

// Kill stops everything at once.
func (d *Demo) Kill() {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	d.Stop(canceled)
}
