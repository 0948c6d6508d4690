package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/internal/ringfile"
)

// cluster has the flags that select a cluster, or a file instead of it. All commands that read a cluster embed it.
type cluster struct {
	flags *genericclioptions.ConfigFlags
	file  string
}

// addFlags adds the flags of a command that reads a ring from a cluster or from a file.
func (c *cluster) addFlags(command *cobra.Command) {
	c.addClusterFlags(command)
	command.Flags().StringVarP(&c.file, "filename", "f", "", "file with the ControllerRing, or - for standard input")
}

// addClusterFlags adds the flags of kubectl that select a cluster and a user. The flag --namespace is not among them:
// its meaning differs between commands.
func (c *cluster) addClusterFlags(command *cobra.Command) {
	all := genericclioptions.NewConfigFlags(false)
	// Servers and credentials are in the kubeconfig.
	c.flags = &genericclioptions.ConfigFlags{
		KubeConfig: all.KubeConfig, Context: all.Context, ClusterName: all.ClusterName, AuthInfoName: all.AuthInfoName,
		Impersonate: all.Impersonate, ImpersonateGroup: all.ImpersonateGroup, ImpersonateUID: all.ImpersonateUID,
		Timeout: all.Timeout,
	}
	c.flags.AddFlags(command.Flags())
}

// loader returns the kubeconfig with the flags applied.
func (c *cluster) loader() clientcmd.ClientConfig { return c.flags.ToRawKubeConfigLoader() }

// namespace returns the namespace of the context, or "default".
func (c *cluster) namespace() (string, error) {
	namespace, _, err := c.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return namespace, nil
}

// config returns the configuration of a client.
func (c *cluster) config() (*rest.Config, error) {
	loader := c.loader()
	kubeconfig, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	// Without any configuration, kubectl's default is a server on localhost, which is never meant.
	if clientcmdapi.IsConfigEmpty(&kubeconfig) && !runsInPod() {
		return nil, noClusterError()
	}
	if *c.flags.Context == "" && *c.flags.ClusterName == "" && kubeconfig.CurrentContext == "" && !runsInPod() {
		return nil, fmt.Errorf("no cluster is configured: the kubeconfig has no current context: set --context (available: %s)",
			prose.List(slices.Sorted(maps.Keys(kubeconfig.Contexts))))
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1                           // the API server limits clients itself
	config.WarningHandler = rest.NoWarnings{} // deprecated APIs are read because they exist
	return config, nil
}

// runsInPod reports whether this process runs in a pod.
func runsInPod() bool {
	_, err := rest.InClusterConfig()
	return !errors.Is(err, rest.ErrNotInCluster)
}

// noClusterError returns why no cluster is configured. For client-go it is not an error if a file that KUBECONFIG
// names does not exist, because KUBECONFIG may name several.
func noClusterError() error {
	list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	const next = "set KUBECONFIG or --kubeconfig, or run the line '. …/env' that 'ringmaster up' prints"
	if list == "" {
		return errors.New("no cluster is configured: " + next)
	}
	for _, path := range filepath.SplitList(list) {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("no cluster is configured: reading a file of KUBECONFIG: %w; "+next, err)
		}
	}
	return fmt.Errorf("no cluster is configured: KUBECONFIG is %s, which has no context; "+next, list)
}

// fileRing reads a ring from the file of the flag --filename.
func (c *cluster) fileRing(stdin io.Reader, name string) (*shardingv1alpha1.ControllerRing, error) {
	if c.file == "-" {
		ring, err := ringfile.Find(stdin, name)
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return ring, nil
	}
	file, err := os.Open(c.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ring, err := ringfile.Find(file, name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.file, err)
	}
	return ring, nil
}

// errNoRing is returned if the ControllerRing does not exist.
var errNoRing = errors.New("ControllerRing not found")

// errNoKind is returned if the CRD is not installed.
var errNoKind = fmt.Errorf("%w: the cluster does not serve ControllerRings", errNoRing)

// clusterRing reads a ring from the cluster.
func clusterRing(ctx context.Context, config *rest.Config, name string) (*shardingv1alpha1.ControllerRing, error) {
	scheme := runtime.NewScheme()
	if err := shardingv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	ring := &shardingv1alpha1.ControllerRing{}
	err = reader.Get(ctx, client.ObjectKey{Name: name}, ring)
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%w; install the sharder first", errNoKind)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %q (available: %s)", errNoRing, name, availableRings(ctx, reader))
	case err != nil:
		return nil, fmt.Errorf("reading the ring: %w", err)
	}
	return ring, nil
}

// availableRings returns the names of all ControllerRings.
func availableRings(ctx context.Context, reader client.Reader) string {
	list := &shardingv1alpha1.ControllerRingList{}
	if err := reader.List(ctx, list); err != nil || len(list.Items) == 0 {
		return "none"
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return strings.Join(names, ", ")
}
