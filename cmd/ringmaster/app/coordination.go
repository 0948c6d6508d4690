package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func newCoordination() *cobra.Command {
	command := &cobra.Command{
		Use:   "coordination",
		Short: "Inspect the coordination of operators that manage one system together",
		Long: `Operators in several namespaces, clusters or regions that manage one system together agree
before they disturb it. These commands show and change the state of that coordination, in
the etcd or in the namespace that the operators share.

The commands abandon, break-lock and forget show what they would remove and ask for
confirmation. In a script, add --yes; to see only what would be removed, add --dry-run.`,
		Example: `  # what is pending, and what does each action wait for?
  ringmaster coordination status --endpoints http://127.0.0.1:2379

  # what would be removed if the action in progress were abandoned?
  ringmaster coordination abandon --endpoints http://127.0.0.1:2379 --dry-run`,
		Args: usage.NoSuchCommand,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.SuggestionsMinimumDistance = 2
	command.AddCommand(newCoordinationStatus(), newCoordinationForget(), newCoordinationAbandon(), newCoordinationBreakLock())
	return command
}

// coordinationStatus has the options of the command coordination status.
type coordinationStatus struct {
	storeOptions
	format status.Format
	colour terminal.ColourMode
	watch  bool
}

func newCoordinationStatus() *cobra.Command {
	c := &coordinationStatus{format: status.Table, colour: terminal.Auto}
	command := &cobra.Command{
		Use:   "status [SYSTEM]",
		Short: "Show the participants, the pending actions, the holder of the lock, and what each action waits for",
		Long: `Shows the state of the coordination of a system, read at one revision: the participants and
their current work, the holder of the lock, the action in progress with its current step
and the participants that have to carry it out, the members that are pending for an action
and whether they are ready, what each action waits for, the last actions, and the entries
of participants that are gone. Without SYSTEM it shows all systems.

The participants share a store: an etcd, selected with --endpoints as for etcdctl, or a
ConfigMap in a namespace, selected as for kubectl.

A participant in local mode does not register, and is not shown. A participant that has
died is shown until another process has noticed that its session has expired, as --watch
does. Times are from the clocks of the participants, and no decision depends on them.

The command only reads, except that it ends expired sessions, as every participant does.
In a namespace it needs to get the ConfigMap and to list Leases.`,
		Example: `  # participants that share an etcd
  ringmaster coordination status store --endpoints http://127.0.0.1:2379

  # the same with TLS, updated continuously
  ringmaster coordination status store --endpoints https://etcd-0:2379,https://etcd-1:2379 \
    --cacert ca.crt --cert client.crt --key client.key --watch

  # participants that share a namespace
  ringmaster coordination status store -n coordination

  # print the holder of the lock, for a script
  ringmaster coordination status store --endpoints http://127.0.0.1:2379 -o json | jq -r '.systems[0].lock.holder'`,
		Args: cobra.MaximumNArgs(1),
		RunE: c.run,
	}
	c.addFlags(command)
	flags := command.Flags()
	flags.VarP(&c.format, "output", "o", "table, wide, json or yaml")
	flags.Var(&c.colour, "color", "auto, always or never")
	flags.BoolVarP(&c.watch, "watch", "w", false, "update the output whenever it changes, until Ctrl-C")
	return command
}

func (c *coordinationStatus) run(command *cobra.Command, args []string) error {
	store, err := c.open(command)
	if err != nil {
		return err
	}
	defer store.close()
	write := func(ctx context.Context, out, _ io.Writer, coloured bool) error {
		report, err := c.read(ctx, store, args)
		if err != nil {
			return store.explain(ctx, err)
		}
		return report.Write(out, c.format, coloured)
	}
	out, warnings := command.OutOrStdout(), command.ErrOrStderr()
	if !c.watch {
		return write(command.Context(), out, warnings, c.colour.Colours(out))
	}
	w := watcher{format: c.format, colour: c.colour, changed: store.Watch(command.Context(), c.root), write: write}
	return w.run(command.Context(), out, warnings)
}

// read reads one system, or all.
func (c *coordinationStatus) read(ctx context.Context, store *openedStore, args []string) (*coordinationstatus.Report, error) {
	names := args
	if len(names) == 0 {
		found, err := coordination.Systems(ctx, store, c.root)
		if err != nil {
			return nil, err
		}
		if names = found; len(names) == 0 {
			return nil, c.noEntries(store)
		}
	}
	var views []*coordination.View
	for _, name := range names {
		view, err := coordination.ReadView(ctx, store, c.root, name)
		if err != nil {
			return nil, err
		}
		if view.Empty() && len(args) > 0 {
			return nil, c.systemNotFound(ctx, store, name)
		}
		views = append(views, view)
	}
	report := coordinationstatus.Of(time.Now(), store.description, views...)
	report.Flags = store.flags
	return report, nil
}

// refusedError is returned when the store has answered, but the command does not apply.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// noEntries returns the error for a store without any system.
func (s *storeOptions) noEntries(store *openedStore) error {
	return &refusedError{fmt.Sprintf("no entries below %s in %s\nIf participants run, they are all in local mode, or use another store: "+
		"check --endpoints, --namespace, --store-name and --root", s.root, store.description)}
}

// systemNotFound returns an error that names the available systems.
func (s *storeOptions) systemNotFound(ctx context.Context, store *openedStore, name string) error {
	found, err := coordination.Systems(ctx, store, s.root)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return s.noEntries(store)
	}
	return &refusedError{fmt.Sprintf("system %q not found in %s (available: %s)", name, store.description, strings.Join(found, ", "))}
}
