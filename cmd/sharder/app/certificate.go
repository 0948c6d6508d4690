package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/certificates"
)

const (
	// certificateSecret is where the sharder stores the certificate that it issues itself.
	certificateSecret        = "sharder-webhook-cert" //nolint:gosec // a name, not a secret
	certificateValidity      = 90 * 24 * time.Hour
	certificateCheckInterval = time.Minute
)

// certificate is the webhook's certificate: issued by the sharder itself, or provided in a directory.
type certificate struct {
	dir     string
	rotator *certificates.Rotator
}

func newCertificate(restConfig *rest.Config, scheme *runtime.Scheme, config *configv1alpha1.SharderConfig) (*certificate, error) {
	if dir := config.Webhook.Server.CertDir; dir != nil && *dir != "" {
		// Both servers reload the files when they change. Check them here to return a clear error.
		name, key := filepath.Join(*dir, *config.Webhook.Server.CertName), filepath.Join(*dir, *config.Webhook.Server.KeyName)
		if _, err := tls.LoadX509KeyPair(name, key); err != nil {
			return nil, fmt.Errorf("loading the certificate in webhook.server.certDir (without certDir, the sharder issues its own): %w", err)
		}
		return &certificate{dir: *dir}, nil
	}
	direct, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return &certificate{rotator: &certificates.Rotator{
		Client:        direct,
		Secret:        types.NamespacedName{Namespace: config.LeaderElection.ResourceNamespace, Name: certificateSecret},
		Hosts:         hosts(config),
		Validity:      certificateValidity,
		CheckInterval: certificateCheckInterval,
		Clock:         clock.RealClock{},
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

// addTo adds the renewal of the certificate to the manager, and its readiness check.
func (c *certificate) addTo(mgr manager.Manager) error {
	if c.rotator == nil {
		return nil
	}
	return errors.Join(mgr.AddReadyzCheck("certificate", c.rotator.Ready), mgr.Add(c.rotator))
}

func (c *certificate) tlsOptions() []func(*tls.Config) {
	if c.rotator == nil {
		return nil
	}
	return []func(*tls.Config){func(config *tls.Config) { config.GetCertificate = c.rotator.GetCertificate }}
}

// Bundle is the CA bundle for API servers, or nil if the certificate is provided.
func (c *certificate) Bundle() []byte {
	if c.rotator == nil {
		return nil
	}
	return c.rotator.Bundle()
}

// Notify registers a function that is called when the bundle has changed.
func (c *certificate) Notify(changed func()) {
	if c.rotator != nil {
		c.rotator.Changed = changed
	}
}
