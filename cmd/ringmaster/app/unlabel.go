package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/unlabel"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// unlabelling is what the command was asked to do.
type unlabelling struct {
	cluster
	resources     []string
	dryRun, force bool

	ring   string
	config *rest.Config
	// declared is the ring in the cluster or in the file, or nil.
	declared *shardingv1alpha1.ControllerRing
	// alive is whether the cluster has the ring.
	alive bool
}

func newUnlabel() *cobra.Command {
	u := &unlabelling{}
	command := &cobra.Command{
		Use:   "unlabel [RING]",
		Short: "Remove a ring's labels from all its objects, after the ring was deleted",
		Long: `Removes the labels of a ring from its objects: the one that names the shard, and the one
that asks the shard to let go. Nothing else of an object is changed.

Labels of a ring that is gone do no harm. Remove them when you leave Ringmaster, or before
you use the ring's name again for something else.

It looks at the resources that are named with --resource, or else at those of the ring in
the file or in the cluster. When the ring is gone and nothing is named, it looks at every
resource of the cluster that can be listed and patched.

A ring of which there is nothing at all, no label either, is an error: its name may be
misspelt. With -f it is none.

It refuses while shards of the ring are alive: they would drop their objects at once, and
if the ring is still there, it would put the labels back. Stop the shards and delete the
ring first.`,
		Example: `  # how many objects have labels?
  ringmaster unlabel webhosting-operator --dry-run

  # remove them, wherever they are
  ringmaster unlabel webhosting-operator

  # remove them from two resources
  ringmaster unlabel webhosting-operator --resource websites.webhosting.timebertt.dev --resource deployments.apps`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 1 {
				u.ring = args[0]
			}
			return u.run(command.Context(), command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	u.addFlags(command)
	flags := command.Flags()
	flags.StringSliceVar(&u.resources, "resource", nil, "resource to look at, with its group, such as deployments.apps; can be repeated")
	flags.BoolVar(&u.dryRun, "dry-run", false, "only count the objects")
	flags.BoolVar(&u.force, "force", false, "do not ask whether shards are alive")
	return command
}

func (u *unlabelling) run(ctx context.Context, stdin io.Reader, out, progress io.Writer) (err error) {
	if err := u.nameRing(stdin); err != nil {
		return err
	}
	if u.config, err = u.cluster.config(); err != nil {
		return err
	}
	if err := u.findRing(ctx); err != nil {
		return err
	}
	if !u.force && !u.dryRun {
		if err := u.refuseLiveShards(ctx); err != nil {
			return err
		}
	}
	resources, problem := u.findResources(out)
	if len(resources) == 0 {
		return problem
	}
	client, err := metadata.NewForConfig(u.config)
	if err != nil {
		return err
	}
	teller := &teller{out: out, progress: progress, dryRun: u.dryRun, ring: u.ring}
	options := unlabel.Options{Metadata: client, Ring: u.ring, DryRun: u.dryRun, Progress: teller.going}
	errs := []error{problem}
	for _, resource := range resources {
		count, err := unlabel.Remove(ctx, options, resource)
		teller.done(count)
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || errors.Is(err, unlabel.ErrPutBack) {
			break
		}
	}
	err = errors.Join(errs...)
	if err == nil && teller.found == 0 && u.declared == nil {
		if err := u.refuseUnknown(ctx, client, resources, progress); err != nil {
			return err
		}
	}
	teller.summary(len(resources))
	return u.explain(err)
}

// refuseUnknown fails for a ring of which there is nothing at all. Its name is likely misspelt, and whoever
// leaves Ringmaster must not believe that the labels are gone.
func (u *unlabelling) refuseUnknown(ctx context.Context, objects metadata.Interface, resources []unlabel.Resource, progress io.Writer) error {
	client, err := kubernetes.NewForConfig(u.config)
	if err != nil {
		return err
	}
	joined, err := unlabel.Joined(ctx, client.CoordinationV1())
	if err == nil && slices.Contains(joined, u.ring) {
		return nil
	}
	fmt.Fprintf(progress, "No object has labels of the ring %s. Looking whose labels there are …\n", u.ring)
	labelled := unlabel.Labelled(ctx, objects, resources)
	if ctx.Err() != nil {
		return u.explain(ctx.Err())
	}
	said := "no object has labels of any ring"
	if len(labelled) > 0 {
		said = "objects have labels of: " + prose.List(labelled)
	}
	if len(joined) > 0 {
		said += "; shards have joined: " + prose.List(joined)
	}
	return fmt.Errorf("there is nothing of a ring %s: no ControllerRing, no shard, and no label in %s; but %s.\n"+
		"Check the name. If the labels were removed before, nothing is left to do", u.ring, prose.Count(len(resources), "resource"), said)
}

// nameRing finds out which ring is meant, and how it was declared if there is a file that says so.
func (u *unlabelling) nameRing(stdin io.Reader) error {
	if u.file != "" {
		declared, err := u.fileRing(stdin, u.ring)
		if err != nil {
			return err
		}
		u.declared, u.ring = declared, declared.Name
	}
	if u.ring == "" {
		return errors.New("which ring? Name it, or give a file with -f")
	}
	if len(u.ring) > shardingv1alpha1.MaxNameLength || len(validation.IsDNS1123Subdomain(u.ring)) > 0 {
		return fmt.Errorf("%q cannot be the name of a ring", u.ring)
	}
	return nil
}

// findRing looks for the ring in the cluster, which need not have it any more.
func (u *unlabelling) findRing(ctx context.Context) error {
	declared, err := clusterRing(ctx, u.config, u.ring)
	if errors.Is(err, errNoRing) {
		return nil
	}
	if err != nil {
		return err
	}
	u.alive = true
	if u.declared == nil {
		u.declared = declared
	}
	return nil
}

func (u *unlabelling) refuseLiveShards(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(u.config)
	if err != nil {
		return err
	}
	live, err := unlabel.LiveShards(ctx, client.CoordinationV1(), u.ring)
	switch {
	case err != nil:
		return fmt.Errorf("%w\nWith --force it is not asked whether shards are alive", err)
	case len(live) == 0:
		return nil
	case u.alive:
		return fmt.Errorf("the ring %s has live shards: %s. The labels would come back at once.\n"+
			"Stop the shards and delete the ring first, or use --force", u.ring, prose.List(live))
	}
	return fmt.Errorf("the ring %s is gone, but shards of it hold their Leases: %s. They would drop their objects.\n"+
		"Stop them first, or use --force if they are gone too", u.ring, prose.List(live))
}

// findResources says where to look. With an error, there may be some all the same.
func (u *unlabelling) findResources(out io.Writer) ([]unlabel.Resource, error) {
	if len(u.resources) == 0 && u.declared == nil {
		client, err := discovery.NewDiscoveryClientForConfig(u.config)
		if err != nil {
			return nil, err
		}
		resources, err := unlabel.All(client)
		fmt.Fprintf(out, "The ring %s is not known: looking at all %d resources that can be listed and patched.\n", u.ring, len(resources))
		if err != nil {
			err = fmt.Errorf("not all of the API could be asked what there is: %w", err)
		}
		return resources, err
	}
	transport, err := rest.HTTPClientFor(u.config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(u.config, transport)
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	if len(u.resources) > 0 {
		return unlabel.Named(mapper, u.resources)
	}
	resources, unknown, err := unlabel.OfRing(mapper, u.declared)
	for _, name := range unknown {
		fmt.Fprintf(out, "%s: the cluster does not know it, so there is nothing to remove.\n", name)
	}
	return resources, err
}

// explain says what to do about what went wrong.
func (u *unlabelling) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unlabel.ErrPutBack):
		return fmt.Errorf("%w\nDelete the ring first: kubectl delete controllerring %s", err, u.ring)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("stopped: %w\nRun it again to go on", err)
	}
	return fmt.Errorf("not all labels could be removed:\n%w\nRun it again when that is mended; it goes on where it ended", err)
}
