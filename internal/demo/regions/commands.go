package regions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/internal/demo/control"
	"github.com/ringmaster-project/ringmaster/internal/demo/crew"
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
	crew, err := d.crewOf(request.Name)
	if err != nil {
		return "", err
	}
	return crew.Do(request)
}

// crewOf finds who looks after a process.
func (d *Demo) crewOf(name string) (*crew.Crew, error) {
	operators, agents := d.operators.Names(), d.agents.Names()
	switch {
	case slices.Contains(operators, name):
		return d.operators, nil
	case slices.Contains(agents, name):
		return d.agents, nil
	}
	return nil, fmt.Errorf("there is no %q; there are: %s", name, strings.Join(append(operators, agents...), ", "))
}
