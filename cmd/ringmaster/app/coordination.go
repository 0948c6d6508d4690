package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	show "github.com/ringmaster-project/ringmaster/cmd/ringmaster/app/coordination"
	"github.com/ringmaster-project/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/internal/terminal"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func newCoordination() *cobra.Command {
	command := &cobra.Command{
		Use:   "coordination",
		Short: "See what operators tell each other that manage one system together",
		Long: `Operators in several namespaces, clusters or regions that manage one system together agree
before they disturb it. These commands are about what they tell each other, in the etcd or
in the namespace in which they meet.`,
		Args: noSuchCommand,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.SuggestionsMinimumDistance = 2
	command.AddCommand(newCoordinationStatus(), newCoordinationForget(), newCoordinationAbandon(), newCoordinationBreakLock())
	return command
}

// coordinated is what somebody wants to see of a coordination.
type coordinated struct {
	storeAt
	format status.Format
	colour terminal.When
	watch  bool
}

func newCoordinationStatus() *cobra.Command {
	c := &coordinated{format: status.Table, colour: terminal.Auto}
	command := &cobra.Command{
		Use:   "status [SYSTEM]",
		Short: "Show who takes part, what is pending, who acts, and what everything waits for",
		Long: `Shows what the operators that manage a system together have told each other, all of it as
it was at one moment: the instances that take part and what each of them does, who holds
the lock, what is being done and at which step, who has to carry that step out, which
members are pending for an action and whether they are ready, what each action waits for,
what was done last, and what instances have left behind that are gone. Without SYSTEM it
shows all systems that there are.

The instances meet in etcd, which is named with --endpoints as for etcdctl, or in a
ConfigMap of a namespace, which is named as for kubectl.

An instance in local mode tells nobody anything, and is not shown. One that has died is
shown until somebody has noticed that its session is over, as --watch does. Times are by
the clocks of the instances, and decide nothing.

It changes nothing, but that it ends sessions that are over, as every instance does. In a
namespace it needs to get the ConfigMap and to list Leases.`,
		Example: `  # instances that meet in etcd
  ringmaster coordination status store --endpoints http://127.0.0.1:2379

  # the same with TLS, again and again
  ringmaster coordination status store --endpoints https://etcd-0:2379,https://etcd-1:2379 \
    --cacert ca.crt --cert client.crt --key client.key --watch

  # instances that meet in a namespace
  ringmaster coordination status store -n coordination

  # for a script: who holds the lock?
  ringmaster coordination status store --endpoints http://127.0.0.1:2379 -o json | jq -r '.systems[0].lock.holder'`,
		Args: cobra.MaximumNArgs(1),
		RunE: c.run,
	}
	c.addFlags(command)
	flags := command.Flags()
	flags.VarP(&c.format, "output", "o", "table, wide, json or yaml")
	flags.Var(&c.colour, "color", "auto, always or never")
	flags.BoolVarP(&c.watch, "watch", "w", false, "show it again whenever it has changed, until Ctrl-C")
	return command
}

func (c *coordinated) run(command *cobra.Command, args []string) error {
	store, err := c.open(command)
	if err != nil {
		return err
	}
	defer store.close()
	write := func(ctx context.Context, out, _ io.Writer, coloured bool) error {
		report, err := c.look(ctx, store, args)
		if err != nil {
			return store.explain(ctx, err)
		}
		return report.Write(out, c.format, coloured)
	}
	out, said := command.OutOrStdout(), command.ErrOrStderr()
	if !c.watch {
		return write(command.Context(), out, said, c.colour.Colours(out))
	}
	again := followed{format: c.format, colour: c.colour, changed: store.Watch(command.Context(), c.root), write: write}
	return again.run(command.Context(), out, said)
}

// look reads one system, or all.
func (c *coordinated) look(ctx context.Context, store *opened, args []string) (*show.Report, error) {
	names := args
	if len(names) == 0 {
		found, err := coordination.Systems(ctx, store, c.root)
		if err != nil {
			return nil, err
		}
		if names = found; len(names) == 0 {
			return nil, c.nothing(store)
		}
	}
	var views []*coordination.View
	for _, name := range names {
		view, err := coordination.Look(ctx, store, c.root, name)
		if err != nil {
			return nil, err
		}
		if view.Empty() && len(args) > 0 {
			return nil, c.unknown(ctx, store, name)
		}
		views = append(views, view)
	}
	report := show.Of(time.Now(), store.where, views...)
	report.Flags = store.flags
	return report, nil
}

// refusedError is when something cannot be done although the store has answered.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

func (c *storeAt) nothing(store *opened) error {
	return &refusedError{fmt.Sprintf("nobody has said anything below %s in %s.\nIf instances run, they are all in local mode, or meet elsewhere: "+
		"name the right --endpoints, --namespace, --store-name or --root", c.root, store.where)}
}

// unknown says which systems there are instead.
func (c *storeAt) unknown(ctx context.Context, store *opened, name string) error {
	found, err := coordination.Systems(ctx, store, c.root)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return c.nothing(store)
	}
	return &refusedError{fmt.Sprintf("there is nothing of a system %q in %s; there are: %s", name, store.where, strings.Join(found, ", "))}
}
