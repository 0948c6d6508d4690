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
	replicas = 2
	// grace is how long a process may take to end: a shard hands its objects over before.
	grace = 30 * time.Second
	// patience is how long somebody waits for an answer.
	patience = 10 * time.Second
	// startLimit is how long the start may take, perWebsite how much longer for each website.
	startLimit = 3 * time.Minute
	perWebsite = time.Second
)

// Options say what to show, and on what.
type Options struct {
	cluster.Options
	// Mode is how the instances share the work: one of the modes of package view.
	Mode string
	// Shards is how many instances there are at first, Websites how many objects at least.
	Shards, Websites int
	// PagePort is where the pages are served, 0 is a free one.
	PagePort int
	// Report is told each step as it begins.
	Report func(step string)
	// Hints are what a person may try, told where the pages are.
	Hints func(pages string) view.Hints
}

// Validate tells what cannot be shown.
func (o Options) Validate() error {
	switch {
	case len(programs(o.Mode)) == 0:
		return fmt.Errorf("there is no mode %q: choose %s, %s or %s", o.Mode, view.ModeLead, view.ModeShard, view.ModeInProcess)
	case o.Shards < 0 || o.Shards > mostInstances:
		return fmt.Errorf("%d shards cannot be run: choose from 0 to %d", o.Shards, mostInstances)
	case o.Websites < 0 || o.Websites > mostWebsites:
		return fmt.Errorf("%d websites cannot be shown: choose from 0 to %d", o.Websites, mostWebsites)
	case o.PagePort < 0 || o.PagePort > 65535:
		return fmt.Errorf("the page port %d does not exist: choose one from 1 to 65535, or 0 for a free one", o.PagePort)
	}
	return nil
}

// programs are those that a mode runs.
func programs(mode string) []string {
	switch mode {
	case view.ModeShard:
		return []string{sharder, webhostingExample.program}
	case view.ModeLead, view.ModeInProcess:
		return []string{webhostingExample.program}
	}
	return nil
}

// Demo is an example that was started.
type Demo struct {
	*cluster.Stage
	options Options
	example example
	began   time.Time

	instances, sharders *supervisor.Crew
	scene               *observer.Scene
	node                *fakenode.Node
	balancer            *balancer.Balancer
	pages               *pageServer
	hints               view.Hints
	changed             chan struct{}
	creating            sync.Mutex
	// webhooks are where the replicas of the sharder serve, by their names. It is written only by Start.
	webhooks map[string]string
	ports    []*process.Port

	started atomic.Bool
	// background is what runs until Stop.
	background sync.WaitGroup
	ctx        context.Context
	cancel     context.CancelFunc
}

// Start starts everything, and waits until all websites are ready that can be. Ended early, it leaves nothing
// behind.
func Start(ctx context.Context, options Options) (*Demo, error) {
	d := &Demo{
		options: options, example: webhostingExample, began: time.Now(),
		changed: make(chan struct{}, 1), webhooks: map[string]string{},
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	told := supervisor.Options{Report: d.tell, Changed: d.change, Gone: d.forget, Grace: grace, Back: "'resume' or 'scale'"}
	d.instances, d.sharders = supervisor.New(told), supervisor.New(told)
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

// tell passes on what happens to a process. While nothing else is to be seen, it is also reported when it
// is not what was to be expected.
func (d *Demo) tell(name, what string, wrong bool) {
	d.scene.Tell(name, what, wrong)
	d.node.Look(d.namespaceOf(name), name)
	if wrong && !d.started.Load() {
		d.options.Report(name + " " + what)
	}
}

// forget removes the Pod of a process that is gone for good. It needs no precondition: nobody else makes
// Pods of that name, and one that is needed again is made again. At the end of all, they stay for the next
// time.
func (d *Demo) forget(name string) {
	if d.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	if err := d.Clientset.CoreV1().Pods(d.namespaceOf(name)).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		d.scene.Tell(name, "its Pod cannot be deleted: "+err.Error(), true)
	}
}

// State is how everything is now.
func (d *Demo) State() view.State {
	state := view.State{Now: time.Now(), Up: d.began, Kubernetes: d.options.Kubernetes, Hints: d.hints}
	d.scene.Show(&state, d.instances.Members(), d.sharders.Members())
	return state
}

// Changed is told when there is something new in State.
func (d *Demo) Changed() <-chan struct{} { return d.changed }

// Stop ends everything in good order, and by force when ctx ends before.
func (d *Demo) Stop(ctx context.Context) {
	d.cancel()
	d.instances.Close(ctx)
	d.sharders.Close(ctx)
	d.end()
}

// Kill ends everything at once.
func (d *Demo) Kill() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	d.Stop(ended)
}

// end ends what is no process.
func (d *Demo) end() {
	if d.pages != nil {
		d.pages.close()
	}
	if d.balancer != nil {
		d.balancer.Close()
	}
	d.background.Wait()
	for _, port := range d.ports {
		port.Release()
	}
}
