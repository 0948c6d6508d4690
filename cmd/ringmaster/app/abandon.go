package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	show "github.com/ringmaster-project/ringmaster/cmd/ringmaster/app/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// intervention is what somebody wants to end that no participant ends.
type intervention struct {
	storeAt
	system, reason string
	yes            bool
}

func newCoordinationAbandon() *cobra.Command {
	i := &intervention{}
	command := &cobra.Command{
		Use:   "abandon [SYSTEM]",
		Short: "End an action that nobody will finish",
		Long: `Removes what is being done in a system, and the lock of the participant that does it, in
one transaction, and records it as given up, with the reason.

It is for an action that will not end by itself: a participant has accepted an order and
will never answer, or the plan cannot be carried out. Whatever the holder still writes to
the store is refused. What the action was about stays pending, and is planned again under
a higher token: correct the cause first, or the same happens again.

It cannot stop what is being carried out at this moment. A participant that has accepted
an order, or a holder that hangs, may still do to a member what it was about to do, beside
what is planned next. Without --yes it shows which members that concerns. Make sure that
nothing happens to them any more.

SYSTEM may be left out if there is only one.`,
		Example: `  # what would be removed, and what follows?
  ringmaster coordination abandon store --endpoints http://127.0.0.1:2379

  # do it
  ringmaster coordination abandon store --endpoints http://127.0.0.1:2379 --reason "dc2-1 has no disk" --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return i.run(command, args, i.abandon) },
	}
	i.addFlags(command)
	command.Flags().StringVar(&i.reason, "reason", "", "why, for those who read the record; required with --yes")
	return command
}

func newCoordinationBreakLock() *cobra.Command {
	i := &intervention{}
	command := &cobra.Command{
		Use:   "break-lock [SYSTEM]",
		Short: "Take the lock from a participant that hangs",
		Long: `Removes the lock of a system, and nothing else. The next participant that looks goes on with
what is being done, under a higher token. Whatever the holder still writes to the store
under the old one is refused.

It is for a holder that is alive and does nothing. One that has died loses the lock by
itself. The same participant may take the lock again: to prevent that, put it on the deny
list of another one first.

If the holder hangs in a step that it carries out itself, the next one carries out the same
step, and both may do so at the same time. Without --yes it shows what would be removed, and
which members that concerns.

SYSTEM may be left out if there is only one.`,
		Example: `  # who would lose the lock, and what follows?
  ringmaster coordination break-lock store --endpoints http://127.0.0.1:2379

  # do it
  ringmaster coordination break-lock store --endpoints http://127.0.0.1:2379 --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return i.run(command, args, i.breakLock) },
	}
	i.addFlags(command)
	return command
}

func (i *intervention) addFlags(command *cobra.Command) {
	i.storeAt.addFlags(command)
	command.Flags().BoolVar(&i.yes, "yes", false, "do it, and do not only show what would be removed")
}

// run does something to a system that somebody has said something of.
func (i *intervention) run(command *cobra.Command, args []string, do func(context.Context, *opened, io.Writer, *show.System) error) error {
	store, err := i.open(command)
	if err != nil {
		return err
	}
	defer store.close()
	if len(args) > 0 {
		i.system = args[0]
	}
	ctx := command.Context()
	return store.explain(ctx, func() error {
		if err := i.nameSystem(ctx, store, "Name it: "); err != nil {
			return err
		}
		view, err := coordination.Look(ctx, store, i.root, i.system)
		if err != nil {
			return err
		}
		if view.Empty() {
			return i.unknown(ctx, store, i.system)
		}
		report := show.Of(time.Now(), store.where, view)
		return do(ctx, store, command.OutOrStdout(), &report.Systems[0])
	}())
}

func (i *intervention) abandon(ctx context.Context, store *opened, out io.Writer, system *show.System) error {
	if system.Intent == nil {
		return i.nothingToDo("nothing is being done in "+i.system, "break-lock", system.Lock != nil, store)
	}
	show.WriteLines(out, system.Abandoned())
	switch {
	case !i.yes:
		return &refusedError{`nothing was removed: add --yes, and --reason "…" for those who read the record`}
	case strings.TrimSpace(i.reason) == "":
		return &refusedError{`nothing was removed: --reason is required, such as --reason "dc2-1 has no disk"`}
	}
	done, err := coordination.Abandon(ctx, store, i.root, i.system, i.reason)
	if err != nil {
		return i.hasMoved(err, store)
	}
	fmt.Fprintf(out, "The %s was abandoned at step %d of %d.\n", done.Action, min(done.At+1, len(done.Steps)), len(done.Steps))
	return nil
}

func (i *intervention) breakLock(ctx context.Context, store *opened, out io.Writer, system *show.System) error {
	if system.Lock == nil {
		return i.nothingToDo("nobody holds the lock of "+i.system, "abandon", system.Intent != nil, store)
	}
	show.WriteLines(out, system.LockBroken())
	if !i.yes {
		return &refusedError{"nothing was removed: add --yes if " + system.Lock.Holder + " hangs"}
	}
	lock, err := coordination.BreakLock(ctx, store, i.root, i.system)
	if err != nil {
		return i.hasMoved(err, store)
	}
	fmt.Fprintf(out, "The lock of %s, with token %d, was removed.\n", lock.Holder, lock.Token)
	return nil
}

// nothingToDo names the other command if that one has something to do.
func (i *intervention) nothingToDo(said, other string, hasOther bool, store *opened) error {
	if !hasOther {
		other = "status"
	}
	return &refusedError{fmt.Sprintf("%s; see: ringmaster coordination %s %s%s", said, other, i.system, store.flags)}
}

// hasMoved says what to do when the participants have written since it was read.
func (i *intervention) hasMoved(err error, store *opened) error {
	if errors.Is(err, kv.ErrConflict) || errors.Is(err, coordination.ErrNoIntent) || errors.Is(err, coordination.ErrNoLock) {
		return &refusedError{fmt.Sprintf("nothing was removed: it has just changed, so somebody works on it; look again: ringmaster coordination status %s%s",
			i.system, store.flags)}
	}
	return err
}

// nameSystem finds out which system is meant.
func (i *intervention) nameSystem(ctx context.Context, store *opened, hint string) error {
	if i.system != "" {
		return nil
	}
	found, err := coordination.Systems(ctx, store, i.root)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return i.nothing(store)
	case len(found) > 1:
		return &refusedError{"which system? " + hint + strings.Join(found, ", ")}
	}
	i.system = found[0]
	return nil
}
