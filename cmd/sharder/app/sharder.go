// Package app is the command line of the sharder and what it is put together from.
package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder"
	"github.com/ringmaster-project/ringmaster/internal/sharder/certificates"
)

const (
	// certificateSecret is where the sharder keeps its certificate when it manages it itself.
	certificateSecret = "sharder-webhook-cert" //nolint:gosec // a name, not a secret
	certificateLife   = 90 * 24 * time.Hour
	certificatePeriod = time.Minute
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
		Long: `The sharder spreads the objects that a ControllerRing names over the instances of a
controller that join the ring. It assigns new objects as they pass the API server, moves
objects when instances come, go or die, and never says no to anybody's request.

Run two replicas: both serve the webhook, one moves objects.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			ctrl.SetLogger(zap.New(zap.UseDevMode(o.development)))
			mgr, err := o.manager()
			if err != nil {
				return err
			}
			return mgr.Start(command.Context())
		},
	}
	command.Flags().StringVar(&o.config, "config", "", "file with a SharderConfig (default: everything by default)")
	command.Flags().BoolVar(&o.development, "development", false, "write logs for people instead of machines")
	command.Flags().IntVar(&o.webhookPort, "webhook-port", 9443, "port of the webhook")
	return command
}

// manager puts everything together.
func (o *options) manager() (manager.Manager, error) {
	scheme, err := sharder.Scheme()
	if err != nil {
		return nil, err
	}
	config, err := readConfig(scheme, o.config)
	if err != nil {
		return nil, err
	}
	access, err := restConfig(config)
	if err != nil {
		return nil, fmt.Errorf("finding the API server (set KUBECONFIG outside a cluster): %w", err)
	}
	certificate, err := newCertificate(access, scheme, config)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(access, o.managerOptions(scheme, config, certificate))
	if err != nil {
		return nil, fmt.Errorf("setting up: %w", err)
	}
	if err := certificate.addTo(mgr); err != nil {
		return nil, err
	}
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker()),
		sharder.Add(mgr, config, certificate),
	); err != nil {
		return nil, err
	}
	return mgr, nil
}

func (o *options) managerOptions(scheme *runtime.Scheme, config *configv1alpha1.SharderConfig, certificate *certificate) manager.Options {
	options := manager.Options{
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
		LeaderElectionReleaseOnCancel: true, // the process ends when the manager does
		Metrics: metricsserver.Options{
			BindAddress:    config.Metrics.BindAddress,
			SecureServing:  true,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts:        certificate.tlsOptions(),
		},
		WebhookServer: webhook.NewServer(webhook.Options{
			Port:     o.webhookPort,
			CertDir:  certificate.dir,
			CertName: *config.Webhook.Server.CertName,
			KeyName:  *config.Webhook.Server.KeyName,
			TLSOpts:  certificate.tlsOptions(),
		}),
	}
	if *config.Debugging.EnableProfiling {
		options.PprofBindAddress = "127.0.0.1:8083"
	}
	return options
}

func restConfig(config *configv1alpha1.SharderConfig) (*rest.Config, error) {
	connection := config.ClientConnection
	var (
		access *rest.Config
		err    error
	)
	if connection.Kubeconfig != "" {
		access, err = clientcmd.BuildConfigFromFlags("", connection.Kubeconfig)
	} else {
		access, err = ctrl.GetConfig()
	}
	if err != nil {
		return nil, err
	}
	access.QPS, access.Burst = connection.QPS, int(connection.Burst)
	if connection.ContentType != "" {
		access.ContentType, access.AcceptContentTypes = connection.ContentType, connection.AcceptContentTypes
	}
	return access, nil
}

// certificate is the webhook's: kept by the sharder itself, or by somebody else in a folder.
type certificate struct {
	dir    string
	keeper *certificates.Keeper
}

func newCertificate(access *rest.Config, scheme *runtime.Scheme, config *configv1alpha1.SharderConfig) (*certificate, error) {
	if dir := config.Webhook.Server.CertDir; dir != nil && *dir != "" {
		for _, name := range []string{*config.Webhook.Server.CertName, *config.Webhook.Server.KeyName} {
			if _, err := os.Stat(filepath.Join(*dir, name)); err != nil {
				return nil, fmt.Errorf("looking for the webhook's certificate (without webhook.server.certDir the sharder makes its own): %w", err)
			}
		}
		return &certificate{dir: *dir}, nil
	}
	direct, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &certificate{keeper: &certificates.Keeper{
		Client: direct,
		Secret: types.NamespacedName{Namespace: config.LeaderElection.ResourceNamespace, Name: certificateSecret},
		Hosts:  hosts(config),
		Life:   certificateLife,
		Period: certificatePeriod,
		Clock:  clock.RealClock{},
	}}, nil
}

// hosts are the names under which API servers reach the webhook.
func hosts(config *configv1alpha1.SharderConfig) []string {
	if service := config.Webhook.Config.ClientConfig.Service; service != nil {
		name := service.Name + "." + service.Namespace
		return []string{name + ".svc", name}
	}
	parsed, err := url.Parse(*config.Webhook.Config.ClientConfig.URL)
	if err != nil || parsed.Hostname() == "" {
		return []string{"localhost"}
	}
	return []string{parsed.Hostname()}
}

// addTo lets the manager run what keeps the certificate valid.
func (c *certificate) addTo(mgr manager.Manager) error {
	if c.keeper == nil {
		return nil
	}
	return errors.Join(mgr.AddReadyzCheck("certificate", c.keeper.Ready), mgr.Add(c.keeper))
}

func (c *certificate) tlsOptions() []func(*tls.Config) {
	if c.keeper == nil {
		return nil
	}
	return []func(*tls.Config){func(config *tls.Config) { config.GetCertificate = c.keeper.GetCertificate }}
}

// Bundle is what API servers have to trust, or nothing if somebody else tells them.
func (c *certificate) Bundle() []byte {
	if c.keeper == nil {
		return nil
	}
	return c.keeper.Bundle()
}

// Notify makes changed be called when there is another bundle.
func (c *certificate) Notify(changed func()) {
	if c.keeper != nil {
		c.keeper.Changed = changed
	}
}
