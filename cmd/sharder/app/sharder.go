// Package app is the command line of the sharder and sets up its manager.
package app

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/kubeversion"
	"github.com/ringmaster-project/ringmaster/internal/sharder"
	"github.com/ringmaster-project/ringmaster/internal/sharder/metricsauth"
)

// options are the flags.
type options struct {
	config      string
	development bool
	webhookPort int
}

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "sharder",
		Short: "Spread the objects of ControllerRings over the shards that join them",
		Long: `The sharder distributes the objects of each ControllerRing over the instances of a controller
that join the ring as shards. It assigns new objects at admission, moves objects when shards
join, leave or die, and never rejects a request.

Run two replicas: both serve the webhook, and the leader moves objects.`,
		Example: `  # Run with the defaults
  sharder

  # Run outside a cluster, with a configuration file
  KUBECONFIG=kubeconfig sharder --config config.yaml`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			ctrl.SetLogger(zap.New(zap.UseDevMode(o.development)))
			if err := limitMemory(); err != nil {
				return err
			}
			mgr, err := o.manager()
			if err != nil {
				return err
			}
			return kubeversion.Guard(command.Context(), kubeversion.ServerVersion(mgr.GetConfig()), mgr.Start)
		},
	}
	command.Flags().StringVar(&o.config, "config", "", "path of a SharderConfig file (default: built-in defaults)")
	command.Flags().BoolVar(&o.development, "development", false, "write human-readable logs instead of JSON")
	command.Flags().IntVar(&o.webhookPort, "webhook-port", 9443, "port of the webhook server")
	return command
}

// manager sets up the manager with the sharder.
func (o *options) manager() (manager.Manager, error) {
	if o.webhookPort < 1 || o.webhookPort > 65535 {
		return nil, fmt.Errorf("--webhook-port %d: must be between 1 and 65535", o.webhookPort)
	}
	scheme, err := sharder.Scheme()
	if err != nil {
		return nil, err
	}
	config, err := readConfig(scheme, o.config)
	if err != nil {
		return nil, err
	}
	restConfig, err := loadRESTConfig(config)
	if err != nil {
		return nil, fmt.Errorf("loading the client configuration (outside a cluster, set KUBECONFIG or clientConnection.kubeconfig): %w", err)
	}
	certificate, err := newCertificate(restConfig, scheme, config)
	if err != nil {
		return nil, err
	}
	clients, err := clientAuthorities(config.Webhook.Server.ClientCAFile)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(restConfig, o.managerOptions(scheme, config, certificate, clients))
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	if err := certificate.addTo(mgr); err != nil {
		return nil, err
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
		sharder.Add(mgr, config, certificate),
	); err != nil {
		return nil, fmt.Errorf("setting up the sharder: %w", err)
	}
	return mgr, nil
}

func (o *options) managerOptions(scheme *runtime.Scheme, config *configv1alpha1.SharderConfig, certificate *certificate, clients *x509.CertPool) manager.Options {
	return manager.Options{
		Scheme:                        scheme,
		Cache:                         sharder.CacheOptions(),
		HealthProbeBindAddress:        config.Health.BindAddress,
		GracefulShutdownTimeout:       &config.GracefulShutDown.Duration,
		LeaderElection:                *config.LeaderElection.LeaderElect,
		LeaderElectionID:              config.LeaderElection.ResourceName,
		LeaderElectionNamespace:       config.LeaderElection.ResourceNamespace,
		LeaderElectionResourceLock:    config.LeaderElection.ResourceLock,
		LeaseDuration:                 &config.LeaderElection.LeaseDuration.Duration,
		RenewDeadline:                 &config.LeaderElection.RenewDeadline.Duration,
		RetryPeriod:                   &config.LeaderElection.RetryPeriod.Duration,
		LeaderElectionReleaseOnCancel: true, // the process exits when the manager stops
		Metrics: metricsserver.Options{
			BindAddress:    config.Metrics.BindAddress,
			SecureServing:  true,
			FilterProvider: metricsauth.Filter,
			ExtraHandlers:  profiles(config),
			CertDir:        certificate.dir,
			CertName:       *config.Webhook.Server.CertName,
			KeyName:        *config.Webhook.Server.KeyName,
			TLSOpts:        certificate.tlsOptions(),
		},
		WebhookServer: webhook.NewServer(webhook.Options{
			Port:     o.webhookPort,
			CertDir:  certificate.dir,
			CertName: *config.Webhook.Server.CertName,
			KeyName:  *config.Webhook.Server.KeyName,
			TLSOpts:  append(certificate.tlsOptions(), requireClients(clients)),
		}),
	}
}

func loadRESTConfig(config *configv1alpha1.SharderConfig) (*rest.Config, error) {
	connection := config.ClientConnection
	var (
		restConfig *rest.Config
		err        error
	)
	if connection.Kubeconfig != "" {
		restConfig, err = clientcmd.BuildConfigFromFlags("", connection.Kubeconfig)
	} else {
		restConfig, err = ctrl.GetConfig()
	}
	if err != nil {
		return nil, err
	}
	restConfig.QPS, restConfig.Burst = connection.QPS, int(connection.Burst)
	restConfig.ContentType = cmp.Or(connection.ContentType, restConfig.ContentType)
	restConfig.AcceptContentTypes = cmp.Or(connection.AcceptContentTypes, restConfig.AcceptContentTypes)
	return restConfig, nil
}
