package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/discovery"

	"github.com/ringmaster-project/ringmaster/internal/controlplane"
)

const (
	startLimit = 3 * time.Minute
	stopLimit  = 15 * time.Second
)

// Options say what to run and where.
type Options struct {
	// Assets is the folder with Kubernetes' programs.
	Assets string
	// DataDir is kept at the end. Without one, the data is thrown away.
	DataDir string
	// Port is the API server's; 0 is the last one of the same folder, or a free one.
	Port int
	// Out is where a person reads what happens.
	Out io.Writer
}

// Run runs until ctx ends, which is no error, or something fails.
func Run(ctx context.Context, options Options) (err error) {
	if options.Port < 0 || options.Port > 65535 {
		return fmt.Errorf("the port %d does not exist: choose one from 1 to 65535, or 0 for a free one", options.Port)
	}
	folder, err := openFolder(options.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.close()) }()

	cp, err := start(ctx, options, folder)
	if err != nil {
		if ctx.Err() != nil {
			return nil // ended by the user before it was up
		}
		return withLogs(folder, err)
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(options.Out, "\nStopping. Ctrl-C again ends everything at once.")
	case err = <-cp.Failed():
		err = withLogs(folder, err)
	}
	return errors.Join(err, stop(options, cp))
}

// withLogs keeps the logs, if there are any, for who wants to know why something failed.
func withLogs(folder *folder, err error) error {
	logs := filepath.Join(folder.path, "logs")
	if entries, _ := os.ReadDir(logs); len(entries) == 0 {
		return err
	}
	return errors.Join(fmt.Errorf("%w\nAll logs are in %s", err, logs), folder.keep())
}

func start(ctx context.Context, options Options, folder *folder) (*controlplane.ControlPlane, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Assets:            options.Assets,
		Dir:               folder.path,
		ControllerManager: true,
		Scheduler:         true,
		Port:              options.Port,
		Durable:           !folder.temporary,
		Report: func(step string) {
			fmt.Fprintf(options.Out, "%5.1fs  %s\n", time.Since(began).Seconds(), step)
		},
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(options.Out, "%5.1fs  ready\n\n", time.Since(began).Seconds())
	if err := errors.Join(folder.announce(state{PID: os.Getpid(), Kubeconfig: cp.Kubeconfig}), greet(options, folder, cp)); err != nil {
		cp.Kill()
		return nil, err
	}
	return cp, nil
}

// greet tells the user where everything is and what to try.
func greet(options Options, folder *folder, cp *controlplane.ControlPlane) error {
	client, err := discovery.NewDiscoveryClientForConfig(cp.RESTConfig())
	if err != nil {
		return err
	}
	version, err := client.ServerVersion()
	if err != nil {
		return fmt.Errorf("asking the API server for its version: %w", err)
	}
	fate := "thrown away at the end; keep it with --data-dir"
	if !folder.temporary {
		fate = "kept for the next time"
	}
	kubectl := quote(filepath.Join(options.Assets, "kubectl"))
	_, err = fmt.Fprintf(options.Out, `Kubernetes %s is up at %s.
Its data is in %s: %s.
There is no node yet, so Pods stay Pending.

In another terminal:

  export KUBECONFIG=%s
  %[6]s version
  %[6]s create deployment hello --image=hello
  %[6]s get deployments,replicasets -A

Ctrl-C stops everything.
`, version.GitVersion, cp.URL(), folder.path, fate, quote(cp.Kubeconfig), kubectl)
	return err
}

// quote makes a path safe to paste into a shell.
func quote(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,=@%:", r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

func stop(options Options, cp *controlplane.ControlPlane) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := cp.Stop(ctx); err != nil {
		return err
	}
	fmt.Fprintf(options.Out, "Stopped in %.1f s.\n", time.Since(began).Seconds())
	return nil
}
