package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// intervention ends an action or a lock that no participant ends by itself.
type intervention struct {
	storeAt
	system, reason string
	yes            bool
}

func newCoordinationAbandon() *cobra.Command {
	i := &intervention{}
	command := &cobra.Command{
		Use:   "abandon [SYSTEM]",
		Short: "End an action that no participant will finish",
		Long: `Removes the intent of a system, and the lock of the participant that carries it out, in
one transaction, and records the action as given up, with the reason.

Use it for an action that cannot end by itself: a participant has accepted an order and
will never answer, or the plan cannot be carried out. The store refuses further writes of
the holder. The members of the action stay pending, and are planned again under a higher
token: correct the cause first, or the action gets stuck again.

It cannot stop an operation that is in progress. A participant that has accepted an order,
or a holder that hangs, may still disturb its members during the next plan. Without --yes
it shows which members are affected. Make sure that nobody disturbs them before you add
--yes.

SYSTEM may be left out if there is only one.`,
		Example: `  # show what would be removed, and which members are affected
  ringmaster coordination abandon store --endpoints http://127.0.0.1:2379

  # abandon the action
  ringmaster coordination abandon store --endpoints http://127.0.0.1:2379 --reason "dc2-1 has no disk" --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return i.run(command, args, i.abandon) },
	}
	i.addFlags(command)
	command.Flags().StringVar(&i.reason, "reason", "", "reason that is recorded; required with --yes")
	return command
}

func newCoordinationBreakLock() *cobra.Command {
	i := &intervention{}
	command := &cobra.Command{
		Use:   "break-lock [SYSTEM]",
		Short: "Take the lock from a participant that hangs",
		Long: `Removes the lock of a system, and nothing else. The next participant continues the intent
under a higher token. The store refuses further writes of the former holder.

Use it for a holder that is alive but hangs. A holder that has died loses the lock by
itself. The same participant may take the lock again: to prevent that, put it on the deny
list of another participant first.

If the holder hangs in a step that it carries out itself, the next holder carries out the
same step, possibly at the same time. Without --yes it shows what would be removed, and
which members are affected.

SYSTEM may be left out if there is only one.`,
		Example: `  # show which participant would lose the lock, and which members are affected
  ringmaster coordination break-lock store --endpoints http://127.0.0.1:2379

  # break the lock
  ringmaster coordination break-lock store --endpoints http://127.0.0.1:2379 --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return i.run(command, args, i.breakLock) },
	}
	i.addFlags(command)
	return command
}

func (i *intervention) addFlags(command *cobra.Command) {
	i.storeAt.addFlags(command)
	command.Flags().BoolVar(&i.yes, "yes", false, "remove it, instead of only showing what would be removed")
}

// run applies an intervention to a system that has entries in the store.
func (i *intervention) run(command *cobra.Command, args []string, do func(context.Context, *opened, io.Writer, *coordinationstatus.System) error) error {
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
		view, err := coordination.ReadView(ctx, store, i.root, i.system)
		if err != nil {
			return err
		}
		if view.Empty() {
			return i.unknown(ctx, store, i.system)
		}
		report := coordinationstatus.Of(time.Now(), store.where, view)
		return do(ctx, store, command.OutOrStdout(), &report.Systems[0])
	}())
}

func (i *intervention) abandon(ctx context.Context, store *opened, out io.Writer, system *coordinationstatus.System) error {
	if system.Intent == nil {
		return i.nothingToDo("no action is in progress in "+i.system, "break-lock", system.Lock != nil, store)
	}
	coordinationstatus.WriteLines(out, system.Abandoned())
	switch {
	case !i.yes:
		return &refusedError{`nothing was removed: add --yes, and --reason "…" for the record`}
	case strings.TrimSpace(i.reason) == "":
		return &refusedError{`nothing was removed: --reason is required, such as --reason "dc2-1 has no disk"`}
	}
	done, err := coordination.Abandon(ctx, store, i.root, i.system, i.reason)
	if err != nil {
		return i.hasMoved(err, store)
	}
	fmt.Fprintf(out, "The %s was abandoned at step %d of %d.\n", done.Action, min(done.StepIndex+1, len(done.Steps)), len(done.Steps))
	return nil
}

func (i *intervention) breakLock(ctx context.Context, store *opened, out io.Writer, system *coordinationstatus.System) error {
	if system.Lock == nil {
		return i.nothingToDo("nobody holds the lock of "+i.system, "abandon", system.Intent != nil, store)
	}
	coordinationstatus.WriteLines(out, system.LockBroken())
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

// nothingToDo returns an error that names the other command if that one applies.
func (i *intervention) nothingToDo(said, other string, hasOther bool, store *opened) error {
	if !hasOther {
		other = "status"
	}
	return &refusedError{fmt.Sprintf("%s; see: ringmaster coordination %s %s%s", said, other, i.system, store.flags)}
}

// hasMoved explains a conflict with a participant that has written in between.
func (i *intervention) hasMoved(err error, store *opened) error {
	if errors.Is(err, kv.ErrConflict) || errors.Is(err, coordination.ErrNoIntent) || errors.Is(err, coordination.ErrNoLock) {
		return &refusedError{fmt.Sprintf("nothing was removed: the intent or the lock has just changed, so a participant is active; check again: ringmaster coordination status %s%s",
			i.system, store.flags)}
	}
	return err
}

// nameSystem selects the only system if none was named.
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
		return &refusedError{"more than one system found. " + hint + strings.Join(found, ", ")}
	}
	i.system = found[0]
	return nil
}
