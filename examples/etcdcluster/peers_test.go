package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// checkPeers checks that members accept only nodes with a certificate of the regions' authority.
func (w *fixture) checkPeers() {
	w.t.Helper()
	foreign := rig.TempDir(w.t)
	certificates := func(path string) []tls.Certificate {
		pair, err := tls.LoadX509KeyPair(path+".crt", path+".key")
		w.Expect(err).NotTo(HaveOccurred())
		return []tls.Certificate{pair}
	}
	authority, err := os.ReadFile(filepath.Join(w.pki, "ca.crt"))
	w.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	w.Expect(roots.AppendCertsFromPEM(authority)).To(BeTrue())
	ask := func(url string, certificates []tls.Certificate) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}}
		defer transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(url + "/members")
		if err == nil {
			err = answer.Body.Close()
			w.Expect(answer.StatusCode).To(Equal(http.StatusOK))
		}
		return err
	}
	for _, m := range w.currentState().Members {
		w.Expect(m.PeerURLs).To(HaveLen(1))
		url := m.PeerURLs[0]
		w.Expect(url).To(HavePrefix("https://"))
		w.Expect(ask(url, certificates(filepath.Join(w.pki, "dc1")))).To(Succeed(), "that of a node of another region, or its own")
		w.Expect(ask(url, certificates(certify(w.t, foreign, "dc1")))).To(MatchError(ContainSubstring("certificate")), "that of a foreign authority")
		w.Expect(ask(url, nil)).To(MatchError(ContainSubstring("certificate")), "none")
		w.Expect(ask(strings.Replace(url, "https://", "http://", 1), nil)).NotTo(Succeed(), "no TLS")
	}
}
