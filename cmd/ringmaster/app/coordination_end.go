package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/confirm"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// intervention has the options of a command that removes entries which no participant removes by itself.
type intervention struct {
	storeOptions
	confirm.Confirmation
	system, reason string
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
or a holder that hangs, may still disturb its members during the next plan. The command
shows which members are affected, and asks. Make sure that nobody disturbs them before you
confirm.

SYSTEM may be left out if there is only one.`,
		Example: `  # show what would be removed, and which members are affected
  ringmaster coordination abandon store --endpoints http://127.0.0.1:2379 --dry-run

  # abandon the action, after a confirmation
  ringmaster coordination abandon store --endpoints http://127.0.0.1:2379 --reason "dc2-1 has no disk"

  # abandon the action in a script
  ringmaster coordination abandon store --endpoints http://127.0.0.1:2379 --reason "dc2-1 has no disk" --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return i.run(command, args, i.abandon) },
	}
	i.addFlags(command)
	command.Flags().StringVar(&i.reason, "reason", "", "reason that is recorded; required unless --dry-run is set")
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
same step, possibly at the same time. The command shows which members are affected, and
asks.

SYSTEM may be left out if there is only one.`,
		Example: `  # show which participant would lose the lock, and which members are affected
  ringmaster coordination break-lock store --endpoints http://127.0.0.1:2379 --dry-run

  # break the lock, after a confirmation
  ringmaster coordination break-lock store --endpoints http://127.0.0.1:2379`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return i.run(command, args, i.breakLock) },
	}
	i.addFlags(command)
	return command
}

func (i *intervention) addFlags(command *cobra.Command) {
	i.storeOptions.addFlags(command)
	i.AddFlags(command)
}

// prepared is an intervention that was checked against the state of the system.
type prepared struct {
	// preview says what would be removed, and with what consequences.
	preview []string
	// question asks for the confirmation.
	question string
	// apply removes it, and returns a description of the removed entries.
	apply func() (string, error)
}

// run applies an intervention to a system that has entries in the store.
func (i *intervention) run(command *cobra.Command, args []string, prepare func(context.Context, *openedStore, *coordinationstatus.System) (*prepared, error)) error {
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
		if err := i.selectSystem(ctx, store, "name it: "); err != nil {
			return err
		}
		return i.confirmAndApply(command, func() (*prepared, error) {
			store := store.pinned()
			view, err := coordination.ReadView(ctx, store, i.root, i.system)
			if err != nil {
				return nil, err
			}
			if view.Empty() {
				return nil, i.systemNotFound(ctx, store, i.system)
			}
			report := coordinationstatus.Of(time.Now(), store.description, view)
			return prepare(ctx, store, &report.Systems[0])
		})
	}())
}

// confirmAndApply shows what would be removed, asks, and removes it.
func (i *intervention) confirmAndApply(command *cobra.Command, prepare func() (*prepared, error)) error {
	p, err := prepare()
	if err != nil {
		return err
	}
	out := command.OutOrStdout()
	coordinationstatus.WriteLines(out, p.preview)
	if proceed, err := i.Ask(command, p.question); err != nil || !proceed {
		return err
	}
	current, err := prepare() // a person may have taken minutes to answer
	if err != nil {
		return err
	}
	if !slices.Equal(p.preview, current.preview) {
		return &refusedError{"nothing was changed: the state has changed since it was shown; run the command again"}
	}
	text, err := current.apply()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, text)
	return nil
}

func (i *intervention) abandon(ctx context.Context, store *openedStore, system *coordinationstatus.System) (*prepared, error) {
	if system.Intent == nil {
		return nil, i.nothingToDo("no action is in progress in "+i.system, "break-lock", system.Lock != nil, store)
	}
	if !i.DryRun && strings.TrimSpace(i.reason) == "" {
		return nil, &refusedError{`nothing was changed: --reason is required, such as --reason "dc2-1 has no disk"; to see what would be removed: --dry-run`}
	}
	return &prepared{
		preview: system.AbandonPreview(), question: fmt.Sprintf("Abandon the %s of %s?", system.Intent.Action, i.system),
		apply: func() (string, error) {
			done, err := coordination.Abandon(ctx, store, i.root, i.system, i.reason)
			if err != nil {
				return "", i.explainConflict(err, store)
			}
			return fmt.Sprintf("The %s was abandoned at step %d of %d.", done.Action, min(done.StepIndex+1, len(done.Steps)), len(done.Steps)), nil
		},
	}, nil
}

func (i *intervention) breakLock(ctx context.Context, store *openedStore, system *coordinationstatus.System) (*prepared, error) {
	if system.Lock == nil {
		return nil, i.nothingToDo("nobody holds the lock of "+i.system, "abandon", system.Intent != nil, store)
	}
	return &prepared{
		preview: system.BreakLockPreview(), question: fmt.Sprintf("Remove the lock of %s?", system.Lock.Holder),
		apply: func() (string, error) {
			lock, err := coordination.BreakLock(ctx, store, i.root, i.system)
			if err != nil {
				return "", i.explainConflict(err, store)
			}
			return fmt.Sprintf("The lock of %s, with token %d, was removed.", lock.Holder, lock.Token), nil
		},
	}, nil
}

// nothingToDo returns an error that names the other command if that one applies.
func (i *intervention) nothingToDo(reason, other string, otherApplies bool, store *openedStore) error {
	if !otherApplies {
		other = "status"
	}
	return &refusedError{fmt.Sprintf("%s; see: ringmaster coordination %s %s%s", reason, other, i.system, store.flags)}
}

// explainConflict explains a conflict with a participant that has written in between.
func (i *intervention) explainConflict(err error, store *openedStore) error {
	if errors.Is(err, kv.ErrConflict) || errors.Is(err, coordination.ErrNoIntent) || errors.Is(err, coordination.ErrNoLock) {
		return &refusedError{fmt.Sprintf("nothing was changed: the intent or the lock has just changed, so a participant is active; check again: ringmaster coordination status %s%s",
			i.system, store.flags)}
	}
	return err
}

// selectSystem selects the only system if none was named.
func (i *intervention) selectSystem(ctx context.Context, store *openedStore, hint string) error {
	if i.system != "" {
		return nil
	}
	found, err := coordination.Systems(ctx, store, i.root)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return i.noEntries(store)
	case len(found) > 1:
		return &refusedError{"the store has several systems; " + hint + strings.Join(found, ", ")}
	}
	i.system = found[0]
	return nil
}
