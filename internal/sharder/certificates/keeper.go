// Package certificates keeps the webhook's certificate valid, so that nothing else has to be
// installed for that.
//
// The certificate and the authority that vouches for it are in one Secret, which all replicas
// share. Any replica makes or renews them, with the Secret's resourceVersion as the precondition, so
// that exactly one succeeds and the others take over what it made. A renewed authority is announced
// together with the one before, so that API servers trust both kinds of replicas meanwhile. The
// certificate is served from memory: no volume, no restart, no waiting for a kubelet.
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

// The keys of the Secret. The first two are those of a TLS Secret, the bundle is what to trust.
const (
	authorityCertificate = "ca.crt"
	authorityKey         = "ca.key"
	bundle               = "bundle.crt"
)

// Keeper keeps a certificate valid.
type Keeper struct {
	// Client reads and writes the Secret, past any cache.
	Client client.Client
	Secret types.NamespacedName
	// Hosts are the names under which API servers reach the webhook.
	Hosts []string
	// Life is how long a certificate is good for, a third of which is left when it is renewed. The
	// authority lives four times as long.
	Life time.Duration
	// Period is how often to look.
	Period time.Duration
	Clock  clock.WithTicker
	// Changed is told when there is another bundle.
	Changed func()

	current atomic.Pointer[held]
}

// held is what the Secret has, ready for use.
type held struct {
	version     string
	certificate *tls.Certificate
	bundle      []byte
}

// NeedLeaderElection is false: every replica serves the webhook.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate valid until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	const retry = time.Second
	for {
		wait := k.Period
		if err := k.Sync(ctx); err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "Could not renew the webhook certificate, retrying")
			wait = min(retry, wait)
		}
		timer := k.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Sync reads the Secret, and makes or renews what is in it if need be.
func (k *Keeper) Sync(ctx context.Context) error {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, k.Secret, secret)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("reading the secret %s: %w", k.Secret, err)
	}
	renewed, err := k.renew(secret)
	if err != nil {
		return err
	}
	if renewed {
		if err := k.write(ctx, secret, missing); err != nil {
			return err
		}
	}
	return k.take(secret)
}

// write writes the Secret. When another replica was faster, its one is read the next time.
func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, missing bool) error {
	if missing {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: k.Secret.Namespace, Name: k.Secret.Name}
		secret.Type = corev1.SecretTypeTLS
		if err := k.Client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating the secret %s: %w", k.Secret, err)
		}
		return nil
	}
	if err := k.Client.Update(ctx, secret); err != nil {
		return fmt.Errorf("renewing the secret %s: %w", k.Secret, err)
	}
	return nil
}

// take starts to use what the Secret has.
func (k *Keeper) take(secret *corev1.Secret) error {
	before := k.current.Load()
	if before != nil && before.version == secret.ResourceVersion {
		return nil
	}
	certificate, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("reading the certificate in %s (delete the secret to get a new one): %w", k.Secret, err)
	}
	now := &held{version: secret.ResourceVersion, certificate: &certificate, bundle: secret.Data[bundle]}
	k.current.Store(now)
	if before == nil || !bytes.Equal(before.bundle, now.bundle) {
		k.Changed()
	}
	return nil
}

// renew changes what in the Secret is missing, broken or about to expire.
func (k *Keeper) renew(secret *corev1.Secret) (changed bool, err error) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	issuer, changed, err := k.renewAuthority(secret.Data)
	if err != nil {
		return false, err
	}
	if k.good(secret.Data[corev1.TLSCertKey], k.Life, secret.Data[bundle]) {
		return changed, nil
	}
	pair, err := issuer.IssueFor(pki.Identity{User: "sharder", Hosts: k.Hosts}, k.Life)
	if err != nil {
		return false, err
	}
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = pair.Certificate, pair.Key
	return true, nil
}

// renewAuthority renews the authority if need be, and returns the one that is to issue now: the one
// before, for as long as it is good, because API servers are only about to hear of the new one.
func (k *Keeper) renewAuthority(data map[string][]byte) (issuer *pki.Authority, changed bool, err error) {
	const lives = 4
	now := k.Clock.Now()
	before := pki.Pair{Certificate: data[authorityCertificate], Key: data[authorityKey]}
	issuer, err = pki.Load(before, now)
	usable := err == nil && k.vouches(before.Certificate)
	if usable && k.good(before.Certificate, lives*k.Life, nil) {
		if len(data[bundle]) == 0 {
			data[bundle], changed = before.Certificate, true
		}
		return issuer, changed, nil
	}
	fresh, err := pki.New("sharder-webhook-ca", lives*k.Life, now)
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

// vouches tells whether an authority is good for as long as a certificate that it would issue now.
func (k *Keeper) vouches(certificate []byte) bool {
	parsed, err := parse(certificate)
	return err == nil && parsed.IsCA && k.Clock.Now().Add(k.Life).Before(parsed.NotAfter)
}

// good tells whether a certificate need not be renewed: a third of its life is left, and, for one
// that is not an authority's, a trusted authority vouches for it under all names.
func (k *Keeper) good(certificate []byte, life time.Duration, trusted []byte) bool {
	parsed, err := parse(certificate)
	if err != nil || k.Clock.Now().Add(life/3).After(parsed.NotAfter) {
		return false
	}
	if trusted == nil {
		return parsed.IsCA
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	for _, host := range k.Hosts {
		if _, err := parsed.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: k.Clock.Now()}); err != nil {
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

// GetCertificate is for a tls.Config.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if current := k.current.Load(); current != nil {
		return current.certificate, nil
	}
	return nil, errNoCertificate
}

// Bundle is what API servers have to trust.
func (k *Keeper) Bundle() []byte {
	if current := k.current.Load(); current != nil {
		return current.bundle
	}
	return nil
}

// Ready is a readiness check: there is a certificate.
func (k *Keeper) Ready(*http.Request) error {
	if k.current.Load() == nil {
		return errNoCertificate
	}
	return nil
}
