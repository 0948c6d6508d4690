// Package certificates issues and renews the webhook's certificate, so that no other component is
// needed.
//
// The certificate and its authority are in one Secret, which all replicas share. Any replica issues or
// renews them, with the Secret's resourceVersion as the precondition, so that one succeeds and the others
// load its result. The bundle has a renewed authority together with the previous one, so that API servers
// trust the certificates of both. The certificate is served from memory, without a volume or a restart.
package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ringmaster-project/ringmaster/internal/pki"
)

// The keys of the Secret besides those of a TLS Secret. The bundle has the trusted authorities.
const (
	authorityCertificate = "ca.crt"
	authorityKey         = "ca.key"
	bundle               = "bundle.crt"
)

// Rotator renews a certificate before it expires.
type Rotator struct {
	// Client reads and writes the Secret, without a cache.
	Client client.Client
	Secret types.NamespacedName
	// Hosts are the names under which API servers reach the webhook.
	Hosts []string
	// Validity is the validity of a certificate, which is renewed when a third of it is left. The
	// authority is valid for four times as long.
	Validity time.Duration
	// CheckInterval is the time between two checks.
	CheckInterval time.Duration
	Clock         clock.WithTicker
	// Changed is called when the bundle has changed.
	Changed func()

	current atomic.Pointer[loadedSecret]
}

// loadedSecret is the parsed content of the Secret.
type loadedSecret struct {
	version     string
	certificate *tls.Certificate
	bundle      []byte
}

// NeedLeaderElection is false: every replica serves the webhook.
func (r *Rotator) NeedLeaderElection() bool { return false }

// Start renews the certificate until ctx ends.
func (r *Rotator) Start(ctx context.Context) error {
	const retry = time.Second
	for {
		wait := r.CheckInterval
		if err := r.Sync(ctx); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "Failed to renew the webhook certificate, retrying")
			wait = min(retry, wait)
		}
		timer := r.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Sync loads the Secret, after creating or renewing it if necessary.
func (r *Rotator) Sync(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, r.Secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading the secret %s: %w", r.Secret, err)
	}
	renewed, err := r.renew(secret)
	if err != nil {
		return err
	}
	if renewed {
		if err := r.write(ctx, secret, missing); err != nil {
			return err
		}
	}
	return r.load(secret)
}

// write creates or updates the Secret. After a conflict, the next Sync loads the Secret of another replica.
func (r *Rotator) write(ctx context.Context, secret *corev1.Secret, missing bool) error {
	if missing {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: r.Secret.Namespace, Name: r.Secret.Name}
		secret.Type = corev1.SecretTypeTLS
		if err := r.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating the secret %s: %w", r.Secret, err)
		}
		return nil
	}
	if err := r.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("renewing the secret %s: %w", r.Secret, err)
	}
	return nil
}

// load starts to serve the certificate in the Secret.
func (r *Rotator) load(secret *corev1.Secret) error {
	before := r.current.Load()
	if before != nil && before.version == secret.ResourceVersion {
		return nil
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("reading the certificate in %s (delete the secret to get a new one): %w", r.Secret, err)
	}
	now := &loadedSecret{version: secret.ResourceVersion, certificate: &certificate, bundle: secret.Data[bundle]}
	r.current.Store(now)
	if before == nil || !bytes.Equal(before.bundle, now.bundle) {
		r.Changed()
	}
	return nil
}

// renew replaces the parts of the Secret that are missing, invalid or about to expire.
func (r *Rotator) renew(secret *corev1.Secret) (changed bool, err error) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	issuer, changed, err := r.renewAuthority(secret.Data)
	if err != nil {
		return false, err
	}
	if r.valid(secret.Data[corev1.TLSCertKey], r.Validity, secret.Data[bundle]) {
		return changed, nil
	}
	pair, err := issuer.IssueFor(pki.Identity{User: "sharder", Hosts: r.Hosts}, r.Validity)
	if err != nil {
		return false, err
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = pair.Certificate, pair.Key
	return true, nil
}

// renewAuthority renews the authority if necessary, and returns the one that issues certificates: the previous one
// while it is valid, because API servers do not trust the new one yet.
func (r *Rotator) renewAuthority(data map[string][]byte) (issuer *pki.Authority, changed bool, err error) {
	const authorityFactor = 4
	now := r.Clock.Now()
	before := pki.Pair{Certificate: data[authorityCertificate], Key: data[authorityKey]}
	issuer, err = pki.Load(before, now)
	usable := err == nil && r.canIssue(before.Certificate)
	if usable && r.valid(before.Certificate, authorityFactor*r.Validity, nil) {
		if len(data[bundle]) == 0 {
			data[bundle], changed = before.Certificate, true
		}
		return issuer, changed, nil
	}
	fresh, err := pki.New("sharder-webhook-ca", authorityFactor*r.Validity, now)
	if err != nil {
		return nil, false, err
	}
	data[bundle] = fresh.Certificate
	if usable {
		data[bundle] = append(bytes.Clone(fresh.Certificate), before.Certificate...)
	} else if issuer, err = pki.Load(fresh, now); err != nil {
		return nil, false, err
	}
	data[authorityCertificate], data[authorityKey] = fresh.Certificate, fresh.Key
	return issuer, true, nil
}

// canIssue reports whether an authority is valid for longer than a certificate that it would issue now.
func (r *Rotator) canIssue(certificate []byte) bool {
	parsed, err := parse(certificate)
	return err == nil && parsed.IsCA && r.Clock.Now().Add(r.Validity).Before(parsed.NotAfter)
}

// valid reports whether a certificate need not be renewed: a third of its validity is left, and one that is not
// an authority is signed by a trusted authority for all hosts.
func (r *Rotator) valid(certificate []byte, validity time.Duration, trusted []byte) bool {
	parsed, err := parse(certificate)
	if err != nil || r.Clock.Now().Add(validity/3).After(parsed.NotAfter) {
		return false
	}
	if trusted == nil {
		return parsed.IsCA
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	for _, host := range r.Hosts {
		if _, err := parsed.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: r.Clock.Now()}); err != nil {
			return false
		}
	}
	return true
}

func parse(certificate []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return nil, errors.New("not a PEM-encoded certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

var errNoCertificate = errors.New("the webhook has no certificate yet")

// GetCertificate implements tls.Config.GetCertificate.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := r.current.Load(); current != nil {
		return current.certificate, nil
	}
	return nil, errNoCertificate
}

// Bundle returns the CA bundle for API servers.
func (r *Rotator) Bundle() []byte {
	if current := r.current.Load(); current != nil {
		return current.bundle
	}
	return nil
}

// ExpiresAt returns when the certificate expires, or the zero time without one.
func (r *Rotator) ExpiresAt() time.Time {
	if current := r.current.Load(); current != nil {
		return current.certificate.Leaf.NotAfter
	}
	return time.Time{}
}

// Ready is a healthz.Checker that fails until there is a certificate, and while it has expired: API servers then do not
// trust this replica, and another one may have a valid certificate.
func (r *Rotator) Ready(*http.Request) error {
	switch at := r.ExpiresAt(); {
	case at.IsZero():
		return errNoCertificate
	case !r.Clock.Now().Before(at):
		return fmt.Errorf("the webhook certificate expired at %s", at.UTC().Format(time.RFC3339))
	}
	return nil
}
