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

	"github.com/ringmaster-project/ringmaster/hack/node/internal/enclosure"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/machine"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/record"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/render"
	"github.com/ringmaster-project/ringmaster/hack/node/internal/steps"
)

type upOptions struct {
	*options
	assets, images string
	steps          *steps.Printer
}

func newUp(shared *options) *cobra.Command {
	o := &upOptions{options: shared, steps: steps.New(os.Stdout, time.Now)}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start the node, unless it runs already, and wait until it is ready",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	command.Flags().StringVar(&o.assets, "assets", os.Getenv("KUBEBUILDER_ASSETS"), "the folder with Kubernetes' programs")
	command.Flags().StringVar(&o.images, "images", "bin/images", "the folder with the images to load, pause.tar among them")
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
	existing, err := record.Read(o.folder.Record())
	if err != nil {
		return err
	}
	if existing.Alive() {
		return o.join(ctx, existing)
	}

	begun := time.Now()
	o.steps.Say("Starting a Kubernetes node in namespaces of its own; its folder is %s.", o.folder)
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
	o.steps.Say("The node is up after %.0f s. %s", time.Since(begun).Seconds(), o.usage())
	return nil
}

// check finds all that is missing before anything is changed.
func (o *upOptions) check() error {
	var err error
	if o.assets != "" {
		// The node sees folders, not the links that led to them.
		if o.assets, err = filepath.EvalSymlinks(o.assets); err == nil {
			o.assets, err = filepath.Abs(o.assets)
		}
	}
	return errors.Join(err, machine.Check(o.assets, o.pauseImage()))
}

func (o *upOptions) pauseImage() string { return filepath.Join(o.images, "pause.tar") }

// join is for a node that runs already, or that an 'up' that was killed has left starting.
func (o *upOptions) join(ctx context.Context, existing record.Record) error {
	if err := o.finish(ctx, existing, io.Discard); err != nil {
		return err
	}
	if err := o.healthy(ctx); err != nil {
		return fmt.Errorf("the node runs as process %d, but %w: look into %s, then stop it with 'node down'", existing.PID, err, o.folder.Logs())
	}
	o.steps.Say("The node is up already. %s", o.usage())
	return nil
}

// prepare makes everything that the node needs to start.
func (o *upOptions) prepare(crashed record.Record) error {
	if crashed.PID != 0 {
		o.steps.Say("  The last node ended without 'down': removing what it left.")
	}
	if err := errors.Join(machine.RemoveCgroup(o.folder.Cgroup()), empty(o.folder)); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(o.folder.Logs(), 0o700), copyProgram(o.folder)); err != nil {
		return err
	}
	if err := o.install(); err != nil {
		return err
	}
	if err := o.steps.Do("trying what the kernel can do", func() error {
		return enclosure.Probe(o.folder, "probe", "--dir", string(o.folder))
	}); err != nil {
		return err
	}
	return o.render()
}

func (o *upOptions) install() error {
	missing := machine.MissingPackages()
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	err := o.steps.Do("installing the packages "+names, func() error { return machine.Install(missing, o.folder.Log("apt")) })
	if err != nil {
		return err
	}
	o.steps.Say("  These packages stay when the node goes; their services were not started.")
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		o.steps.Say("  The next boot starts containerd, as its package wants it; 'systemctl disable containerd' prevents that.")
	}
	if still := machine.MissingPackages(); len(still) > 0 {
		return fmt.Errorf("after installing %s, this machine still lacks what should be in %s", names, strings.Join(still, ", "))
	}
	return nil
}

func (o *upOptions) render() error {
	plugins, err := machine.FindPlugins()
	if err != nil {
		return err
	}
	pause, err := imageName(o.pauseImage())
	if err != nil {
		return err
	}
	return render.Node{Folder: o.folder, Assets: o.assets, CNIPlugins: plugins, SandboxImage: pause}.Write()
}

// start starts the node's first process. From here on there is a node.
func (o *upOptions) start() (record.Record, error) {
	args := []string{"init", "--dir", string(o.folder), "--assets", o.assets}
	begun, err := enclosure.Start(o.folder, args...)
	if err != nil {
		return record.Record{}, err
	}
	defer begun.Abandon()
	started, err := record.Of(begun.PID, o.assets)
	if err != nil {
		return record.Record{}, err
	}
	if err := started.Write(o.folder.Record()); err != nil {
		return record.Record{}, err
	}
	return started, begun.Release()
}

// finish shows on out how the node starts, until it is ready, and gives it its images.
func (o *upOptions) finish(ctx context.Context, started record.Record, out io.Writer) error {
	if err := o.follow(ctx, started, out); err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(o.images, "*.tar"))
	if err != nil {
		return err
	}
	return o.steps.Do(fmt.Sprintf("loading %d images", len(images)), func() error {
		return load(ctx, started, images)
	})
}

// abandon ends a node that did not come up. Its folder stays, for who wants to know why.
func (o *upOptions) abandon(started record.Record) error {
	if err := errors.Join(kill(started), machine.RemoveCgroup(o.folder.Cgroup())); err != nil {
		return err
	}
	o.steps.Say("\nThe node did not come up and was ended. Its logs are in %s until the next 'up' or 'down'.", o.folder.Logs())
	return nil
}
