package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/demo/supervisor"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// Disturb executes an event, and returns a description of it.
func (f *Fleet) Disturb(ctx context.Context, event scenario.Event) (string, error) {
	if event.Disturbance == scenario.RestartAPI {
		if f.options.Plane == nil {
			return "", errors.New("cannot restart the API server of an existing cluster: run the scenario without --kubeconfig")
		}
		ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("timed out after %s", startLimit))
		defer cancel()
		if err := f.options.Plane.APIServer.Restart(ctx); err != nil {
			return "", fmt.Errorf("restarting the API server: %w", err)
		}
		return "the API server was restarted", nil
	}
	if event.Disturbance == scenario.Join {
		name := InstanceName(f.next)
		return name + " joins", f.join()
	}
	name, err := f.choose(event.Instance)
	if err != nil {
		return "", err
	}
	switch event.Disturbance {
	case scenario.Kill:
		return name + " is killed", f.kill(name)
	case scenario.Leave:
		return name + " leaves", f.supervisor.Stop(name)
	case scenario.Roll:
		return name + " is replaced", f.roll(ctx, name)
	}
	return "", fmt.Errorf("unknown disturbance %q", event.Disturbance)
}

// choose returns the instance that an event affects.
func (f *Fleet) choose(number int) (string, error) {
	running := f.running()
	switch {
	case len(running) == 0:
		return "", errors.New("no instance is running")
	case number < 0:
		return running[f.random.IntN(len(running))], nil
	case !slices.Contains(running, InstanceName(number)):
		return "", fmt.Errorf("instance %s is not running", InstanceName(number))
	}
	return InstanceName(number), nil
}

// kill kills an instance with SIGKILL, and starts another one under a new name, as a Deployment does.
func (f *Fleet) kill(name string) error {
	if f.options.Killing != nil {
		f.options.Killing(name)
	}
	const forever = 24 * time.Hour
	if err := f.supervisor.Kill(name, forever); err != nil {
		return err
	}
	if err := f.supervisor.Remove(name); err != nil {
		return err
	}
	return f.join()
}

// roll starts a new instance, and stops an old one when the new one is ready, as a Deployment does.
func (f *Fleet) roll(ctx context.Context, old string) error {
	if err := f.join(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("timed out after %s", startLimit))
	defer cancel()
	if err := f.awaitReady(ctx); err != nil {
		return err
	}
	if err := f.supervisor.Stop(old); err != nil {
		return err
	}
	const interval = 100 * time.Millisecond
	for {
		members := f.supervisor.Processes()
		i := slices.IndexFunc(members, func(m supervisor.ProcessStatus) bool { return m.Name == old })
		if i < 0 || members[i].Phase == supervisor.Stopped {
			return nil
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
