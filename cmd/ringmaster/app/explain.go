package app

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
)

func newExplain() *cobra.Command {
	o := &reportOptions{}
	command := &cobra.Command{
		Use:   "explain TYPE/NAME ... | TYPE NAME ...",
		Short: "Explain which shard owns an object, why, and what happens next",
		Long: `Explains objects: which shard owns each of them and since when, which shard should own it,
where its children are, why owner and desired shard differ if they do, and what happens
next. The recent events of the object follow, then those of its ring and of the Leases of
its shards.

TYPE is a type as for kubectl: websites, website, or websites.webhosting.timebertt.dev.

The command only reads. It needs permission to list controllerrings and leases, to get the
objects, and to list the kinds of their children and events. Anything that the user is not
allowed to read is shown as unknown.`,
		Example: `  # why does this shard own the website, and what happens next?
  ringmaster explain website/homepage -n project-bakery

  # several objects of one type
  ringmaster explain websites homepage shop -n project-bakery

  # print only the owner
  ringmaster explain website/homepage -n project-bakery -o jsonpath='{.objects[0].places[0].shard}'`,
		Args: func(_ *cobra.Command, args []string) error {
			if names, err := status.ParseNames(args); err != nil {
				return err
			} else if len(names) == 0 {
				return errors.New("name an object as TYPE/NAME")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error { return explain(command, o, args) },
	}
	command.Flags().StringVarP(&o.selectedNamespace, "namespace", "n", "", "`NAMESPACE` of the objects (default: that of the context)")
	o.addReportFlags(command)
	return command
}

func explain(command *cobra.Command, o *reportOptions, args []string) error {
	names, err := status.ParseNames(args)
	if err != nil {
		return usage.SeeHelp(command, err)
	}
	query := status.Query{Rings: o.rings, Namespace: o.selectedNamespace, Implied: o.selectedNamespace == ""}
	reader, err := o.reader()
	if err != nil {
		return err
	}
	if query.Namespace == "" {
		if query.Namespace, err = o.namespace(); err != nil {
			return err
		}
	}
	_, err = o.print(command, func(ctx context.Context) (*status.Report, error) { return reader.Objects(ctx, query, names) })
	return err
}
