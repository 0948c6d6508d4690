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

// The examples that run on the control plane.
const (
	// ExampleNone is a control plane without an example.
	ExampleNone = "none"
	// ExampleWebhosting is the sample operator in several instances that share the work.
	ExampleWebhosting = "webhosting"
	// ExampleEtcdcluster is an etcd cluster in several regions, whose operators coordinate
	// disruptive actions.
	ExampleEtcdcluster = "etcdcluster"
)

// Options configure the control plane and the example.
type Options struct {
	// Assets is the folder with the programs of Kubernetes, Programs the one with ours.
	Assets, Programs string
	// DataDir is the data folder, which is kept at the end. If it is empty, a temporary folder is
	// used.
	DataDir string
	// Port is the port of the API server. 0 is the port of the last run in the same folder, or a
	// free port.
	Port int
	// Example is the example to run. Mode, Shards, Websites and PagePort are its options.
	Example                    string
	Mode                       string
	Shards, Websites, PagePort int
	// In and Out are standard input and output. If they are a terminal and Plain is false, the live
	// view is shown.
	In    *os.File
	Out   io.Writer
	Plain bool
}

// validate returns an error for options that cannot be used.
func (o Options) validate() error {
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port %d is out of range: choose 1 to 65535, or 0 for a free port", o.Port)
	}
	switch o.Example {
	case ExampleNone:
		return nil
	case ExampleWebhosting:
		return o.webhostingOptions().Validate()
	case ExampleEtcdcluster:
		return o.regionsOptions().Validate()
	}
	return fmt.Errorf("unknown example %q (available: %s, %s, or %s for only the control plane)", o.Example, ExampleWebhosting, ExampleEtcdcluster, ExampleNone)
}

// run is a running demo.
type run struct {
	Options
	folder     *folder
	plane      *controlplane.ControlPlane
	example    example // nil without an example
	kubernetes string  // version of the API server
	startedAt  time.Time
}

// Run runs until ctx ends, and returns nil then, or until something fails.
func Run(ctx context.Context, options Options) (err error) {
	if err := options.validate(); err != nil {
		return err
	}
	folder, err := openFolder(options.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.close()) }()
	r := &run{Options: options, folder: folder, startedAt: time.Now()}
	if options.Example != ExampleNone {
		restore, err := redirectLogs(folder.path)
		if err != nil {
			return err
		}
		defer restore()
	}
	if err := r.startPlane(ctx); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(r.Out, "\nStopped during the start.")
			return nil
		}
		return withLogs(folder, err)
	}
	// If a process of the control plane exits by itself, everything is stopped.
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	go func() {
		select {
		case err := <-r.plane.Failed():
			fail(err)
		case <-running.Done():
		}
	}()
	err = r.runExample(running)
	if cause := context.Cause(running); ctx.Err() == nil && cause != nil {
		err = cause
	} else if ctx.Err() != nil {
		err = nil // the user has stopped it
	}
	if err != nil {
		err = withLogs(folder, err)
	} else {
		fmt.Fprintln(r.Out, "\nStopping. Press Ctrl-C again to stop immediately.")
	}
	return errors.Join(err, r.stop(err == nil))
}

// withLogs keeps the logs, if there are any, and adds their folder to the error.
func withLogs(folder *folder, err error) error {
	logs := filepath.Join(folder.path, "logs")
	if entries, _ := os.ReadDir(logs); len(entries) == 0 {
		return err
	}
	return errors.Join(fmt.Errorf("%w\nThe logs are in %s", err, logs), folder.keep())
}

// report prints a step of the start.
func (r *run) report(step string) {
	fmt.Fprintf(r.Out, "%5.1fs  %s\n", time.Since(r.startedAt).Seconds(), step)
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

// fast raises the client-side rate limits, so that hundreds of pods are created quickly.
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
		return "", fmt.Errorf("reading the version of the API server: %w", err)
	}
	return found.GitVersion, nil
}

// stop stops everything, gracefully if nothing has failed.
func (r *run) stop(gracefully bool) error {
	startedAt := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if r.example != nil {
		if gracefully {
			r.example.Stop(ctx)
		} else {
			r.example.Kill() // a handover needs the API server
		}
	}
	if err := r.plane.Stop(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "Stopped in %.1f s.\n", time.Since(startedAt).Seconds())
	return nil
}
