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

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func newCoordinationForget() *cobra.Command {
	f := &intervention{}
	command := &cobra.Command{
		Use:   "forget [SYSTEM] PREFIX",
		Short: "Remove the entries of a participant that will never return",
		Long: `Removes all entries of the participant with a prefix: its members in all sets, its answers
and its deny list, in one transaction. The other participants wait for members that are
pending and not ready, even if no process is left to make them ready.

Use it for a region or a cluster that is permanently gone. It does not change the managed
system, and refuses while a process of the participant is alive: stop that process, or
switch it to local mode, which removes the same entries. If the participant returns, it
declares its needs again. The command also refuses while the participant has accepted an
order and not answered it: abandon the action first.

SYSTEM may be left out if there is only one. Without --yes it only shows what would be
removed.`,
		Example: `  # show what dc3 has left behind
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
	view, err := coordination.ReadView(ctx, store, f.root, f.system)
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
		return &refusedError{fmt.Sprintf("nothing was removed: %s has accepted an order and may be carrying it out; abandon the action first: ringmaster coordination abandon %s%s",
			prefix, f.system, store.flags)}
	}
	if errors.Is(err, kv.ErrConflict) {
		return &refusedError{"nothing was removed: a process of " + prefix + " has just returned"}
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "It was removed.")
	return nil
}

// leftBy says what there is to remove.
func (f *intervention) leftBy(ctx context.Context, store *opened, view *coordination.View, prefix string) (string, error) {
	report := coordinationstatus.Of(time.Now(), "", view).Systems[0]
	at := slices.IndexFunc(report.Left, func(l coordinationstatus.Left) bool { return l.Prefix == prefix })
	switch {
	case view.Empty():
		return "", f.unknown(ctx, store, f.system)
	case at >= 0:
		return report.Left[at].Says(), nil
	}
	for _, instance := range view.Instances {
		if instance.Prefix == prefix {
			return "", &refusedError{fmt.Sprintf("%s of %s is alive: stop it, or switch it to local mode, which removes the same entries", instance.Name, prefix)}
		}
	}
	known := "no participant has left entries behind"
	if left := view.DeadParticipants(); len(left) > 0 {
		known = "these participants have left entries behind: " + strings.Join(left, ", ")
	}
	return "", &refusedError{fmt.Sprintf("no entries of %s in %s; %s", prefix, f.system, known)}
}
