package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/ringfile"
)

// cluster is which cluster a command is about, and which file instead of it, as kubectl is told.
type cluster struct{ kubeconfig, context, file string }

func (c *cluster) addFlags(command *cobra.Command) {
	c.addClusterFlags(command)
	command.Flags().StringVarP(&c.file, "filename", "f", "", "file with the ControllerRing, or - for standard input")
}

// addClusterFlags are for a command that no file can help.
func (c *cluster) addClusterFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: as kubectl, $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&c.context, "context", "", "context in the kubeconfig (default: the current one)")
}

// loader reads the kubeconfig when it is asked to.
func (c *cluster) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.context}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

// namespace is that of the context, or "default".
func (c *cluster) namespace() (string, error) {
	namespace, _, err := c.loader().Namespace()
	if err != nil {
		return "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return namespace, nil
}

// config is the access to the cluster.
func (c *cluster) config() (*rest.Config, error) {
	config, err := c.loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, noCluster()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1                           // the server knows best what it can take
	config.WarningHandler = rest.NoWarnings{} // of old APIs, which are looked at because they are there
	return config, nil
}

// noCluster says why no cluster is known. A file that KUBECONFIG names and that is not there is no error to
// client-go, because there may be several.
func noCluster() error {
	named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	if named == "" {
		return errors.New("no cluster is known: set KUBECONFIG or --kubeconfig")
	}
	for _, path := range filepath.SplitList(named) {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("no cluster is known: KUBECONFIG names a file that cannot be read: %w", err)
		}
	}
	return fmt.Errorf("no cluster is known: KUBECONFIG names %s, which has none", named)
}

// fileRing is the ring in the file that was named.
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

// errNoRing is returned for a ring that the cluster does not have.
var errNoRing = errors.New("there is no such ControllerRing")

// errNoKind is returned if the cluster does not have the kind.
var errNoKind = fmt.Errorf("%w: the cluster does not know ControllerRings at all", errNoRing)

// clusterRing is the ring in the cluster.
func clusterRing(ctx context.Context, config *rest.Config, name string) (*shardingv1alpha1.ControllerRing, error) {
	scheme := runtime.NewScheme()
	if err := shardingv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	ring := &shardingv1alpha1.ControllerRing{}
	err = reader.Get(ctx, client.ObjectKey{Name: name}, ring)
	switch {
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("%w; install the sharder first", errNoKind)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w as %q; there %s", errNoRing, name, others(ctx, reader))
	case err != nil:
		return nil, fmt.Errorf("reading the ring: %w", err)
	}
	return ring, nil
}

// others tells which rings there are, for somebody who misspelt one.
func others(ctx context.Context, reader client.Reader) string {
	list := &shardingv1alpha1.ControllerRingList{}
	if err := reader.List(ctx, list); err != nil || len(list.Items) == 0 {
		return "is none"
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return "are: " + strings.Join(names, ", ")
}
