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

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/usage"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kubestore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// storeAt is where instances meet: in etcd, if it has endpoints, or else in a namespace of a cluster.
type storeAt struct {
	cluster
	endpoints         []string
	cacert, cert, key string
	in, name          string
	root              string
}

// storePatience is how long a person waits for one answer.
const storePatience = 3 * time.Second

func (s *storeAt) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVar(&s.endpoints, "endpoints", nil, "addresses of the etcd in which the instances meet, such as http://127.0.0.1:2379 "+
		"(default: $"+coordinationstatus.EndpointsVariable+", unless a namespace or a cluster is named)")
	flags.StringVar(&s.cacert, "cacert", "", "file with the certificates that etcd's own has to be signed by")
	flags.StringVar(&s.cert, "cert", "", "file with a certificate to show to etcd")
	flags.StringVar(&s.key, "key", "", "file with the key of that certificate")
	flags.StringVarP(&s.in, "namespace", "n", "", "namespace in which the instances meet, without --endpoints (default: the context's)")
	flags.StringVar(&s.name, "store-name", kubestore.DefaultName, "name of the ConfigMap in that namespace")
	flags.StringVar(&s.root, "root", coordination.DefaultRoot, "path below which all keys are")
	s.addClusterFlags(command)
}

// inCluster are the flags for instances that meet in a cluster.
var inCluster = []string{"namespace", "store-name", "kubeconfig", "context"}

// fromEnvironment finds the endpoints that another terminal was told, if nothing else is named.
func (s *storeAt) fromEnvironment(command *cobra.Command) bool {
	named := os.Getenv(coordinationstatus.EndpointsVariable)
	if named == "" || slices.ContainsFunc(append(inCluster, "endpoints"), command.Flags().Changed) {
		return false
	}
	s.endpoints = strings.Split(named, ",")
	return true
}

// check refuses what does not go together.
func (s *storeAt) check(command *cobra.Command) error {
	if strings.HasSuffix(s.root, "/") || s.root == "" {
		return usage.SeeHelp(command, fmt.Errorf("--root %q is no path of keys: it must not be empty nor end with a slash", s.root))
	}
	of := map[bool][]string{
		true:  inCluster,
		false: {"cacert", "cert", "key"},
	}
	inEtcd := s.fromEnvironment(command) || command.Flags().Changed("endpoints")
	for _, name := range of[inEtcd] {
		if !command.Flags().Changed(name) {
			continue
		}
		if inEtcd {
			return usage.SeeHelp(command, fmt.Errorf("either --endpoints, for instances that meet in etcd, or --%s, for those that meet in a cluster", name))
		}
		return usage.SeeHelp(command, fmt.Errorf("--%s is for etcd: name its --endpoints", name))
	}
	if inEtcd && len(s.endpoints) == 0 {
		return usage.SeeHelp(command, errors.New("--endpoints names no address"))
	}
	if (s.cert == "") != (s.key == "") {
		return usage.SeeHelp(command, errors.New("--cert and --key go together"))
	}
	return nil
}

// opened is a store that can be read.
type opened struct {
	kv.Store
	// where says which one it is, flags how it is named, check is what a person types to see whether it is well.
	where, flags, check string
	// addresses are where it should take connections, as far as they were given.
	addresses []string
	close     func()
}

// open prepares the access to the store. It does not ask it anything.
func (s *storeAt) open(command *cobra.Command) (*opened, error) {
	if err := s.check(command); err != nil {
		return nil, err
	}
	if len(s.endpoints) > 0 {
		return s.openEtcd(command)
	}
	config, err := s.config()
	if err != nil {
		return nil, fmt.Errorf("%w, or name the --endpoints of an etcd", err)
	}
	if s.in == "" {
		if s.in, err = s.namespace(); err != nil {
			return nil, err
		}
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	store, err := kubestore.New(clients, kubestore.Options{Namespace: s.in, Name: s.name, Timeout: storePatience})
	if err != nil {
		return nil, usage.SeeHelp(command, err)
	}
	return &opened{
		Store: store, where: fmt.Sprintf("the ConfigMap %s in the namespace %s", s.name, s.in), flags: s.typed(command),
		check: fmt.Sprintf("kubectl get configmap -n %s %s", s.in, s.name), close: func() {},
	}, nil
}

// typed are the flags that name the store, as they were typed.
func (s *storeAt) typed(command *cobra.Command) string {
	var all []string
	for _, name := range append(inCluster, "endpoints", "cacert", "cert", "key", "root") {
		if flag := command.Flags().Lookup(name); flag != nil && flag.Changed {
			all = append(all, fmt.Sprintf(" --%s %s", name, strings.Trim(flag.Value.String(), "[]")))
		}
	}
	return strings.Join(all, "")
}

func (s *storeAt) openEtcd(command *cobra.Command) (*opened, error) {
	var addresses []string
	for _, endpoint := range s.endpoints {
		address := endpoint // which may be without a scheme
		if strings.Contains(endpoint, "://") {
			parsed, err := url.Parse(endpoint)
			if err != nil || parsed.Host == "" {
				return nil, fmt.Errorf("%q is no address of an etcd, such as http://127.0.0.1:2379", endpoint)
			}
			address = parsed.Host
		}
		addresses = append(addresses, address)
	}
	security, err := s.tls()
	if err != nil {
		return nil, err
	}
	client, err := dialEtcd(s.endpoints, security)
	if err != nil {
		return nil, fmt.Errorf("reaching etcd: %w", err)
	}
	named := strings.Join(s.endpoints, ",")
	return &opened{
		Store: etcdstore.New(client, etcdstore.Options{Timeout: storePatience}), where: "the etcd at " + named, flags: s.typed(command),
		check: "etcdctl endpoint health --endpoints " + named, addresses: addresses, close: func() { client.Close() },
	}, nil
}

// dialEtcd makes a client that notices soon when etcd is back.
func dialEtcd(endpoints []string, security *tls.Config) (*clientv3.Client, error) {
	const pause, alive = time.Second, 10 * time.Second
	delays := backoff.DefaultConfig
	delays.BaseDelay, delays.MaxDelay = pause/10, pause
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: security, Logger: zap.NewNop(),
		DialKeepAliveTime: alive, DialKeepAliveTimeout: alive,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: delays, MinConnectTimeout: storePatience})},
	})
}

// tls is how etcd is trusted, or nil where that is the business of the addresses.
func (s *storeAt) tls() (*tls.Config, error) {
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
			return nil, fmt.Errorf("reading --cacert: there is no certificate in %s", s.cacert)
		}
	}
	if s.cert != "" {
		own, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("reading --cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// explain says what to do about a store that does not answer.
func (o *opened) explain(ctx context.Context, err error) error {
	known := &refusedError{}
	switch {
	case err == nil || ctx.Err() != nil || errors.As(err, &known):
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w\nTo look, you need to get that ConfigMap and to list the Leases beside it", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w\nThe cluster does not know who you are: log in again, or name another --context", err)
	case errors.Is(err, kv.ErrConflict):
		return fmt.Errorf("%w\nRun it again", err)
	}
	return fmt.Errorf("%s cannot be read: %w%s\nIs it there, and are these the right addresses? See: %s", o.where, err, o.refusals(ctx), o.check)
}

// refusals say which addresses take no connection: etcd's client says only that it has waited long enough.
func (o *opened) refusals(ctx context.Context) string {
	const moment = time.Second
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	var said strings.Builder
	for _, address := range o.addresses {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			said.WriteString("\n  " + err.Error())
			continue
		}
		conn.Close()
	}
	return said.String()
}
