package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1alpha1 "github.com/ringmaster-project/ringmaster/api/config/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/sharder/certificates"
	"github.com/ringmaster-project/ringmaster/internal/sharder/metrics"
)

const (
	// certificateSecret is where the sharder stores the certificate that it issues itself.
	certificateSecret        = "sharder-webhook-cert" //nolint:gosec // a name, not a secret
	certificateValidity      = 90 * 24 * time.Hour
	certificateCheckInterval = time.Minute
)

// certificate is the webhook's certificate: issued by the sharder itself, or provided in a directory.
type certificate struct {
	dir string
	// name and key are the files in dir.
	name, key string
	rotator   *certificates.Rotator
}

func newCertificate(restConfig *rest.Config, scheme *runtime.Scheme, config *configv1alpha1.SharderConfig) (*certificate, error) {
	if dir := config.Webhook.Server.CertDir; dir != nil && *dir != "" {
		// Both servers reload the files when they change. Check them here to return a clear error.
		name, key := filepath.Join(*dir, *config.Webhook.Server.CertName), filepath.Join(*dir, *config.Webhook.Server.KeyName)
		if _, err := tls.LoadX509KeyPair(name, key); err != nil {
			return nil, fmt.Errorf("loading the certificate in webhook.server.certDir (without certDir, the sharder issues its own): %w", err)
		}
		return &certificate{dir: *dir, name: name, key: key}, nil
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
	err := errors.Join(mgr.AddReadyzCheck("certificate", c.ready), ctrlmetrics.Registry.Register(metrics.CertificateExpiry(c.expiresAt)))
	if c.rotator == nil {
		return err
	}
	return errors.Join(err, mgr.Add(c.rotator))
}

// expiresAt returns when the certificate expires, or the zero time without one.
func (c *certificate) expiresAt() time.Time {
	if c.rotator != nil {
		return c.rotator.ExpiresAt()
	}
	pair, err := tls.LoadX509KeyPair(c.name, c.key)
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// ready is a healthz.Checker that fails while the certificate has expired.
func (c *certificate) ready(request *http.Request) error {
	if c.rotator != nil {
		return c.rotator.Ready(request)
	}
	switch at := c.expiresAt(); {
	case at.IsZero():
		return fmt.Errorf("the webhook certificate %s cannot be read", c.name)
	case !time.Now().Before(at):
		return fmt.Errorf("the webhook certificate %s expired at %s", c.name, at.UTC().Format(time.RFC3339))
	}
	return nil
}

// clientAuthorities reads the authorities of client certificates. Without a file, all clients are accepted.
func clientAuthorities(file *string) (*x509.CertPool, error) {
	if file == nil || *file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(*file)
	if err != nil {
		return nil, fmt.Errorf("reading webhook.server.clientCAFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("webhook.server.clientCAFile %s has no certificate in PEM format", *file)
	}
	return pool, nil
}

// requireClients makes the webhook accept only clients with a certificate of these authorities, if there are any.
func requireClients(authorities *x509.CertPool) func(*tls.Config) {
	return func(config *tls.Config) {
		if authorities != nil {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, authorities
		}
	}
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
