package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	show "github.com/ringmaster-project/ringmaster/cmd/ringmaster/app/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func newCoordinationForget() *cobra.Command {
	f := &intervention{}
	command := &cobra.Command{
		Use:   "forget [SYSTEM] PREFIX",
		Short: "Remove what an instance has left behind that will never return",
		Long: `Removes all that the instances of a prefix have told the others: their entries in all sets,
their answers and their part of the deny list, in one transaction. The others wait for
members that are pending and not ready, also if nobody is left to make them ready.

It is for a region or a cluster that is gone for good. It changes nothing of the system
itself, and refuses while an instance of the prefix is alive: end that one, or set it to
local mode, which removes the same. Should one return, it says again what it needs. It also
refuses while the prefix has accepted an order and not answered: abandon that one first.

SYSTEM may be left out if there is only one. Without --yes it only shows what there is to
remove.`,
		Example: `  # what has dc3 left behind?
  ringmaster coordination forget dc3 --endpoints http://127.0.0.1:2379

  # remove it
  ringmaster coordination forget store dc3 --endpoints http://127.0.0.1:2379 --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return errors.New("the PREFIX is missing, as in 'ringmaster coordination forget store dc3'")
			case len(args) > 2:
				return errors.New("one PREFIX at a time, as in 'ringmaster coordination forget store dc3'")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 2 {
				f.system = args[0]
			}
			return f.runForget(command, args[len(args)-1])
		},
	}
	f.addFlags(command)
	return command
}

func (f *intervention) runForget(command *cobra.Command, prefix string) error {
	store, err := f.open(command)
	if err != nil {
		return err
	}
	defer store.close()
	return store.explain(command.Context(), f.forget(command.Context(), store, command.OutOrStdout(), prefix))
}

func (f *intervention) forget(ctx context.Context, store *opened, out io.Writer, prefix string) error {
	if err := f.nameSystem(ctx, store, "Name it before the prefix: "); err != nil {
		return err
	}
	view, err := coordination.Look(ctx, store, f.root, f.system)
	if err != nil {
		return err
	}
	said, err := f.leftBy(ctx, store, view, prefix)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has left behind in %s: %s.\n", prefix, f.system, said)
	if !f.yes {
		return &refusedError{"nothing was removed: add --yes if " + prefix + " will never return"}
	}
	err = coordination.Forget(ctx, store, f.root, f.system, prefix)
	if errors.Is(err, coordination.ErrAccepted) {
		return &refusedError{fmt.Sprintf("nothing was removed: %s has accepted an order, and may be carrying it out; first: ringmaster coordination abandon %s%s",
			prefix, f.system, store.flags)}
	}
	if errors.Is(err, kv.ErrConflict) {
		return &refusedError{"nothing was removed: an instance of " + prefix + " has just come back"}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "It was removed.")
	return nil
}

// leftBy says what there is to remove.
func (f *intervention) leftBy(ctx context.Context, store *opened, view *coordination.View, prefix string) (string, error) {
	report := show.Of(time.Now(), "", view).Systems[0]
	at := slices.IndexFunc(report.Left, func(l show.Left) bool { return l.Prefix == prefix })
	switch {
	case view.Empty():
		return "", f.unknown(ctx, store, f.system)
	case at >= 0:
		return report.Left[at].Says(), nil
	}
	for _, instance := range view.Instances {
		if instance.Prefix == prefix {
			return "", &refusedError{fmt.Sprintf("%s of %s is alive: end it, or set it to local mode, which removes the same", instance.Name, prefix)}
		}
	}
	known := "nobody has left anything behind"
	if left := view.Left(); len(left) > 0 {
		known = "something was left behind by: " + strings.Join(left, ", ")
	}
	return "", &refusedError{fmt.Sprintf("there is nothing of %s in %s; %s", prefix, f.system, known)}
}
