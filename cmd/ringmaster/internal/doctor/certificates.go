package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// A sixth of its lifetime is left when a certificate counts as expiring. It should have been renewed by
// then: the sharder and cert-manager do so when a third is left. Users may renew those with a long lifetime
// later.
const expiringFraction, maxExpiring = 6, 30 * 24 * time.Hour

// parseCertificates returns the certificates in PEM.
func parseCertificates(content []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, certificate)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate found")
	}
	return all, nil
}

// latest returns the certificate that expires last.
func latest(certificates []*x509.Certificate) *x509.Certificate {
	last := certificates[0]
	for _, certificate := range certificates {
		if certificate.NotAfter.After(last.NotAfter) {
			last = certificate
		}
	}
	return last
}

func isExpired(certificate *x509.Certificate, now time.Time) bool {
	return now.After(certificate.NotAfter)
}

func isExpiring(certificate *x509.Certificate, now time.Time) bool {
	lifetime := certificate.NotAfter.Sub(certificate.NotBefore)
	return now.After(certificate.NotAfter.Add(-min(lifetime/expiringFraction, maxExpiring)))
}

const date = "2006-01-02 15:04 MST"

// evaluateAuthority judges the CA bundle of a webhook, and the certificate that the sharder serves.
func evaluateAuthority(c *Check, f *Facts, ring, object string, client *admissionregistrationv1.WebhookClientConfig) {
	if len(client.CABundle) == 0 && client.URL != nil {
		return // the API server uses the roots of its system
	}
	renew := fmt.Sprintf("check that the sharder runs, or cert-manager if it issues the certificate: kubectl -n %s get pods,secrets", f.Sharder.Namespace)
	add := func(reason Reason, status Status, object, cause string) {
		c.add(Finding{Reason: reason, Status: status, Ring: ring, Object: object, Cause: cause, Next: renew})
	}
	bundle, err := parseCertificates(client.CABundle)
	if err != nil {
		add(CABundleInvalid, Failure, object, fmt.Sprintf("caBundle is invalid (%v), so API servers cannot verify the sharder and do not call it", err))
		return
	}
	switch last := latest(bundle); {
	case isExpired(last, f.Now):
		add(CAExpired, Failure, object, fmt.Sprintf("the CA in caBundle expired on %s, so API servers do not call the sharder", last.NotAfter.UTC().Format(date)))
	case isExpiring(last, f.Now):
		add(CAExpiring, Warning, object, fmt.Sprintf("the CA in caBundle expires on %s and was not renewed", last.NotAfter.UTC().Format(date)))
	}
	if !f.Certificate.known() || len(f.Certificate.Value) == 0 {
		return
	}
	secret := "Secret/" + f.Sharder.Namespace + "/" + f.CertificateSecret
	serving, err := parseCertificates(f.Certificate.Value)
	if err != nil {
		add(CertificateNotTrusted, Failure, secret, fmt.Sprintf("tls.crt is invalid: %v", err))
		return
	}
	leaf := serving[0]
	switch {
	case isExpired(leaf, f.Now):
		add(CertificateExpired, Failure, secret, fmt.Sprintf("the serving certificate expired on %s, so API servers do not call the sharder", leaf.NotAfter.UTC().Format(date)))
		return
	case isExpiring(leaf, f.Now):
		add(CertificateExpiring, Warning, secret, fmt.Sprintf("the serving certificate expires on %s and was not renewed", leaf.NotAfter.UTC().Format(date)))
	}
	if err := verify(serving, bundle, host(client), f.Now); err != nil && !isExpired(latest(bundle), f.Now) {
		add(CertificateNotTrusted, Failure, secret, fmt.Sprintf("API servers do not trust the serving certificate, because caBundle of %s does not match it: %v", object, err))
	}
}

func verify(chain, bundle []*x509.Certificate, host string, now time.Time) error {
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now, DNSName: host}
	for _, certificate := range bundle {
		options.Roots.AddCert(certificate)
	}
	for _, certificate := range chain[1:] {
		options.Intermediates.AddCert(certificate)
	}
	_, err := chain[0].Verify(options)
	return err
}

// host is the name that the certificate must have.
func host(client *admissionregistrationv1.WebhookClientConfig) string {
	if client.Service != nil {
		return client.Service.Name + "." + client.Service.Namespace + ".svc"
	}
	if client.URL != nil {
		if parsed, err := url.Parse(*client.URL); err == nil {
			return parsed.Hostname()
		}
	}
	return ""
}
