//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/hack/node/internal/config"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/host"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/pidfile"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/progress"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/sandbox"
)

type upOptions struct {
	*options
	assets, images string
	progress       *progress.Printer
}

func newUp(shared *options) *cobra.Command {
	o := &upOptions{options: shared, progress: progress.New(os.Stdout, time.Now)}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the node, unless it runs, and wait until it is ready",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	command.Flags().StringVar(&o.assets, "assets", os.Getenv("KUBEBUILDER_ASSETS"), "folder with Kubernetes' programs")
	command.Flags().StringVar(&o.images, "images", "bin/images", "folder with the images to load, including pause.tar")
	return command
}

func (o *upOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	unlock, err := take(ctx, o.folder)
	if err != nil {
		return err
	}
	defer unlock()
	existing, err := pidfile.Read(o.folder.PIDFile())
	if err != nil {
		return err
	}
	if existing.Alive() {
		return o.join(ctx, existing)
	}

	began := time.Now()
	o.progress.Printf("Starting a Kubernetes node in namespaces of its own; its folder is %s", o.folder)
	if err := o.prepare(existing); err != nil {
		return err
	}
	started, err := o.start()
	if err != nil {
		return err
	}
	if err := o.finish(ctx, started, os.Stdout); err != nil {
		return errors.Join(err, o.abandon(started))
	}
	o.progress.Printf("The node is up after %.0f s. %s", time.Since(began).Seconds(), o.usage())
	return nil
}

// check fails before any change if something is missing.
func (o *upOptions) check() error {
	var err error
	if o.assets != "" {
		// The node mounts folders, not links to them.
		if o.assets, err = filepath.EvalSymlinks(o.assets); err == nil {
			o.assets, err = filepath.Abs(o.assets)
		}
	}
	return errors.Join(err, host.Check(o.assets, o.pauseImage()))
}

func (o *upOptions) pauseImage() string { return filepath.Join(o.images, "pause.tar") }

// join waits for a node that runs already, perhaps started by an 'up' that was killed.
func (o *upOptions) join(ctx context.Context, existing pidfile.Info) error {
	if err := o.finish(ctx, existing, io.Discard); err != nil {
		return err
	}
	if err := o.healthy(ctx); err != nil {
		return fmt.Errorf("the node runs as process %d, but %w: see %s, then stop it with 'node down'", existing.PID, err, o.folder.Logs())
	}
	o.progress.Printf("The node is already up. %s", o.usage())
	return nil
}

// prepare creates the files and the network that the node needs.
func (o *upOptions) prepare(crashed pidfile.Info) error {
	if crashed.PID != 0 {
		o.progress.Printf("  The last node ended without 'down': removing its files and cgroups")
	}
	if err := errors.Join(host.RemoveCgroup(o.folder.Cgroup()), empty(o.folder)); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(o.folder.Logs(), 0o700), copyProgram(o.folder)); err != nil {
		return err
	}
	if err := o.install(); err != nil {
		return err
	}
	if err := o.progress.Step("checking the kernel's features", func() error {
		return sandbox.Probe(o.folder, "probe", "--dir", string(o.folder))
	}); err != nil {
		return err
	}
	return o.writeConfig()
}

func (o *upOptions) install() error {
	missing := host.MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	err := o.progress.Step("installing the packages "+names, func() error { return host.Install(missing, o.folder.Log("apt")) })
	if err != nil {
		return err
	}
	o.progress.Printf("  These packages remain after the node; their services were not started")
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		o.progress.Printf("  The next boot starts containerd, as its package enables it; 'systemctl disable containerd' prevents that")
	}
	if missing := host.MissingPackages(); len(missing) > 0 {
		return fmt.Errorf("after the installation of %s, this machine lacks what should be in %s", names, strings.Join(missing, ", "))
	}
	return nil
}

func (o *upOptions) writeConfig() error {
	plugins, err := host.FindPlugins()
	if err != nil {
		return err
	}
	pause, err := imageName(o.pauseImage())
	if err != nil {
		return err
	}
	return config.Node{Folder: o.folder, Assets: o.assets, CNIPlugins: plugins, SandboxImage: pause}.Write()
}

// start starts the node's first process, and writes its PID file.
func (o *upOptions) start() (pidfile.Info, error) {
	args := []string{"init", "--dir", string(o.folder), "--assets", o.assets}
	began, err := sandbox.Start(o.folder, args...)
	if err != nil {
		return pidfile.Info{}, err
	}
	defer began.Abandon()
	started, err := pidfile.Of(began.PID, o.assets)
	if err != nil {
		return pidfile.Info{}, err
	}
	if err := started.Write(o.folder.PIDFile()); err != nil {
		return pidfile.Info{}, err
	}
	return started, began.Release()
}

// finish copies the log of the start to out until the node is ready, and loads the images.
func (o *upOptions) finish(ctx context.Context, started pidfile.Info, out io.Writer) error {
	if err := o.follow(ctx, started, out); err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(o.images, "*.tar"))
	if err != nil {
		return err
	}
	return o.progress.Step(fmt.Sprintf("loading %d images", len(images)), func() error {
		return load(ctx, started, images)
	})
}

// abandon ends a node that did not become ready. Its folder remains, with the logs.
func (o *upOptions) abandon(started pidfile.Info) error {
	if err := errors.Join(kill(started), host.RemoveCgroup(o.folder.Cgroup())); err != nil {
		return err
	}
	o.progress.Printf("\nThe node did not become ready and was ended. Its logs are in %s until the next 'up' or 'down'", o.folder.Logs())
	return nil
}
