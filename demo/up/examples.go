package up

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/regions"
	"github.com/ringmaster-project/ringmaster/demo/view"
	"github.com/ringmaster-project/ringmaster/demo/webhosting"
	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

// example is what runs on the control plane.
type example interface {
	// Do does what somebody asks for.
	Do(ctx context.Context, request control.Request, say func(string)) (string, error)
	// Stop ends all of it in good order, Kill at once.
	Stop(ctx context.Context)
	Kill()

	// summary is how it is doing, about what there is to know of it.
	summary() string
	about() string
	hints() view.Hints
	// log writes lines, live draws pictures, until ctx ends or the person quits.
	log(ctx context.Context, out io.Writer)
	live(ctx context.Context, screen view.Screen)
}

func colours() bool { return os.Getenv("NO_COLOR") == "" }

// websites are shared by instances of one operator.
type websites struct {
	*webhosting.Demo
	up *run
}

func (w websites) summary() string   { return view.Count(w.State()) }
func (w websites) hints() view.Hints { return w.up.hints(w.Pages()) }

func (w websites) about() string {
	return fmt.Sprintf(`The websites are at %s. The demo serves them from what the cluster's objects say; its
node is pretended, and runs no containers.`, w.Pages())
}

func (w websites) log(ctx context.Context, out io.Writer) { view.Log(ctx, w, out, w.State()) }

func (w websites) live(ctx context.Context, screen view.Screen) {
	view.Live(ctx, w, screen, w.Do, colours())
}

// clusters are an etcd cluster in several regions.
type clusters struct {
	*regions.Demo
	up *run
}

func (c clusters) summary() string   { return view.CountRegions(c.State()) }
func (c clusters) hints() view.Hints { return c.up.regionHints(c.Endpoint()) }

func (c clusters) about() string {
	return fmt.Sprintf(`Three regions have a member each of the etcd cluster %s, which is at %s, whichever
of its members are there. Each region is a namespace, with an operator and an agent.`, c.State().System, c.Endpoint())
}

func (c clusters) log(ctx context.Context, out io.Writer) { view.LogRegions(ctx, c, out, c.State()) }

func (c clusters) live(ctx context.Context, screen view.Screen) {
	view.LiveRegions(ctx, c, screen, c.Do, colours())
}

// start starts the example.
func (r *run) start(ctx context.Context) error {
	on := cluster.Options{Plane: r.plane, Kubernetes: r.kubernetes, Dir: r.folder.path, Programs: r.Programs}
	if r.Example == ExampleEtcdcluster {
		options := r.regions()
		options.Options, options.Report, options.Hints = on, r.report, r.regionHints
		started, err := regions.Start(ctx, options)
		if err != nil {
			return err
		}
		r.example = clusters{started, r}
		return nil
	}
	options := r.demo()
	options.Options, options.Report, options.Hints = on, r.report, r.hints
	started, err := webhosting.Start(ctx, options)
	if err != nil {
		return err
	}
	r.example = websites{started, r}
	return nil
}

func (o Options) demo() webhosting.Options {
	return webhosting.Options{Mode: o.Mode, Shards: o.Shards, Websites: o.Websites, PagePort: o.PagePort}
}

func (o Options) regions() regions.Options {
	return regions.Options{Mode: o.Mode, Etcd: filepath.Join(o.Assets, controlplane.Etcd)}
}

// regionHints are what a person may want to type about the regions.
func (r *run) regionHints(string) view.Hints {
	option := r.option()
	status := "ringmaster coordination status"
	acts, killed := "one operator restarts all members, the leader last", "another one goes on with it"
	if r.Mode == view.ModeLocal {
		acts, killed = "each operator restarts its own members, one at a time", "the others wait until it is missed"
	}
	return view.Hints{Setup: r.setup(), Try: []view.Try{
		{Command: status + " --watch", Shows: "who takes part, what is pending, who acts, what everything waits for"},
		{Command: "kubectl get etcdclusters -A -o wide", Shows: "the regions"},
		{Command: "ringmaster demo restart" + option, Shows: "an argument changes in all regions: " + acts},
		{Command: "ringmaster demo replace" + option, Shows: "a member of every region is replaced"},
		{Command: "ringmaster demo kill dc1-operator" + option, Shows: "in the middle of that: " + killed},
		{Command: "ringmaster demo pause dc2-operator" + option, Shows: "in the middle of that: the others wait for it; 'resume' wakes it up"},
		{
			Command: `kubectl patch etcdcluster orders -n dc3 --type=merge -p '{"spec":{"args":{"snapshot-count":"5000"}}}'`,
			Shows:   "a change in one region only",
		},
	}}
}

// option names what is up for commands, if they could not find it.
func (r *run) option() string {
	if r.DataDir == "" {
		return ""
	}
	return " --data-dir " + quote(r.folder.path)
}
