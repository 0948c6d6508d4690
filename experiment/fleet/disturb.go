package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/scenario"
	"github.com/ringmaster-project/ringmaster/internal/demo/crew"
)

// Disturb lets something happen to the system, and returns what that was.
func (f *Fleet) Disturb(ctx context.Context, event scenario.Event) (string, error) {
	if event.What == scenario.RestartAPI {
		if f.options.Plane == nil {
			return "", errors.New("the API server of this cluster is not ours to restart")
		}
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
		f.halted(name)
		return name + " is killed", f.crew.Kill(name, 0)
	case scenario.Leave:
		return name + " leaves", f.crew.Stop(name)
	case scenario.Roll:
		return name + " is replaced", f.roll(ctx, name)
	}
	return "", fmt.Errorf("nobody knows how to %s", event.What)
}

// choose finds the instance that something happens to.
func (f *Fleet) choose(number int) (string, error) {
	there := f.instances()
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

func (f *Fleet) halted(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.halts = append(f.halts, Halt{name, time.Now()})
}

// roll starts a new instance, as a Deployment does, and stops an old one when the new one takes its part.
func (f *Fleet) roll(ctx context.Context, old string) error {
	if err := f.join(); err != nil {
		return err
	}
	if err := f.awaitReady(ctx); err != nil {
		return err
	}
	if err := f.crew.Stop(old); err != nil {
		return err
	}
	const interval = 100 * time.Millisecond
	for {
		members := f.crew.Members()
		at := slices.IndexFunc(members, func(m crew.Member) bool { return m.Name == old })
		if at < 0 || members[at].Phase == crew.Stopped {
			return nil
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
