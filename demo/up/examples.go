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

// example is an example that runs on the control plane.
type example interface {
	control.Demo
	// Stop stops the example gracefully, Kill stops it at once.
	Stop(ctx context.Context)
	Kill()

	// summary returns the current state in one line, about describes the example.
	summary() string
	about() string
	hints() view.Hints
	// log prints changes, live shows the live view, until ctx ends or the user quits.
	log(ctx context.Context, out io.Writer)
	live(ctx context.Context, screen view.Screen)
}

func colours() bool { return os.Getenv("NO_COLOR") == "" }

// webhostingExample is the sample operator in several instances.
type webhostingExample struct {
	*webhosting.Demo
	run *run
}

func (e webhostingExample) summary() string   { return view.Summary(e.State()) }
func (e webhostingExample) hints() view.Hints { return e.run.websiteHints(e.Pages()) }

func (e webhostingExample) about() string {
	return fmt.Sprintf(`The websites are at %s. The demo serves them from the objects in the cluster; its node is fake
and runs no containers.`, e.Pages())
}

func (e webhostingExample) log(ctx context.Context, out io.Writer) { view.Log(ctx, e, out, e.State()) }

func (e webhostingExample) live(ctx context.Context, screen view.Screen) {
	view.Live(ctx, e, screen, e, colours())
}

// etcdclusterExample is an etcd cluster in several regions.
type etcdclusterExample struct {
	*regions.Demo
	run *run
}

func (e etcdclusterExample) summary() string   { return view.RegionsSummary(e.State()) }
func (e etcdclusterExample) hints() view.Hints { return e.run.regionHints(e.Endpoint()) }

func (e etcdclusterExample) about() string {
	return fmt.Sprintf(`The etcd cluster %s is at %s. The address stays the same when members change.
It has a member in each of three regions. A region is a namespace with an operator and an agent.`, e.State().System, e.Endpoint())
}

func (e etcdclusterExample) log(ctx context.Context, out io.Writer) {
	view.LogRegions(ctx, e, out, e.State())
}

func (e etcdclusterExample) live(ctx context.Context, screen view.Screen) {
	view.LiveRegions(ctx, e, screen, e, colours())
}

// startExample starts the example, and waits until it is ready.
func (r *run) startExample(ctx context.Context) error {
	base := cluster.Options{Plane: r.plane, Kubernetes: r.kubernetes, Dir: r.folder.path, Programs: r.Programs}
	if r.Example == ExampleEtcdcluster {
		options := r.regionsOptions()
		options.Options, options.Report, options.Hints = base, r.report, r.regionHints
		started, err := regions.Start(ctx, options)
		if err != nil {
			return err
		}
		r.example = etcdclusterExample{started, r}
		return nil
	}
	options := r.webhostingOptions()
	options.Options, options.Report, options.Hints = base, r.report, r.websiteHints
	started, err := webhosting.Start(ctx, options)
	if err != nil {
		return err
	}
	r.example = webhostingExample{started, r}
	return nil
}

func (o Options) webhostingOptions() webhosting.Options {
	return webhosting.Options{Mode: o.Mode, Shards: o.Shards, Websites: o.Websites, PagePort: o.PagePort}
}

func (o Options) regionsOptions() regions.Options {
	return regions.Options{Mode: o.Mode, Etcd: filepath.Join(o.Assets, controlplane.Etcd)}
}
