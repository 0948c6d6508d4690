package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/ringmaster-project/ringmaster/demo/control"
	"github.com/ringmaster-project/ringmaster/demo/up"
)

// instance is the argument of commands about one process.
const instance = "INSTANCE"

// oneArgument wants one argument, and says which one if there is none.
func oneArgument(ctx context.Context, args []string, arg, example, dir string) error {
	switch {
	case len(args) == 1:
		return nil
	case len(args) > 1:
		return fmt.Errorf("one %s at a time, as in '%s'", arg, example)
	case arg == instance:
		return fmt.Errorf("the %s is missing, as in '%s'; %s", arg, example, instances(ctx, dir))
	}
	return fmt.Errorf("the %s is missing, as in '%s'", arg, example)
}

// instances says which processes there are, or where that is to be seen.
func instances(ctx context.Context, dir string) string {
	found, err := up.Find(dir)
	if err != nil {
		return err.Error()
	}
	// Nothing has no name, so that nothing is done, and it is said what there is.
	err = control.Ask(ctx, found.Socket, control.Request{Command: control.Resume}, func(string) {})
	if err != nil {
		if _, names, are := strings.Cut(err.Error(), "there are: "); are {
			return "there are: " + names
		}
	}
	return "the live view of 'ringmaster up' has their names"
}

// invalidNumber is the error for an argument that has to be a number.
func invalidNumber(arg, example string) error {
	return fmt.Errorf("%q is not a valid NUMBER: it must be 0 or more, as in '%s'", arg, example)
}
