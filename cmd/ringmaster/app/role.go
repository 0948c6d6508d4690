package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	k8svalidation "k8s.io/apimachinery/pkg/util/validation"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

func newRole() *cobra.Command {
	where, shard, inProcess := cluster{}, "", false
	command := &cobra.Command{
		Use:   "role [RING]",
		Short: "Print the roles that the sharder or the shards of a ring need",
		Long: `Prints, ready for 'kubectl apply', the ClusterRole that the sharder needs for the objects
of a ring, and its binding: it lists and patches exactly the ring's resources and
controlled resources.

With --shard it prints what the shards need instead: their Leases in their own namespace,
and to watch and label the ring's objects. What the controller does besides is in its own
role. With --in-process as well, it adds what they need to be the sharder themselves.

The ring is read from the cluster, or from a file with -f. RING may be left out if there is
only one ring in the file.

All roles of a ring carry its label, so that they can be removed together:
  kubectl delete clusterroles,clusterrolebindings,roles,rolebindings -A \
    -l ` + shardingv1alpha1.LabelControllerRing + `=RING`,
		Example: `  # let the sharder move the objects of a ring
  ringmaster role webhosting-operator | kubectl apply -f -

  # let the controller's pods join it, which run as webhosting-system/operator
  ringmaster role webhosting-operator --shard webhosting-system/operator | kubectl apply -f -

  # let them be the sharder too; the file only says what is spread
  ringmaster role -f ring.yaml --shard webhosting-system/operator --in-process | kubectl apply -f -

  # the same without a cluster
  ringmaster role -f ring.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if inProcess && !command.Flags().Changed("shard") {
				return errors.New("--in-process is about shards: name their namespace with --shard, and " +
					"give the ring as a file with -f unless the cluster has it")
			}
			ring, err := where.ring(command.Context(), command.InOrStdin(), name)
			if err != nil {
				return ringError(err, inProcess)
			}
			if len(ring.Spec.Resources) == 0 {
				return fmt.Errorf("the ControllerRing %q names no resources, so nothing has to be allowed", ring.Name)
			}
			if !command.Flags().Changed("shard") {
				return writeYAML(command.OutOrStdout(), roles.ForSharder(ring))
			}
			account, err := parseAccount(shard, ring.Name)
			if err != nil {
				return err
			}
			if taken := ring.Spec.ShardNamespaces; len(taken) > 0 && !slices.Contains(taken, account.Namespace) {
				fmt.Fprintf(command.ErrOrStderr(), "Warning: the ring %s takes shards only from the namespaces %s: add %s to its spec.shardNamespaces\n",
					ring.Name, prose.List(taken), account.Namespace)
			}
			if inProcess {
				return writeYAML(command.OutOrStdout(), roles.ForInstances(ring, account))
			}
			return writeYAML(command.OutOrStdout(), roles.ForShards(ring, account))
		},
	}
	where.addFlags(command)
	command.Flags().StringVar(&shard, "shard", "",
		"`NAMESPACE[/ACCOUNT]` of the shards: print what they need (ACCOUNT is their ServiceAccount; default: the ring's name)")
	command.Flags().BoolVar(&inProcess, "in-process", false, "with --shard: add what shards need that are the sharder themselves")
	return command
}

var errNoName = errors.New("which ring? Name it, or give a file with -f")

// ringError adds to the error that an in-process sharder needs no ring in the cluster.
func ringError(err error, inProcess bool) error {
	const instead = "for an in-process sharder, give the ring as a file with -f"
	switch {
	case !inProcess:
		return err
	case errors.Is(err, errNoKind):
		return fmt.Errorf("%w; %s", errNoKind, instead)
	case errors.Is(err, errNoName), errors.Is(err, errNoRing):
		return fmt.Errorf("%w; %s", err, instead)
	}
	return err
}

// ring is the ring that the command is about.
func (c *cluster) ring(ctx context.Context, stdin io.Reader, name string) (*shardingv1alpha1.ControllerRing, error) {
	if c.file != "" {
		return c.fileRing(stdin, name)
	}
	if name == "" {
		return nil, errNoName
	}
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	return clusterRing(ctx, config, name)
}

func parseAccount(text, ring string) (types.NamespacedName, error) {
	namespace, account, _ := strings.Cut(text, "/")
	account = cmp.Or(account, ring)
	if problems := k8svalidation.IsDNS1123Label(namespace); len(problems) > 0 {
		return types.NamespacedName{}, fmt.Errorf("--shard %q: %q is no namespace: %s", text, namespace, strings.Join(problems, "; "))
	}
	if problems := validation.ValidateServiceAccountName(account, false); len(problems) > 0 {
		return types.NamespacedName{}, fmt.Errorf("--shard %q: %q is no ServiceAccount: %s", text, account, strings.Join(problems, "; "))
	}
	return types.NamespacedName{Namespace: namespace, Name: account}, nil
}

// writeYAML writes objects as kubectl reads them.
func writeYAML(out io.Writer, objects []runtime.Object) error {
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, nil, nil, json.SerializerOptions{Yaml: true})
	for i, object := range objects {
		if i > 0 {
			if _, err := fmt.Fprintln(out, "---"); err != nil {
				return err
			}
		}
		if err := serializer.Encode(object, out); err != nil {
			return err
		}
	}
	return nil
}
