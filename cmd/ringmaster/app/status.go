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

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

// showing is what somebody wants to see.
type showing struct {
	cluster
	inNamespace   string
	allNamespaces bool
	rings         []string
	format        status.Format
	colour        terminal.When
	watch         bool
}

func newStatus() *cobra.Command {
	s := &showing{format: status.Table, colour: terminal.Auto}
	command := &cobra.Command{
		Use:   "status [RING ... | TYPE/NAME ... | TYPE NAME ...]",
		Short: "Show rings, shards and their objects, or why an object is where it is",
		Long: `Shows every ring of the cluster: whether it is ready, who assigns its objects, its shards
with their states, how many objects of each kind each shard has, which objects have no
shard (unassigned) or that of one which is not in the ring (stranded), how many are being
drained and for how long, and how even the shares are (what the fullest shard has of the
main objects, divided by the mean). A shard that has left in good order is shown until its
Lease is deleted, and not counted.

Of an operator in which one instance leads, it shows which one, since when, and what it
works on. Who waits to lead is nowhere noted: look at the operator's pods.

Of a ring without a ControllerRing, whose controller runs its own sharder, it shows what
the shards' Leases tell.

With objects, it shows who has each of them and since when, who should have it, where its
children are, and in words why that differs if it does. TYPE is what kubectl takes:
websites, website, or websites.webhosting.timebertt.dev.

It only reads, and needs the right to list controllerrings, leases and the kinds that are
spread. What may not be read is shown as not known.`,
		Example: `  # all rings
  ringmaster status

  # one ring, with everything, again and again
  ringmaster status webhosting-operator -o wide --watch

  # why is this website where it is?
  ringmaster status website/homepage -n project-bakery

  # for a script: how many objects does nobody work on?
  ringmaster status -o json | jq '[.rings[].total | .unassigned + .stranded] | add'`,
		RunE: func(command *cobra.Command, args []string) error {
			return s.run(command, args)
		},
	}
	s.addClusterFlags(command)
	flags := command.Flags()
	flags.StringVarP(&s.inNamespace, "namespace", "n", "",
		"namespace of the named objects (default: the context's), or the only one in which objects are counted (default: all)")
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "count the objects of all namespaces, as is done without -n")
	flags.StringSliceVar(&s.rings, "ring", nil, "only this ring; can be repeated")
	flags.VarP(&s.format, "output", "o", "table, wide, json or yaml")
	flags.Var(&s.colour, "color", "auto, always or never")
	flags.BoolVarP(&s.watch, "watch", "w", false, "look again every 2 seconds, until Ctrl-C")
	return command
}

func (s *showing) run(command *cobra.Command, args []string) error {
	if s.allNamespaces && s.inNamespace != "" {
		return usage.SeeHelp(command, errors.New("either -n or -A"))
	}
	config, err := s.config()
	if err != nil {
		return err
	}
	reader, err := status.NewReader(config, time.Now)
	if err != nil {
		return fmt.Errorf("reaching the cluster: %w", err)
	}
	look := func(ctx context.Context) (*status.Report, error) { return s.look(ctx, reader, command, args) }
	out, said := command.OutOrStdout(), command.ErrOrStderr()
	if !s.watch {
		return s.show(command.Context(), out, said, s.colour.Colours(out), look)
	}
	again := followed{format: s.format, colour: s.colour, write: func(ctx context.Context, out, said io.Writer, coloured bool) error {
		return s.show(ctx, out, said, coloured, look)
	}}
	return again.run(command.Context(), out, said)
}

// look reads what was asked for: objects, if they are written as TYPE/NAME; else rings, if there are such;
// else what is TYPE NAME.
func (s *showing) look(ctx context.Context, reader *status.Reader, command *cobra.Command, args []string) (*status.Report, error) {
	names, err := status.ParseNames(args)
	if err != nil {
		return nil, usage.SeeHelp(command, err)
	}
	if len(args) > 0 && strings.Contains(args[0], "/") {
		return s.objects(ctx, reader, command, names)
	}
	report, err := reader.Rings(ctx, status.Query{Rings: slices.Concat(s.rings, args), Namespace: s.inNamespace})
	unknown, is := errors.AsType[*status.UnknownRingError](err)
	switch {
	case !is || len(args) == 0 || unknown.Name != args[0] || !reader.Knows(args[0]):
		return report, err
	case len(args) == 1:
		return nil, fmt.Errorf("%w\n%q is a type: for one of its objects, '%s %s/NAME'", err, args[0], command.CommandPath(), args[0])
	}
	return s.objects(ctx, reader, command, names)
}

func (s *showing) objects(ctx context.Context, reader *status.Reader, command *cobra.Command, names []status.Name) (*status.Report, error) {
	if s.allNamespaces {
		return nil, usage.SeeHelp(command, errors.New("an object is in one namespace: name it with -n"))
	}
	query := status.Query{Rings: s.rings, Namespace: s.inNamespace, Implied: s.inNamespace == ""}
	if query.Namespace == "" {
		var err error
		if query.Namespace, err = s.namespace(); err != nil {
			return nil, err
		}
	}
	return reader.Objects(ctx, query, names)
}

// show writes what there is to see now.
func (s *showing) show(ctx context.Context, out, said io.Writer, coloured bool, look func(context.Context) (*status.Report, error)) error {
	report, err := look(ctx)
	if report != nil {
		if s.format == status.Table || s.format == status.Wide {
			for _, warning := range report.Warnings {
				fmt.Fprintln(said, "Warning:", warning)
			}
		}
		if err := report.Write(out, s.format, coloured); err != nil {
			return err
		}
	}
	return err
}
