// Package pki issues certificates for a control plane on one machine, whose authority is stored so that
// identities stay valid over restarts, and for the sharder's webhook.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityValidity   = 10 * 365 * 24 * time.Hour
	certificateValidity = 365 * 24 * time.Hour
	// backdate makes new certificates valid for processes with a slow clock, as some tests run.
	backdate = 24 * time.Hour
)

// Authority is a certificate authority.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	now         time.Time
}

// Identity is the subject of a certificate.
type Identity struct {
	// User and Groups are the user and groups of a Kubernetes client.
	User   string
	Groups []string
	// Hosts are the names and addresses of a server. A client certificate has none.
	Hosts []string
}

// Pair is a certificate and its key, PEM-encoded.
type Pair struct{ Certificate, Key []byte }

// Open reads the authority in ca.crt and ca.key of a folder, or creates them.
func Open(folder string, now time.Time) (*Authority, error) {
	path := filepath.Join(folder, "ca")
	pair, err := ReadPair(path)
	if errors.Is(err, fs.ErrNotExist) {
		if pair, err = New("ringmaster-ca", authorityValidity, now); err == nil {
			err = pair.Write(path)
		}
	}
	if err != nil {
		return nil, err
	}
	return Load(pair, now)
}

// New creates an authority, for Load.
func New(name string, validity time.Duration, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("creating the authority's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(validity),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Pair{}, fmt.Errorf("creating the authority's certificate: %w", err)
	}
	return encode(raw, key)
}

func newSerial() (*big.Int, error) {
	const bits = 127
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return serial, nil
}

// Load returns the authority with the certificate and key of a pair.
func Load(pair Pair, now time.Time) (*Authority, error) {
	certificate, key := firstBlock(pair.Certificate), firstBlock(pair.Key)
	parsed, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	signer, err := x509.ParseECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("reading the authority's key: %w", err)
	}
	return &Authority{certificate: parsed, key: signer, now: now}, nil
}

// firstBlock returns nil for content that is not PEM, which the parsers refuse with a better message.
func firstBlock(content []byte) []byte {
	if block, _ := pem.Decode(content); block != nil {
		return block.Bytes
	}
	return nil
}

// Certificate returns the authority's own certificate, PEM-encoded.
func (a *Authority) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Issue creates a key and a certificate that is valid for a year.
func (a *Authority) Issue(identity Identity) (Pair, error) {
	return a.IssueFor(identity, certificateValidity)
}

// IssueFor creates a key and a certificate with another validity.
func (a *Authority) IssueFor(identity Identity, validity time.Duration) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("creating the key of %s: %w", identity.User, err)
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: identity.User, Organization: identity.Groups},
		NotBefore:    a.now.Add(-backdate),
		NotAfter:     a.now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		// etcd and kubelets are servers and clients with one certificate.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(identity.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range identity.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("creating the certificate of %s: %w", identity.User, err)
	}
	return encode(raw, key)
}

// NewKey creates a key that signs other things than certificates, such as tokens.
func NewKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating a key: %w", err)
	}
	return encodeKey(key)
}

func encode(certificate []byte, key *ecdsa.PrivateKey) (Pair, error) {
	encoded, err := encodeKey(key)
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		Key:         encoded,
	}, err
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	// Not PKCS #8: the API server does not find the public half in that.
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), nil
}

// Write writes the pair as <path>.crt and <path>.key, readable by this user only.
func (p Pair) Write(path string) error {
	// The key first: a certificate without its key would be taken for a pair.
	return errors.Join(WriteFile(path+".key", p.Key), WriteFile(path+".crt", p.Certificate))
}

// WriteFile writes a file atomically, readable by this user only.
func WriteFile(path string, content []byte) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// ReadPair reads a pair that Write wrote.
func ReadPair(path string) (Pair, error) {
	certificate, err := os.ReadFile(path + ".crt")
	if err != nil {
		return Pair{}, err
	}
	key, err := os.ReadFile(path + ".key")
	return Pair{Certificate: certificate, Key: key}, err
}
