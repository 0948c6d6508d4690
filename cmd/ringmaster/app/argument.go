package app

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/ringmaster-project/ringmaster/internal/demo/control"
	"github.com/ringmaster-project/ringmaster/internal/up"
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

// noNumber is said of an argument that has to be a number.
func noNumber(arg, example string) error {
	return fmt.Errorf("%q is no number: it is 0 or more, as in '%s'", arg, example)
}

// negative is what a flag's error says of a number below 0, which looks like a flag.
var negative = regexp.MustCompile(`^unknown shorthand flag: '\d' in (-\d+)$`)

// negativeNumber says what is wrong with a number below 0, or returns nil if it is something else.
func negativeNumber(err error, use string) error {
	found := negative.FindStringSubmatch(err.Error())
	if found == nil || !strings.Contains(use, "NUMBER") {
		return nil
	}
	return fmt.Errorf("%q is no NUMBER: it is 0 or more", found[1])
}
