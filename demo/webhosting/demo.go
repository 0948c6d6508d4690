package webhosting

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ringmaster-project/ringmaster/demo/balancer"
	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/fakenode"
	"github.com/ringmaster-project/ringmaster/demo/observer"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/internal/process"
)

const (
	sharderReplicas = 2
	// gracePeriod is how long a process may take to exit, which includes the handover of a shard.
	gracePeriod = 30 * time.Second
	// requestTimeout is the limit for one request.
	requestTimeout = 10 * time.Second
	// startLimit is the limit for the start. It is extended by perWebsite for each website.
	startLimit = 3 * time.Minute
	perWebsite = time.Second
)

// Options configure the demo.
type Options struct {
	cluster.Options
	// Mode is how the instances share the work: a mode of package view.
	Mode string
	// Shards is the initial number of instances, Websites the minimum number of websites.
	Shards, Websites int
	// PagePort is the port of the websites. 0 is a free port.
	PagePort int
	// Report receives each step of the start as it begins.
	Report func(step string)
	// Hints returns the hints of the live view, given the URL of the websites.
	Hints func(pages string) view.Hints
}

// Validate returns an error for options that cannot be used.
func (o Options) Validate() error {
	switch {
	case len(programs(o.Mode)) == 0:
		return fmt.Errorf("unknown mode %q (available: %s, %s, %s)", o.Mode, view.ModeLead, view.ModeShard, view.ModeInProcess)
	case o.Shards < 0 || o.Shards > maxInstances:
		return fmt.Errorf("--shards %d is out of range: choose 0 to %d", o.Shards, maxInstances)
	case o.Websites < 0 || o.Websites > maxWebsites:
		return fmt.Errorf("--websites %d is out of range: choose 0 to %d", o.Websites, maxWebsites)
	case o.PagePort < 0 || o.PagePort > 65535:
		return fmt.Errorf("--page-port %d is out of range: choose 1 to 65535, or 0 for a free port", o.PagePort)
	}
	return nil
}

// programs returns the names of the programs that a mode runs.
func programs(mode string) []string {
	switch mode {
	case view.ModeShard:
		return []string{sharder, exampleWebhosting.program}
	case view.ModeLead, view.ModeInProcess:
		return []string{exampleWebhosting.program}
	}
	return nil
}

// Demo is the running demo.
type Demo struct {
	*cluster.Cluster
	options   Options
	example   example
	startedAt time.Time

	instances, sharders *supervisor.Supervisor
	observer            *observer.Observer
	node                *fakenode.Node
	balancer            *balancer.Balancer
	server              *siteServer
	hints               view.Hints
	changed             chan struct{}
	creating            sync.Mutex
	// webhookAddresses has the addresses of the sharder's replicas by name. Only Start writes it.
	webhookAddresses map[string]string
	ports            []*process.Port

	started atomic.Bool
	// background are the goroutines that run until Stop.
	background sync.WaitGroup
	ctx        context.Context
	cancel     context.CancelFunc
}

// Start starts everything, and waits until all websites are ready or have failed. If it fails, it
// leaves nothing behind.
func Start(ctx context.Context, options Options) (*Demo, error) {
	d := &Demo{
		options: options, example: exampleWebhosting, startedAt: time.Now(),
		changed: make(chan struct{}, 1), webhookAddresses: map[string]string{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	supervision := supervisor.Options{Report: d.reportProcess, Changed: d.change, Removed: d.deletePod, GracePeriod: gracePeriod, ResumeHint: "'resume' or 'scale'"}
	d.instances, d.sharders = supervisor.New(supervision), supervisor.New(supervision)
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
	d.observer.RecordEvent(name, message, failure)
	d.node.Enqueue(d.namespaceOf(name), name)
	if failure && !d.started.Load() {
		d.options.Report(name + " " + message)
	}
}

// deletePod deletes the Pod of a process that was removed. It needs no precondition: only the demo
// creates Pods of that name, and creates them again when needed. When the demo stops, the Pods stay
// for the next run.
func (d *Demo) deletePod(name string) {
	if d.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, requestTimeout)
	defer cancel()
	if err := d.Clientset.CoreV1().Pods(d.namespaceOf(name)).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		d.observer.RecordEvent(name, "cannot delete its Pod: "+err.Error(), true)
	}
}

// State returns the current state for the live view.
func (d *Demo) State() view.State {
	state := view.State{Now: time.Now(), StartedAt: d.startedAt, Kubernetes: d.options.Kubernetes, Hints: d.hints}
	d.observer.FillState(&state, d.instances.Processes(), d.sharders.Processes())
	return state
}

// Changed receives a value after State has changed.
func (d *Demo) Changed() <-chan struct{} { return d.changed }

// Stop stops everything gracefully, and kills processes that still run when ctx ends.
func (d *Demo) Stop(ctx context.Context) {
	d.cancel()
	d.instances.Close(ctx)
	d.sharders.Close(ctx)
	d.stopServers()
}

// Kill stops everything at once.
func (d *Demo) Kill() {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	d.Stop(canceled)
}

// stopServers stops the servers and goroutines of this process.
func (d *Demo) stopServers() {
	if d.server != nil {
		d.server.close()
	}
	if d.balancer != nil {
		d.balancer.Close()
	}
	d.background.Wait()
	for _, port := range d.ports {
		port.Release()
	}
}
