package regions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/supervisor"
)

// Do does what somebody asks for, and returns what came of it.
func (d *Demo) Do(ctx context.Context, request control.Request, _ func(string)) (string, error) {
	switch request.Command {
	case control.Restart:
		return d.restart(ctx)
	case control.Replace:
		return d.replace(ctx)
	case control.Scale, control.Websites:
		return "", fmt.Errorf("%s is for the example webhosting; here there are: restart, replace, kill, stop, pause, resume", request.Command)
	}
	processes, err := d.crewOf(request.Name)
	if err != nil {
		return "", err
	}
	return processes.Do(request)
}

// crewOf finds who looks after a process.
func (d *Demo) crewOf(name string) (*supervisor.Crew, error) {
	operators, agents := d.operators.Names(), d.agents.Names()
	switch {
	case slices.Contains(operators, name):
		return d.operators, nil
	case slices.Contains(agents, name):
		return d.agents, nil
	}
	return nil, fmt.Errorf("there is no %q; there are: %s", name, strings.Join(append(operators, agents...), ", "))
}
