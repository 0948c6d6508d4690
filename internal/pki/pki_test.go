package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/pki"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func open(t *testing.T, folder string) *pki.Authority {
	t.Helper()
	authority, err := pki.Open(folder, now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func TestAuthorityIsStored(t *testing.T) {
	folder := t.TempDir()
	first, second := open(t, folder), open(t, folder)
	if !bytes.Equal(first.Certificate(), second.Certificate()) {
		t.Error("the second time it is another one")
	}
	// What the one issued, the other vouches for.
	verify(t, first, second, pki.Identity{User: "a", Hosts: []string{"localhost"}}, "localhost", "")
}

func TestIssue(t *testing.T) {
	authority := open(t, t.TempDir())
	for name, test := range map[string]struct {
		identity pki.Identity
		host     string
		problem  string
	}{
		"a server by name":       {pki.Identity{Hosts: []string{"localhost"}}, "localhost", ""},
		"a server by address":    {pki.Identity{Hosts: []string{"127.0.0.1"}}, "127.0.0.1", ""},
		"a server of other name": {pki.Identity{Hosts: []string{"localhost"}}, "example.com", "not example.com"},
		"a client as a server":   {pki.Identity{User: "a"}, "localhost", "not valid for any names"},
		"a stranger's":           {pki.Identity{Hosts: []string{"localhost"}}, "localhost", "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			voucher := authority
			if name == "a stranger's" {
				voucher = open(t, t.TempDir())
			}
			verify(t, authority, voucher, test.identity, test.host, test.problem)
		})
	}
}

// verify checks a certificate of issuer as a client that trusts voucher does.
func verify(t *testing.T, issuer, voucher *pki.Authority, identity pki.Identity, host, problem string) {
	t.Helper()
	pair, err := issuer.Issue(identity)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(voucher.Certificate())
	_, err = loaded.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
	switch {
	case problem == "" && err != nil:
		t.Error(err)
	case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
		t.Errorf("got %v, want %q", err, problem)
	}
}

func TestCertificateHasUserAndGroups(t *testing.T) {
	pair, err := open(t, t.TempDir()).Issue(pki.Identity{User: "jane", Groups: []string{"staff"}})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	if subject := loaded.Leaf.Subject; subject.CommonName != "jane" || len(subject.Organization) != 1 || subject.Organization[0] != "staff" {
		t.Errorf("the certificate says %v", subject)
	}
}

func TestInvalidFilesAreNotReplaced(t *testing.T) {
	folder := t.TempDir()
	open(t, folder)
	path := filepath.Join(folder, "ca.crt")
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.Open(folder, now); err == nil || !strings.Contains(err.Error(), "authority's certificate") {
		t.Errorf("got %v", err)
	}
	if content, _ := os.ReadFile(path); string(content) != "broken" {
		t.Error("it was replaced")
	}
}
