package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

const (
	startLimit = 3 * time.Minute
	stopLimit  = 15 * time.Second
)

// What can be shown on the control plane.
const (
	// ExampleNone is nothing: a bare control plane.
	ExampleNone = "none"
	// ExampleWebhosting is the sample operator, of which several instances share the work.
	ExampleWebhosting = "webhosting"
	// ExampleEtcdcluster is one system in several regions, whose operators agree before they disturb it.
	ExampleEtcdcluster = "etcdcluster"
)

// Options say what to run and where.
type Options struct {
	// Assets is the folder with Kubernetes' programs, Programs the one with ours.
	Assets, Programs string
	// DataDir is kept at the end. Without one, the data is thrown away.
	DataDir string
	// Port is the API server's; 0 is the last one of the same folder, or a free one.
	Port int
	// Example is what to show. Mode, Shards, Websites and PagePort say how, as in package demo.
	Example                    string
	Mode                       string
	Shards, Websites, PagePort int
	// In and Out are where a person types and reads. On a terminal they see a picture, unless it is to
	// be Plain.
	In    *os.File
	Out   io.Writer
	Plain bool
}

// validate tells what cannot be run, before anything is.
func (o Options) validate() error {
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("the port %d does not exist: choose one from 1 to 65535, or 0 for a free one", o.Port)
	}
	switch o.Example {
	case ExampleNone:
		return nil
	case ExampleWebhosting:
		return o.demo().Validate()
	case ExampleEtcdcluster:
		return o.regions().Validate()
	}
	return fmt.Errorf("there is no example %q: choose %s, %s, or %s for a bare control plane", o.Example, ExampleWebhosting, ExampleEtcdcluster, ExampleNone)
}

// run is an up that runs.
type run struct {
	Options
	folder     *folder
	plane      *controlplane.ControlPlane
	example    example // nil without one
	kubernetes string  // its version
	began      time.Time
}

// Run runs until ctx ends, which is no error, or something fails.
func Run(ctx context.Context, options Options) (err error) {
	if err := options.validate(); err != nil {
		return err
	}
	folder, err := openFolder(options.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.close()) }()
	r := &run{Options: options, folder: folder, began: time.Now()}
	if options.Example != ExampleNone {
		restore, err := redirectLogs(folder.path)
		if err != nil {
			return err
		}
		defer restore()
	}
	if err := r.startPlane(ctx); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(r.Out, "\nStopped before it was up.")
			return nil
		}
		return withLogs(folder, err)
	}
	// A part of the control plane that ends by itself ends everything.
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		select {
		case err := <-r.plane.Failed():
			fail(err)
		case <-running.Done():
		}
	}()
	err = r.show(running)
	if cause := context.Cause(running); ctx.Err() == nil && cause != nil {
		err = cause
	} else if ctx.Err() != nil {
		err = nil // whatever was under way, the user has ended it
	}
	if err != nil {
		err = withLogs(folder, err)
	} else {
		fmt.Fprintln(r.Out, "\nStopping. Ctrl-C again ends everything at once.")
	}
	return errors.Join(err, r.stop(err == nil))
}

// withLogs keeps the logs, if there are any, for who wants to know why something failed.
func withLogs(folder *folder, err error) error {
	logs := filepath.Join(folder.path, "logs")
	if entries, _ := os.ReadDir(logs); len(entries) == 0 {
		return err
	}
	return errors.Join(fmt.Errorf("%w\nAll logs are in %s", err, logs), folder.keep())
}

// report tells what happens during the start.
func (r *run) report(step string) {
	fmt.Fprintf(r.Out, "%5.1fs  %s\n", time.Since(r.began).Seconds(), step)
}

func (r *run) startPlane(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Assets:            r.Assets,
		Dir:               r.folder.path,
		ControllerManager: true,
		Scheduler:         true,
		Port:              r.Port,
		Durable:           !r.folder.temporary,
		ExtraArgs:         fast,
		Report:            r.report,
	})
	if err != nil {
		return err
	}
	r.plane = plane
	if r.kubernetes, err = version(plane); err != nil {
		plane.Kill()
	}
	return err
}

// fast lets hundreds of pods come at once. The defaults are for clusters in which others want to be served too.
var fast = map[string][]string{
	controlplane.ControllerManager: {"--kube-api-qps=500", "--kube-api-burst=1000"},
	controlplane.Scheduler:         {"--kube-api-qps=500", "--kube-api-burst=1000"},
}

func version(plane *controlplane.ControlPlane) (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(plane.RESTConfig())
	if err != nil {
		return "", err
	}
	found, err := client.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return found.GitVersion, nil
}

// stop ends everything, in good order if nothing has failed.
func (r *run) stop(well bool) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if r.example != nil {
		if well {
			r.example.Stop(ctx)
		} else {
			r.example.Kill() // without an API server there is nothing to hand over
		}
	}
	if err := r.plane.Stop(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "Stopped in %.1f s.\n", time.Since(began).Seconds())
	return nil
}
