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

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/output"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

// reportOptions are the options of the commands status and explain.
type reportOptions struct {
	cluster
	selectedNamespace string
	rings             []string
	format            output.Format
	noHeaders         bool
	colour            terminal.ColourMode
	watch             bool
}

func (o *reportOptions) addReportFlags(command *cobra.Command) {
	o.format, o.colour = output.Table, terminal.Auto
	flags := command.Flags()
	flags.StringSliceVar(&o.rings, "ring", nil, "only this `RING`; can be repeated")
	flags.VarP(&o.format, "output", "o", output.Usage)
	flags.BoolVar(&o.noHeaders, "no-headers", false, "print no headers of tables and custom columns")
	flags.Var(&o.colour, "color", "use colors: auto, always or never")
	flags.BoolVarP(&o.watch, "watch", "w", false, "update the output every 2 seconds, until Ctrl-C")
	o.addClusterFlags(command)
}

// reader returns a reader of the cluster.
func (o *reportOptions) reader() (*status.Reader, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	reader, err := status.NewReader(config, time.Now)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return reader, nil
}

// print prints the report that read returns, repeatedly with --watch. It returns the last report.
func (o *reportOptions) print(command *cobra.Command, read func(context.Context) (*status.Report, error)) (*status.Report, error) {
	var last *status.Report
	write := func(ctx context.Context, out, warnings io.Writer, coloured bool) error {
		report, err := read(ctx)
		if report == nil {
			return err
		}
		last = report
		if o.format.IsTable() {
			for _, warning := range report.Warnings {
				fmt.Fprintln(warnings, "Warning:", warning)
			}
		}
		if err := report.Write(out, status.Style{Format: o.format, Coloured: coloured, NoHeaders: o.noHeaders}); err != nil {
			return err
		}
		return err
	}
	ctx, out, warnings := command.Context(), command.OutOrStdout(), command.ErrOrStderr()
	if !o.watch {
		err := write(ctx, out, warnings, o.colour.Colours(out))
		return last, err
	}
	repeat := watcher{format: o.format, colour: o.colour, write: write}
	err := repeat.run(ctx, out, warnings)
	return last, err
}

// statusOptions are the options of the command status.
type statusOptions struct {
	reportOptions
	allNamespaces   bool
	count, exitCode bool
}

func newStatus() *cobra.Command {
	s := &statusOptions{}
	command := &cobra.Command{
		Use:   "status [RING ...]",
		Short: "Show rings, their shards, and the number of objects of each shard",
		Long: `Shows the rings of the cluster: whether they are ready, which sharder assigns their objects,
their shards with their states, and how many objects of each kind each shard owns.

The numbers are those that shards publish on their Leases; "?" means that a shard does not
publish them. ASSIGNED and DRAINED are conditions of the ring: ASSIGNED is False while
objects are unassigned or orphaned, DRAINED while drains are outstanding; both are "?" for a
ring without a ControllerRing, which has no conditions: add --count. IMBALANCE is the
highest number of main objects of a shard, divided by the mean. LEASE AGE is the age of the
Lease object. The command reads only ControllerRings and Leases.

With --count, it lists all objects of the rings and shows exactly how many are unassigned
(without a shard label), orphaned (with the label of a shard that is not a member), and
being drained. This takes time, memory of the API server, and permission to list the
objects.

With --exit-code, it exits with code 1 if a ring is not Ready or has no active sharder, if
objects are unassigned or orphaned, or if drains are overdue, and with code 2 if the state
or a part of it cannot be read. Without --count it relies on the conditions of the ring. A
ring without a ControllerRing has no conditions: add --count.

A shard that has stopped gracefully is shown with the state "left" until its Lease is
deleted. The state of a ring without a ControllerRing, whose sharder is in-process, is
derived from its Leases. For an operator in which one instance leads, the command shows
the leader and what it reconciles.

Anything that the user is not allowed to read is shown as unknown.`,
		Example: `  # all rings
  ringmaster status

  # one ring in detail, updated every 2 seconds
  ringmaster status webhosting-operator -o wide --watch

  # count all objects, including those that are unassigned or orphaned
  ringmaster status --count

  # fail if a ring needs attention
  ringmaster status --count --exit-code

  # print the name and the status of each ring
  ringmaster status -o custom-columns=RING:.name,READY:.ready.status`,
		RunE: s.run,
	}
	flags := command.Flags()
	flags.BoolVar(&s.count, "count", false, "list and count all objects of the rings")
	flags.BoolVar(&s.exitCode, "exit-code", false, "exit with code 1 if a ring needs attention, and with code 2 if that cannot be read")
	flags.StringVarP(&s.selectedNamespace, "namespace", "n", "",
		"`NAMESPACE` in which objects are counted, and whose Leases are read if those of all namespaces may not be")
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "count the objects of all namespaces, which is the default")
	s.addReportFlags(command)
	return command
}

func (s *statusOptions) run(command *cobra.Command, args []string) error {
	switch {
	case s.allNamespaces && s.selectedNamespace != "":
		return s.withExitCode(nil, usage.SeeHelp(command, errors.New("--namespace and --all-namespaces exclude each other")))
	case s.exitCode && s.watch:
		return s.withExitCode(nil, usage.SeeHelp(command, errors.New("--exit-code and --watch exclude each other")))
	}
	if i := slices.IndexFunc(args, func(arg string) bool { return strings.Contains(arg, "/") }); i >= 0 {
		return s.withExitCode(nil, fmt.Errorf("%q is not the name of a ring: to explain the owner of an object, use '%s'",
			args[i], explainCommand(command, args[i:]...)))
	}
	reader, err := s.reader()
	if err != nil {
		return s.withExitCode(nil, err)
	}
	report, err := s.print(command, func(ctx context.Context) (*status.Report, error) {
		query := status.Query{Rings: slices.Concat(s.rings, args), Namespace: s.selectedNamespace, Count: s.count}
		report, err := reader.Rings(ctx, query)
		return report, typeGiven(command, reader, args, err)
	})
	return s.withExitCode(report, err)
}

// withExitCode returns the error of the command: with --exit-code, one for the problems in the report.
func (s *statusOptions) withExitCode(report *status.Report, err error) error {
	switch {
	case !s.exitCode:
		return err
	case err != nil:
		return &exitError{err, exitNotChecked}
	}
	if problems := report.Problems(); len(problems) > 0 {
		return &exitError{errors.New(strings.Join(problems, "\n")), exitProblems}
	}
	if len(report.Unreadable) > 0 {
		return &exitError{errors.New("no problems found, but not everything could be read:\n" + strings.Join(report.Unreadable, "\n")), exitNotChecked}
	}
	return nil
}

// typeGiven adds the right command to the error for a type of objects in the place of a ring.
func typeGiven(command *cobra.Command, reader *status.Reader, args []string, err error) error {
	unknown, ok := errors.AsType[*status.UnknownRingError](err)
	if !ok || len(args) == 0 || unknown.Name != args[0] || !reader.IsType(args[0]) {
		return err
	}
	if len(args) == 1 {
		args = []string{args[0] + "/NAME"}
	}
	return fmt.Errorf("%w; to explain the owner of an object, use '%s'", err, explainCommand(command, args...))
}

// explainCommand returns a command line of the command explain.
func explainCommand(command *cobra.Command, args ...string) string {
	return command.Parent().CommandPath() + " explain " + strings.Join(args, " ")
}
