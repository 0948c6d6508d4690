package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/confirm"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// storeOptions select the store that the participants share: an etcd if endpoints are given, otherwise a ConfigMap in a
// namespace.
type storeOptions struct {
	cluster
	endpoints         []string
	cacert, cert, key string
	inNamespace, name string
	root              string
}

// requestTimeout is the timeout of one request to the store.
const requestTimeout = 3 * time.Second

func (s *storeOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVar(&s.endpoints, "endpoints", nil, "URLs of the etcd that the participants share, such as http://127.0.0.1:2379 "+
		"(default: $"+coordinationstatus.EndpointsVariable+", unless a namespace or a cluster is given)")
	flags.StringVar(&s.cacert, "cacert", "", "file with the CA certificates that verify etcd's certificate")
	flags.StringVar(&s.cert, "cert", "", "file with the client certificate for etcd")
	flags.StringVar(&s.key, "key", "", "file with the private key of the client certificate")
	flags.StringVarP(&s.inNamespace, "namespace", "n", "", "namespace that the participants share, without --endpoints (default: the context's)")
	flags.StringVar(&s.name, "store-name", kubestore.DefaultName, "name of the ConfigMap in that namespace")
	flags.StringVar(&s.root, "root", coordination.DefaultRoot, "prefix of all keys")
	s.addClusterFlags(command)
}

// clusterFlags are the flags of a store in a cluster: all flags of kubectl that select a cluster or a user, too.
var clusterFlags = []string{"namespace", "store-name", "kubeconfig", "context", "cluster", "user", "as", "as-group", "as-uid"}

// useEnvironment takes the endpoints from the environment unless a flag selects the store. It reports whether it did.
func (s *storeOptions) useEnvironment(command *cobra.Command) bool {
	endpoints := os.Getenv(coordinationstatus.EndpointsVariable)
	if endpoints == "" || slices.ContainsFunc(append(clusterFlags, "endpoints"), command.Flags().Changed) {
		return false
	}
	s.endpoints = strings.Split(endpoints, ",")
	return true
}

// validate refuses invalid flags and flags that exclude each other.
func (s *storeOptions) validate(command *cobra.Command) error {
	if strings.HasSuffix(s.root, "/") || s.root == "" {
		return usage.SeeHelp(command, fmt.Errorf("invalid --root %q: it must not be empty nor end with a slash", s.root))
	}
	inEtcd := s.useEnvironment(command) || command.Flags().Changed("endpoints")
	excluded := []string{"cacert", "cert", "key"}
	if inEtcd {
		excluded = clusterFlags
	}
	for _, name := range excluded {
		if !command.Flags().Changed(name) {
			continue
		}
		if inEtcd {
			return usage.SeeHelp(command, fmt.Errorf("set either --endpoints, for a store in etcd, or --%s, for a store in a cluster", name))
		}
		return usage.SeeHelp(command, fmt.Errorf("--%s is for etcd: set --endpoints too", name))
	}
	if inEtcd && len(s.endpoints) == 0 {
		return usage.SeeHelp(command, errors.New("--endpoints is empty: set it to the URLs of the etcd"))
	}
	if (s.cert == "") != (s.key == "") {
		return usage.SeeHelp(command, errors.New("set both --cert and --key, or neither"))
	}
	return nil
}

// openedStore is a store with the words for messages about it.
type openedStore struct {
	kv.Store
	// description says where the store is, flags are the flags that select it, and checkCommand shows whether it is healthy.
	description, flags, checkCommand string
	// addresses are the addresses of an etcd.
	addresses []string
	close     func()
}

// pinnedStore returns the same entries for each read of the same paths. A transaction that is prepared with it has the
// versions of these entries as its conditions: what was shown is what is removed.
type pinnedStore struct {
	kv.Store
	read map[string]*kv.Snapshot // by paths
}

// pinned returns the same store, with the entries of the first reads.
func (o *openedStore) pinned() *openedStore {
	pinned := *o
	pinned.Store = &pinnedStore{o.Store, map[string]*kv.Snapshot{}}
	return &pinned
}

// Read implements kv.Store.
func (p *pinnedStore) Read(ctx context.Context, paths ...string) (*kv.Snapshot, error) {
	key := strings.Join(paths, "\n")
	if found := p.read[key]; found != nil {
		return found, nil
	}
	found, err := p.Store.Read(ctx, paths...)
	if err == nil {
		p.read[key] = found
	}
	return found, err
}

