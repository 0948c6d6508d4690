package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/policies"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/roles"
)

func newPolicy() *cobra.Command {
	source, inProcess, election, options := cluster{}, false, "", policies.Options{}
	sharder := roles.Sharder.String()
	command := &cobra.Command{
		Use:   "policy [RING]",
		Short: "Print the admission policies that protect a ring",
		Long: `Prints, for 'kubectl apply', ValidatingAdmissionPolicies with their bindings. With them, the
API server refuses
  - writes to the Leases of the ring's shards, except by the shard itself,
  - changes of the shard and drain labels, except by the owner and the sharder,
  - updates and deletes of an object by a shard that does not own it, also if that shard
    was its owner until a moment ago,
  - writes of shards to the subresource scale, which does not show the owner.
Those who may delete the ring are not restricted.

The ring must name the ServiceAccounts of its shards in spec.shards.serviceAccounts, and the
name of each shard must be that of its pod, as it is by default. To try the policies first,
print them with --audit: the API server then warns, and records in its audit log what it
would refuse. The condition Fenced of the ring shows whether the policies are in force.

The ring is read from the cluster, or from a file with -f. RING may be omitted if the file
has only one ring. To remove the policies of a ring:
  kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings \
    -l ` + shardingv1alpha1.LabelControllerRing + `=RING`,
		Example: `  # protect a ring
  ringmaster policy webhosting-operator | kubectl apply -f -

  # only warn, and record in the audit log
  ringmaster policy webhosting-operator --audit | kubectl apply -f -

  # protect a ring with an in-process sharder; the ring is only in the file
  ringmaster policy -f ring.yaml --in-process | kubectl apply -f -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if election != "" && !inProcess {
				return errors.New("--election requires --in-process")
			}
			ring, err := source.ring(command.Context(), command.InOrStdin(), name)
			if err != nil {
				return ringError(err, inProcess)
			}
			if inProcess {
				if options.Election, err = electionLease(ring, election); err != nil {
					return err
				}
			}
			if options.Sharder, err = namespacedName("--sharder", sharder); err != nil {
				return err
			}
			objects, err := policies.ForRing(ring, options)
			if err != nil {
				return err
			}
			return writeYAML(command.OutOrStdout(), objects)
		},
	}
	source.addFlags(command)
	flags := command.Flags()
	flags.BoolVar(&options.Audit, "audit", false, "warn and write audit annotations instead of refusing requests")
	flags.BoolVar(&options.AllowScale, "allow-scale", false, "let shards write the subresource scale, unfenced")
	flags.BoolVar(&inProcess, "in-process", false, "print the policies of a ring with an in-process sharder")
	flags.StringVar(&election, "election", "", "with --in-process: the election Lease, `NAMESPACE/NAME` (default: RING-sharder in the namespace of the shards)")
	flags.StringVar(&sharder, "sharder", sharder, "`NAMESPACE/NAME` of the sharder's ServiceAccount")
	return command
}

// electionLease returns the election Lease of in-process sharders.
func electionLease(ring *shardingv1alpha1.ControllerRing, named string) (types.NamespacedName, error) {
	if named != "" {
		return namespacedName("--election", named)
	}
	namespaces := ring.AcceptedNamespaces()
	if len(namespaces) > 1 {
		return types.NamespacedName{}, fmt.Errorf("the shards of ring %q are in the namespaces %s, but those of an in-process sharder are in one: "+
			"name the election Lease with --election", ring.Name, prose.List(namespaces))
	}
	if len(namespaces) == 0 {
		return types.NamespacedName{Name: ring.Name + "-sharder"}, nil // the ring names no accounts, which is the error to report
	}
	return types.NamespacedName{Namespace: namespaces[0], Name: ring.Name + "-sharder"}, nil
}

func namespacedName(flag, text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("invalid %s %q: must be NAMESPACE/NAME", flag, text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
