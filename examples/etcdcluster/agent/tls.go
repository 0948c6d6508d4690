package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// PeerTLS names the files with which members prove to each other that they belong together: a certificate of this node, for a
// server and for a client, its key, and the authority that signs the certificates of all nodes. Without any, members talk in
// plain text.
type PeerTLS struct{ Cert, Key, CA string }

func (t PeerTLS) enabled() bool { return t != PeerTLS{} }

// check finds errors in the files before any member fails because of them.
func (t PeerTLS) check() error {
	if !t.enabled() {
		return nil
	}
	if t.Cert == "" || t.Key == "" || t.CA == "" {
		return errors.New("TLS between members needs a certificate, its key and a CA: give all of them, or none")
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return fmt.Errorf("TLS between members: %w", err)
	}
	authority, err := os.ReadFile(t.CA)
	if err != nil {
		return fmt.Errorf("TLS between members: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return fmt.Errorf("TLS between members: %s has no certificate in PEM", t.CA)
	}
	intermediates := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if parsed, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(parsed)
		}
	}
	// A member is a server for those that dial it, and a client of those that it dials.
	for usage, name := range map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "server", x509.ExtKeyUsageClientAuth: "client"} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{
			DNSName: loopback, Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		if err != nil {
			return fmt.Errorf("TLS between members: %s is not a valid certificate for a %s at %s: %w", t.Cert, name, loopback, err)
		}
	}
	return nil
}

// flags are those of etcd.
func (t PeerTLS) flags() []string {
	if !t.enabled() {
		return nil
	}
	return []string{
		"--peer-cert-file=" + t.Cert, "--peer-key-file=" + t.Key, "--peer-trusted-ca-file=" + t.CA, "--peer-client-cert-auth=true",
	}
}
