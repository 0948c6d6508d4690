package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/scenario"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
)

// Disturb lets something happen to the system, and returns what that was.
func (f *Fleet) Disturb(ctx context.Context, event scenario.Event) (string, error) {
	if event.What == scenario.RestartAPI {
		if f.options.Plane == nil {
			return "", errors.New("the API server of this cluster is not ours to restart")
		}
		ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it took longer than %s", startLimit))
		defer cancel()
		if err := f.options.Plane.APIServer.Restart(ctx); err != nil {
			return "", fmt.Errorf("restarting the API server: %w", err)
		}
		return "the API server was restarted", nil
	}
	if event.What == scenario.Join {
		name := InstanceName(f.next)
		return name + " joins", f.join()
	}
	name, err := f.choose(event.Instance)
	if err != nil {
		return "", err
	}
	switch event.What {
	case scenario.Kill:
		return name + " is killed", f.kill(name)
	case scenario.Leave:
		return name + " leaves", f.crew.Stop(name)
	case scenario.Roll:
		return name + " is replaced", f.roll(ctx, name)
	}
	return "", fmt.Errorf("nobody knows how to %s", event.What)
}

// choose finds the instance that something happens to.
func (f *Fleet) choose(number int) (string, error) {
	there := f.running()
	switch {
	case len(there) == 0:
		return "", errors.New("there is no instance left")
	case number < 0:
		return there[f.random.IntN(len(there))], nil
	case !slices.Contains(there, InstanceName(number)):
		return "", fmt.Errorf("there is no %s", InstanceName(number))
	}
	return InstanceName(number), nil
}

// kill ends an instance at once. Another one takes its place under a new name, as another pod does.
func (f *Fleet) kill(name string) error {
	const forever = 24 * time.Hour
	if err := f.crew.Kill(name, forever); err != nil {
		return err
	}
	if err := f.crew.Remove(name); err != nil {
		return err
	}
	return f.join()
}

// roll starts a new instance, as a Deployment does, and stops an old one when the new one takes its part.
func (f *Fleet) roll(ctx context.Context, old string) error {
	if err := f.join(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("it took longer than %s", startLimit))
	defer cancel()
	if err := f.awaitReady(ctx); err != nil {
		return err
	}
	if err := f.crew.Stop(old); err != nil {
		return err
	}
	const interval = 100 * time.Millisecond
	for {
		members := f.crew.Processes()
		at := slices.IndexFunc(members, func(m supervisor.ProcessStatus) bool { return m.Name == old })
		if at < 0 || members[at].Phase == supervisor.Stopped {
			return nil
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
