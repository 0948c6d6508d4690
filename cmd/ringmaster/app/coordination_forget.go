package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func newCoordinationForget() *cobra.Command {
	i := &intervention{}
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

The command shows the entries, and asks. SYSTEM may be left out if there is only one.`,
		Example: `  # show the entries of dc3
  ringmaster coordination forget dc3 --endpoints http://127.0.0.1:2379 --dry-run

  # remove them, after a confirmation
  ringmaster coordination forget store dc3 --endpoints http://127.0.0.1:2379`,
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
				i.system = args[0]
			}
			return i.runForget(command, args[len(args)-1])
		},
	}
	i.addFlags(command)
	return command
}

func (i *intervention) runForget(command *cobra.Command, prefix string) error {
	store, err := i.open(command)
	if err != nil {
		return err
	}
	defer store.close()
	ctx := command.Context()
	return store.explain(ctx, func() error {
		if err := i.selectSystem(ctx, store, "name one before the prefix: "); err != nil {
			return err
		}
		return i.confirmAndApply(command, func() (*prepared, error) { return i.forget(ctx, store.pinned(), prefix) })
	}())
}

func (i *intervention) forget(ctx context.Context, store *openedStore, prefix string) (*prepared, error) {
	view, err := coordination.ReadView(ctx, store, i.root, i.system)
	if err != nil {
		return nil, err
	}
	entries, err := i.entriesOf(ctx, store, view, prefix)
	if err != nil {
		return nil, err
	}
	return &prepared{
		preview:  []string{fmt.Sprintf("To be removed in %s: the entries of %s: %s.", i.system, prefix, entries)},
		question: fmt.Sprintf("Remove the entries of %s? If it returns, it declares its needs again.", prefix),
		apply: func() (string, error) {
			err := coordination.Forget(ctx, store, i.root, i.system, prefix)
			switch {
			case errors.Is(err, coordination.ErrAccepted):
				return "", &refusedError{fmt.Sprintf("nothing was changed: %s has accepted an order and may be carrying it out; abandon the action first: ringmaster coordination abandon %s%s",
					prefix, i.system, store.flags)}
			case errors.Is(err, kv.ErrConflict):
				return "", &refusedError{"nothing was changed: a process of " + prefix + " has just returned"}
			case err != nil:
				return "", err
			}
			return fmt.Sprintf("The entries of %s were removed.", prefix), nil
		},
	}, nil
}

// entriesOf returns a description of the entries of a participant that is not alive.
func (i *intervention) entriesOf(ctx context.Context, store *openedStore, view *coordination.View, prefix string) (string, error) {
	if view.Empty() {
		return "", i.systemNotFound(ctx, store, i.system)
	}
	dead := coordinationstatus.Of(time.Now(), "", view).Systems[0].Dead
	if index := slices.IndexFunc(dead, func(d coordinationstatus.DeadParticipant) bool { return d.Prefix == prefix }); index >= 0 {
		return dead[index].Entries(), nil
	}
	for _, instance := range view.Instances {
		if instance.Prefix == prefix {
			return "", &refusedError{fmt.Sprintf("%s with the prefix %s is alive: stop it, or switch it to local mode, which removes the same entries", instance.Name, prefix)}
		}
	}
	known := "no dead participant has entries"
	if prefixes := view.DeadParticipants(); len(prefixes) > 0 {
		known = "dead participants with entries: " + strings.Join(prefixes, ", ")
	}
	return "", &refusedError{fmt.Sprintf("no entries of %s in %s; %s", prefix, i.system, known)}
}
