package regions

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
)

// List returns the status of all processes.
func (d *Demo) List() []control.Process { return append(d.operators.List(), d.agents.List()...) }

// Do carries out a command, and returns a message about the result.
func (d *Demo) Do(ctx context.Context, request control.Request, _ func(string)) (string, error) {
	switch request.Command {
	case control.Restart:
		return d.restart(ctx)
	case control.Replace:
		return d.replace(ctx)
	case control.Scale, control.Websites:
		return "", fmt.Errorf("'%s' is only available with --example webhosting", request.Command)
	}
	owner, err := d.supervisorOf(request.Name)
	if err != nil {
		return "", err
	}
	return owner.Do(request)
}

// supervisorOf returns the supervisor of a process.
func (d *Demo) supervisorOf(name string) (*supervisor.Supervisor, error) {
	operators, agents := d.operators.Names(), d.agents.Names()
	switch {
	case slices.Contains(operators, name):
		return d.operators, nil
	case slices.Contains(agents, name):
		return d.agents, nil
	}
	return nil, supervisor.NotFoundError(name, append(operators, agents...))
}