// open returns the selected store, without a request to it.
func (s *storeOptions) open(command *cobra.Command) (*openedStore, error) {
	if err := s.validate(command); err != nil {
		return nil, err
	}
	if len(s.endpoints) > 0 {
		return s.openEtcd(command)
	}
	config, err := s.config()
	if err != nil {
		return nil, fmt.Errorf("%w; for a store in etcd, set --endpoints", err)
	}
	if s.inNamespace == "" {
		if s.inNamespace, err = s.namespace(); err != nil {
			return nil, err
		}
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	store, err := kubestore.New(clients, kubestore.Options{Namespace: s.inNamespace, Name: s.name, Timeout: requestTimeout})
	if err != nil {
		return nil, usage.SeeHelp(command, err)
	}
	return &openedStore{
		Store: store, description: fmt.Sprintf("ConfigMap %s/%s", s.inNamespace, s.name), flags: s.changedFlags(command),
		checkCommand: fmt.Sprintf("kubectl get configmap -n %s %s", s.inNamespace, s.name), close: func() {},
	}, nil
}

// changedFlags returns the flags that select the store, as they were given.
func (s *storeOptions) changedFlags(command *cobra.Command) string {
	var all []string
	for _, name := range append(clusterFlags, "endpoints", "cacert", "cert", "key", "root") {
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			all = append(all, fmt.Sprintf(" --%s %s", name, strings.Trim(flag.Value.String(), "[]")))
		}
	}
	return strings.Join(all, "")
}

func (s *storeOptions) openEtcd(command *cobra.Command) (*openedStore, error) {
	var addresses []string
	for _, endpoint := range s.endpoints {
		address := endpoint // may have no scheme
		if strings.Contains(endpoint, "://") {
			parsed, err := url.Parse(endpoint)
			if err != nil || parsed.Host == "" {
				return nil, fmt.Errorf("invalid endpoint %q: use a URL such as http://127.0.0.1:2379", endpoint)
			}
			address = parsed.Host
		}
		addresses = append(addresses, address)
	}
	tlsConfig, err := s.tls()
	if err != nil {
		return nil, err
	}
	client, err := dialEtcd(s.endpoints, tlsConfig)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	endpoints := strings.Join(s.endpoints, ",")
	return &openedStore{
		Store: etcdstore.New(client, etcdstore.Options{Timeout: requestTimeout}), description: "etcd at " + endpoints,
		flags: s.changedFlags(command), checkCommand: "etcdctl endpoint health --endpoints " + endpoints,
		addresses: addresses, close: func() { client.Close() },
	}, nil
}

// dialEtcd returns a client that reconnects soon after an outage.
func dialEtcd(endpoints []string, tlsConfig *tls.Config) (*clientv3.Client, error) {
	const maxDelay, keepAlive = time.Second, 10 * time.Second
	delays := backoff.DefaultConfig
	delays.BaseDelay, delays.MaxDelay = maxDelay/10, maxDelay
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: tlsConfig, Logger: zap.NewNop(),
		DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAlive,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: delays, MinConnectTimeout: requestTimeout})},
	})
}

// tls returns the TLS configuration for etcd, or nil if no flag is set: then the scheme of the endpoints decides.
func (s *storeOptions) tls() (*tls.Config, error) {
	if s.cacert == "" && s.cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.cacert != "" {
		content, err := os.ReadFile(s.cacert)
		if err != nil {
			return nil, fmt.Errorf("reading --cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("reading --cacert: no certificate in %s", s.cacert)
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("reading --cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// explain adds the next step to an error of the store.
func (o *openedStore) explain(ctx context.Context, err error) error {
	refused, notConfirmed := &refusedError{}, &confirm.NotConfirmedError{}
	switch {
	case err == nil || ctx.Err() != nil || errors.As(err, &refused) || errors.As(err, &notConfirmed):
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w\nThe command needs permission to get the ConfigMap and to list the Leases in its namespace", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w\nLog in to the cluster again, or set another --context", err)
	case errors.Is(err, kv.ErrConflict):
		return fmt.Errorf("%w\nRun the command again", err)
	}
	return fmt.Errorf("cannot read %s: %w%s\nCheck that it is running, and that the addresses are correct: %s",
		o.description, err, o.connectErrors(ctx), o.checkCommand)
}

// connectErrors returns the errors of connections to the addresses: etcd's client reports only a timeout.
func (o *openedStore) connectErrors(ctx context.Context) string {
	const timeout = time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var text strings.Builder
	for _, address := range o.addresses {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			text.WriteString("\n  " + err.Error())
			continue
		}
		conn.Close()
	}
	return text.String()
}
