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
	"github.com/ringmaster-project/ringmaster/demo/writer"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

const (
	// program is the name of the operator's executable, agent that of the program that plays a region's node.
	program = "etcdcluster"
	agent   = "etcdagent"
	// account is the name of the operators' ServiceAccounts.
	account = "etcdcluster-operator"
	// grace is how long a process may take to end.
	grace = 10 * time.Second
	// startLimit is how long the start may take, joinLimit how long until all members vote.
	startLimit = 2 * time.Minute
	joinLimit  = 2 * time.Minute
	// session is how long the others believe in an operator that says nothing: short, because somebody looks at it.
	session = 6 * time.Second
	// quiet is how long nothing may have become pending before an operator acts for all.
	quiet = 3 * time.Second
)

// names are those of the regions: of their namespaces, and what the IDs of their members begin with.
var names = []string{"dc1", "dc2", "dc3"}

// Options say what to show, and on what.
type Options struct {
	cluster.Options
	// Etcd is the path of etcd's executable.
	Etcd string
	// Mode is that in which the operators begin: local or global.
	Mode string
	// Report is told each step as it begins.
	Report func(step string)
	// Hints are what a person may try, told where the system is found.
	Hints func(endpoint string) view.Hints
}

// Validate tells what cannot be shown.
func (o Options) Validate() error {
	if o.Mode != view.ModeGlobal && o.Mode != view.ModeLocal {
		return fmt.Errorf("there is no mode %q: choose %s or %s", o.Mode, view.ModeGlobal, view.ModeLocal)
	}
	return nil
}

// FindPrograms returns the folder if it has what the demo runs.
func FindPrograms(folder string) (string, error) { return cluster.FindPrograms(folder, program, agent) }

// Demo is an example that was started.
type Demo struct {
	*cluster.Stage
	options Options
	began   time.Time

	operators, agents *supervisor.Crew
	node              *fakenode.Node
	// front is one address for all members.
	front   *balancer.Balancer
	hints   view.Hints
	clients *writer.Pulse
	changed chan struct{}
	editing sync.Mutex
	// addresses are those of the agents, by region. They are written only by Start.
	addresses map[string]string
	ports     []*process.Port
	// system is the name of the demo's system. People may create other systems beside it.
	system string
	// seen has all EtcdClusters, from a watch.
	seen client.Reader

	mu        sync.Mutex
	processes map[string]member // of the agents, by ID
	agreement coordinationstatus.Summary
	events    []view.Event
	told      int

	started atomic.Bool
	// background is what runs until Stop.
	background sync.WaitGroup
	ctx        context.Context
	cancel     context.CancelFunc
}

// Start starts everything, and waits until all members vote. Ended early, it leaves nothing behind.
func Start(ctx context.Context, options Options) (*Demo, error) {
	system, err := systemName()
	if err != nil {
		return nil, err
	}
	d := &Demo{
		options: options, began: time.Now(), changed: make(chan struct{}, 1), system: system,
		addresses: map[string]string{}, processes: map[string]member{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	told := supervisor.Options{Report: d.processNews, Changed: d.change, Gone: func(string) {}, Grace: grace}
	d.operators, d.agents = supervisor.New(told), supervisor.New(told)
	if err := d.start(ctx); err != nil {
		d.Kill()
		return nil, err
	}
	d.started.Store(true)
	return d, nil
}

// change tells that there is something new to see, if nobody has heard so yet.
func (d *Demo) change() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// processNews passes on what happens to a process. While nothing else is to be seen, it is also reported when it
// is not what was to be expected.
func (d *Demo) processNews(name, what string, wrong bool) {
	d.tell(name, what, wrong)
	for _, region := range names {
		if name == operatorOf(region) {
			d.node.Look(region, name)
		}
	}
	if wrong && !d.started.Load() {
		d.options.Report(name + " " + what)
	}
}

// tell notes that something happened.
func (d *Demo) tell(about, what string, warning bool) {
	const keep = 1000
	d.mu.Lock()
	d.told++
	d.events = append(d.events, view.Event{Number: d.told, At: time.Now(), About: about, What: what, Warning: warning})
	d.events = d.events[max(0, len(d.events)-keep):]
	d.mu.Unlock()
	d.change()
}

// Changed is told when there is something new in State.
func (d *Demo) Changed() <-chan struct{} { return d.changed }

// Endpoint is where the system is found, whichever of its members are there.
func (d *Demo) Endpoint() string { return "http://" + d.front.Address() }

// Stop ends everything in good order, and by force when ctx ends before. The operators go first: without them nobody
// takes the end of a member for a fault.
func (d *Demo) Stop(ctx context.Context) {
	d.cancel()
	d.operators.Close(ctx)
	d.agents.Close(ctx)
	if d.front != nil {
		d.front.Close()
	}
	d.background.Wait()
	for _, port := range d.ports {
		port.Release()
	}
}

// Kill ends everything at once.
func (d *Demo) Kill() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	d.Stop(ended)
}
