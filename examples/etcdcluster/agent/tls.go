package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// PeerTLS names the files for mutual TLS between members: the certificate of this node, for servers and clients,
// its key, and the CA of all nodes. Without files, members use plain text.
type PeerTLS struct{ Cert, Key, CA string }

func (t PeerTLS) enabled() bool { return t != PeerTLS{} }

// check validates the files before a member fails because of them.
func (t PeerTLS) check() error {
	if !t.enabled() {
		return nil
	}
	if t.Cert == "" || t.Key == "" || t.CA == "" {
		return errors.New("TLS between members needs a certificate, a key and a CA: set all of them, or none")
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
	// A member is a server for members that dial it, and a client of members that it dials.
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

// flags returns the flags of etcd.
func (t PeerTLS) flags() []string {
	if !t.enabled() {
		return nil
	}
	return []string{
		"--peer-cert-file=" + t.Cert, "--peer-key-file=" + t.Key, "--peer-trusted-ca-file=" + t.CA, "--peer-client-cert-auth=true",
	}
}
