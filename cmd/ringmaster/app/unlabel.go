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
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/confirm"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/unlabel"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// unlabelOptions are the options of the command, and the ring that it has read.
type unlabelOptions struct {
	cluster
	confirm.Confirmation
	resources []string
	force     bool

	ring   string
	config *rest.Config
	// declared is the ControllerRing in the cluster or in the file, or nil.
	declared *shardingv1alpha1.ControllerRing
	// inCluster is set if the cluster has the ControllerRing.
	inCluster bool
}

func newUnlabel() *cobra.Command {
	u := &unlabelOptions{}
	command := &cobra.Command{
		Use:   "unlabel [RING]",
		Short: "Remove a ring's labels from all its objects, after the ring was deleted",
		Long: `Removes the labels of a ring from its objects: the shard label and the drain label. It
changes nothing else in an object.

The labels of a deleted ring do no harm. Remove them when you stop using Ringmaster, or
before you use the name of the ring again for something else.

It searches the resources given with --resource, or else the resources of the ring in the
file or in the cluster. If the ring is deleted and nothing is given, it searches every
resource of the cluster that can be listed and patched. It shows how many objects have
labels, and asks.

A ring without a ControllerRing, without shards and without labels is an error: its name
may be misspelt. With -f it is not an error.

It refuses while shards of the ring are alive: they would stop reconciling their objects at
once, and if the ring still exists, the sharder would add the labels again. Stop the shards
and delete the ring first.`,
		Example: `  # show how many objects have labels
  ringmaster unlabel webhosting-operator --dry-run

  # remove the labels from all resources, after a confirmation
  ringmaster unlabel webhosting-operator

  # remove the labels from two resources, in a script
  ringmaster unlabel webhosting-operator --resource websites.webhosting.timebertt.dev --resource deployments.apps --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 1 {
				u.ring = args[0]
			}
			return u.run(command)
		},
	}
	u.addFlags(command)
	u.AddFlags(command)
	flags := command.Flags()
	flags.StringSliceVar(&u.resources, "resource", nil, "resource to search, with its group, such as deployments.apps; can be repeated")
	flags.BoolVar(&u.force, "force", false, "proceed even if shards of the ring are alive")
	return command
}

func (u *unlabelOptions) run(command *cobra.Command) (err error) {
	ctx, out, progress := command.Context(), command.OutOrStdout(), command.ErrOrStderr()
	if err := u.nameRing(command.InOrStdin()); err != nil {
		return err
	}
	if u.config, err = u.cluster.config(); err != nil {
		return err
	}
	if err := u.findRing(ctx); err != nil {
		return err
	}
	if err := u.refuseLiveShards(ctx); err != nil {
		return err
	}
	resources, problem := u.findResources(out)
	if len(resources) == 0 {
		return problem
	}
	client, err := metadata.NewForConfig(u.config)
	if err != nil {
		return err
	}
	if !u.Yes || u.DryRun {
		proceed, err := u.countAndAsk(command, client, resources, problem)
		if err != nil || !proceed {
			return err
		}
		if err := u.refuseLiveShards(ctx); err != nil { // a shard may have started since the question
			return err
		}
	}
	reporter := &unlabelReporter{out: out, progress: progress, ring: u.ring}
	err = errors.Join(problem, u.forEach(ctx, client, resources, reporter))
	if err == nil && reporter.found == 0 && u.declared == nil {
		if err := u.refuseUnknown(ctx, client, resources, progress); err != nil {
			return err
		}
	}
	reporter.reportTotal(len(resources))
	return u.explain(err)
}

// forEach removes the labels from the objects of all resources, or counts the objects if this is a dry run. It
// continues after an error, unless the same error is certain for all other resources.
func (u *unlabelOptions) forEach(ctx context.Context, client metadata.Interface, resources []unlabel.Resource, reporter *unlabelReporter) error {
	options := unlabel.Options{Metadata: client, Ring: u.ring, DryRun: reporter.dryRun, Progress: reporter.reportProgress}
	var errs []error
	for _, resource := range resources {
		count, err := unlabel.Remove(ctx, options, resource)
		reporter.reportResource(count)
		if err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || errors.Is(err, unlabel.ErrPutBack) {
			break
		}
	}
	return errors.Join(errs...)
}

// countAndAsk shows how many objects have labels, and reports whether to remove the labels. If no object has labels, there is
// nothing to ask. A problem with some of the resources does not prevent the removal from the others.
func (u *unlabelOptions) countAndAsk(command *cobra.Command, client metadata.Interface, resources []unlabel.Resource, problem error) (bool, error) {
	ctx, progress := command.Context(), command.ErrOrStderr()
	reporter := &unlabelReporter{out: command.OutOrStdout(), progress: progress, ring: u.ring, dryRun: true}
	problem = errors.Join(problem, u.forEach(ctx, client, resources, reporter))
	if ctx.Err() != nil {
		return false, u.explain(problem)
	}
	if problem == nil && reporter.found == 0 && u.declared == nil {
		if err := u.refuseUnknown(ctx, client, resources, progress); err != nil {
			return false, err
		}
	}
	reporter.reportTotal(len(resources))
	switch {
	case problem != nil && (u.DryRun || reporter.found == 0):
		return false, fmt.Errorf("some objects were not counted: %w", problem)
	case problem != nil:
		fmt.Fprintln(progress, "Warning: some objects were not counted:", problem)
	case reporter.found == 0:
		fmt.Fprintln(reporter.out, "Nothing was changed.")
		return false, nil
	}
	return u.Ask(command, fmt.Sprintf("Remove the labels of the ring %s from %s?", u.ring, prose.Count(reporter.found, "object")))
}

// refuseUnknown returns an error for a ring that has neither shards nor labels. Its name is likely misspelt, and the user must
// not believe that the labels are removed.
func (u *unlabelOptions) refuseUnknown(ctx context.Context, objects metadata.Interface, resources []unlabel.Resource, progress io.Writer) error {
	client, err := kubernetes.NewForConfig(u.config)
	if err != nil {
		return err
	}
	joined, err := unlabel.Joined(ctx, client.CoordinationV1())
	if err == nil && slices.Contains(joined, u.ring) {
		return nil
	}
	fmt.Fprintf(progress, "No object has labels of the ring %s. Searching for labels of other rings …\n", u.ring)
	labelled := unlabel.Labelled(ctx, objects, resources)
	if ctx.Err() != nil {
		return u.explain(ctx.Err())
	}
	known := "no object has labels of any ring"
	if len(labelled) > 0 {
		known = "objects have labels of: " + prose.List(labelled)
	}
	if len(joined) > 0 {
		known += "; shards have joined: " + prose.List(joined)
	}
	return fmt.Errorf("ring %q not found: no ControllerRing, no shard, and no label in %s (%s)\n"+
		"Check the name. If the labels were removed before, nothing is left to do", u.ring, prose.Count(len(resources), "resource"), known)
}

// nameRing sets the name of the ring, and its declaration if a file is given.
func (u *unlabelOptions) nameRing(stdin io.Reader) error {
	if u.file != "" {
		declared, err := u.fileRing(stdin, u.ring)
		if err != nil {
			return err
		}
		u.declared, u.ring = declared, declared.Name
	}
	if u.ring == "" {
		return errors.New("no ring given: name it, or give a file with -f")
	}
	if len(u.ring) > shardingv1alpha1.MaxNameLength || len(validation.IsDNS1123Subdomain(u.ring)) > 0 {
		return fmt.Errorf("invalid ring name %q: use a DNS subdomain of at most %d characters", u.ring, shardingv1alpha1.MaxNameLength)
	}
	return nil
}

// findRing reads the ring from the cluster. The ring may be deleted.
func (u *unlabelOptions) findRing(ctx context.Context) error {
	declared, err := clusterRing(ctx, u.config, u.ring)
	if errors.Is(err, errNoRing) {
		return nil
	}
	if err != nil {
		return err
	}
	u.inCluster = true
	if u.declared == nil {
		u.declared = declared
	}
	return nil
}

// refuseLiveShards returns an error while shards of the ring are alive.
func (u *unlabelOptions) refuseLiveShards(ctx context.Context) error {
	if u.force || u.DryRun {
		return nil
	}
	client, err := kubernetes.NewForConfig(u.config)
	if err != nil {
		return err
	}
	live, err := unlabel.LiveShards(ctx, client.CoordinationV1(), u.ring)
	switch {
	case err != nil:
		return fmt.Errorf("%w\nTo proceed without this check, use --force", err)
	case len(live) == 0:
		return nil
	case u.inCluster:
		return fmt.Errorf("ring %q has live shards: %s. The sharder would add the labels again.\n"+
			"Stop the shards and delete the ring first, or use --force", u.ring, prose.List(live))
	}
	return fmt.Errorf("ring %q is deleted, but its shards are alive: %s. They would stop reconciling their objects.\n"+
		"Stop them first, or use --force if their processes have ended", u.ring, prose.List(live))
}

// findResources returns the resources to search. It may return some together with an error.
func (u *unlabelOptions) findResources(out io.Writer) ([]unlabel.Resource, error) {
	if len(u.resources) == 0 && u.declared == nil {
		client, err := discovery.NewDiscoveryClientForConfig(u.config)
		if err != nil {
			return nil, err
		}
		resources, err := unlabel.All(client)
		fmt.Fprintf(out, "The ring %s is deleted or was never created: searching all %d resources that can be listed and patched.\n", u.ring, len(resources))
		if err != nil {
			err = fmt.Errorf("listing the resources of all API groups: %w", err)
		}
		return resources, err
	}
	transport, err := rest.HTTPClientFor(u.config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(u.config, transport)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if len(u.resources) > 0 {
		return unlabel.Named(mapper, u.resources)
	}
	resources, unknown, err := unlabel.OfRing(mapper, u.declared)
	for _, name := range unknown {
		fmt.Fprintf(out, "%s: not a resource of this cluster, so nothing to remove.\n", name)
	}
	return resources, err
}

// explain adds the next step to an error.
func (u *unlabelOptions) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unlabel.ErrPutBack):
		return fmt.Errorf("%w\nDelete the ring first: kubectl delete controllerring %s", err, u.ring)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted: %w\nRun the command again to continue", err)
	}
	return fmt.Errorf("some labels were not removed:\n%w\nCorrect the cause, then run the command again: it continues with the remaining objects", err)
}
