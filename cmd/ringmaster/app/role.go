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
	source, shard, inProcess := cluster{}, "", false
	command := &cobra.Command{
		Use:   "role [RING]",
		Short: "Print the roles that the sharder or the shards of a ring need",
		Long: `Prints, for 'kubectl apply', the ClusterRole that the sharder needs for the objects of a
ring, and its binding: permission to list and patch exactly the resources and controlled
resources of the ring.

With --shard, it prints the roles that the shards need instead: for Leases in their own
namespace, and to watch and label the objects of the ring. Other permissions of the
controller are in its own role. With --in-process, it adds those of an in-process sharder.

The ring is read from the cluster, or from a file with -f. RING may be omitted if the file
has only one ring.

All roles of a ring have its label. To remove them:
  kubectl delete clusterroles,clusterrolebindings,roles,rolebindings -A \
    -l ` + shardingv1alpha1.LabelControllerRing + `=RING`,
		Example: `  # allow the sharder to assign the objects of a ring
  ringmaster role webhosting-operator | kubectl apply -f -

  # allow pods with the ServiceAccount operator in webhosting-system to join the ring
  ringmaster role webhosting-operator --shard webhosting-system/operator | kubectl apply -f -

  # allow them to be the sharder, too; the ring is only in the file
  ringmaster role -f ring.yaml --shard webhosting-system/operator --in-process | kubectl apply -f -

  # print the role of the sharder without a cluster
  ringmaster role -f ring.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if inProcess && !command.Flags().Changed("shard") {
				return errors.New("--in-process requires --shard with the namespace of the shards; " +
					"if the cluster does not have the ring, add its file with -f")
			}
			ring, err := source.ring(command.Context(), command.InOrStdin(), name)
			if err != nil {
				return ringError(err, inProcess)
			}
			if len(ring.Spec.Resources) == 0 {
				return fmt.Errorf("ControllerRing %q lists no resources, so it needs no role: add spec.resources", ring.Name)
			}
			if !command.Flags().Changed("shard") {
				return writeYAML(command.OutOrStdout(), roles.ForSharder(ring))
			}
			account, err := parseAccount(shard, ring.Name)
			if err != nil {
				return err
			}
			if accepted := ring.AcceptedNamespaces(); len(accepted) > 0 && !slices.Contains(accepted, account.Namespace) {
				fmt.Fprintf(command.ErrOrStderr(), "Warning: ring %q accepts shards only from the namespaces %s: add %s to its spec.shardNamespaces\n",
					ring.Name, prose.List(accepted), account.Namespace)
			}
			if inProcess {
				return writeYAML(command.OutOrStdout(), roles.ForInstances(ring, account))
			}
			return writeYAML(command.OutOrStdout(), roles.ForShards(ring, account))
		},
	}
	source.addFlags(command)
	command.Flags().StringVar(&shard, "shard", "",
		"print the roles of shards with this ServiceAccount, `NAMESPACE[/ACCOUNT]` (default of ACCOUNT: the name of the ring)")
	command.Flags().BoolVar(&inProcess, "in-process", false, "with --shard: add the permissions of an in-process sharder")
	return command
}

var errNoName = errors.New("no ring selected: name a ring, or set its file with -f")

// ringError adds a hint to an error: an in-process sharder needs no ControllerRing in the cluster.
func ringError(err error, inProcess bool) error {
	const hint = "for an in-process sharder, set the file of the ring with -f"
	switch {
	case !inProcess:
		return err
	case errors.Is(err, errNoKind):
		return fmt.Errorf("%w; %s", errNoKind, hint)
	case errors.Is(err, errNoName), errors.Is(err, errNoRing):
		return fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// ring reads a ring from the file or from the cluster.
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
		return types.NamespacedName{}, fmt.Errorf("invalid --shard %q: %q is not a valid namespace: %s", text, namespace, strings.Join(problems, "; "))
	}
	if problems := validation.ValidateServiceAccountName(account, false); len(problems) > 0 {
		return types.NamespacedName{}, fmt.Errorf("invalid --shard %q: %q is not a valid ServiceAccount: %s", text, account, strings.Join(problems, "; "))
	}
	return types.NamespacedName{Namespace: namespace, Name: account}, nil
}

// writeYAML writes objects for kubectl.
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
