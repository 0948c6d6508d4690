package agent_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/internal/pki"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// node issues a certificate for a node, and returns the TLS files of its members.
func node(t *testing.T, folder string, identity pki.Identity) agent.PeerTLS {
	t.Helper()
	g := NewWithT(t)
	authority, err := pki.Open(folder, time.Now())
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := authority.Issue(identity)
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(folder, "node")
	g.Expect(pair.Write(path)).To(Succeed())
	return agent.PeerTLS{Cert: path + ".crt", Key: path + ".key", CA: filepath.Join(folder, "ca.crt")}
}

// serves connects without a client certificate, and does not verify the server.
func serves(url string) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // only whether it uses TLS
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Get(url)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return errors.Join(err, answer.Body.Close())
}

var server = pki.Identity{User: "dc1", Hosts: []string{"127.0.0.1"}}

func TestPeerFilesAreChecked(t *testing.T) {
	good, other := node(t, rig.TempDir(t), server), node(t, rig.TempDir(t), server)
	empty := filepath.Join(rig.TempDir(t), "empty")
	NewWithT(t).Expect(os.WriteFile(empty, nil, 0o600)).To(Succeed())
	for name, test := range map[string]struct {
		peers agent.PeerTLS
		want  string
	}{
		"all is well":                   {good, ""},
		"no TLS":                        {agent.PeerTLS{}, ""},
		"no key":                        {agent.PeerTLS{Cert: good.Cert, CA: good.CA}, "set all of them, or none"},
		"an authority alone":            {agent.PeerTLS{CA: good.CA}, "set all of them, or none"},
		"no such certificate":           {agent.PeerTLS{Cert: empty + "s", Key: good.Key, CA: good.CA}, "no such file"},
		"the key of another":            {agent.PeerTLS{Cert: good.Cert, Key: other.Key, CA: good.CA}, "private key does not match"},
		"no such authority":             {agent.PeerTLS{Cert: good.Cert, Key: good.Key, CA: empty + "s"}, "no such file"},
		"an empty authority":            {agent.PeerTLS{Cert: good.Cert, Key: good.Key, CA: empty}, "has no certificate"},
		"another authority":             {agent.PeerTLS{Cert: good.Cert, Key: good.Key, CA: other.CA}, "unknown authority"},
		"a certificate of a client":     {node(t, rig.TempDir(t), pki.Identity{User: "dc1"}), "127.0.0.1"},
		"a certificate for another one": {node(t, rig.TempDir(t), pki.Identity{User: "dc1", Hosts: []string{"192.0.2.1"}}), "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			a, err := agent.New(agent.Options{
				Dir: rig.TempDir(t), Etcd: filepath.Join(rig.Assets(t), "etcd"), Region: "dc1", Peers: test.peers, Log: logr.Discard(),
			})
			if err == nil {
				g.Expect(a.Close()).To(Succeed())
			}
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			}
		})
	}
}

// A member keeps its address, with or without TLS, even if the agent is restarted with other options.
func TestPeerURLStays(t *testing.T) {
	g := NewWithT(t)
	options := agent.Options{Dir: rig.TempDir(t), Etcd: filepath.Join(rig.Assets(t), "etcd"), Region: "dc1", Log: logr.Discard()}
	open := func(peers agent.PeerTLS) *agent.Agent {
		options.Peers = peers
		a, err := agent.New(options)
		g.Expect(err).NotTo(HaveOccurred())
		return a
	}
	prepare := func(a *agent.Agent, id string) agent.Member {
		m, err := a.Prepare(id, "orders")
		g.Expect(err).NotTo(HaveOccurred())
		return m
	}
	a := open(agent.PeerTLS{})
	plain := prepare(a, "dc1-1")
	g.Expect(plain.PeerURL).To(HavePrefix("http://"))
	g.Expect(a.Close()).To(Succeed())

	peers := node(t, rig.TempDir(t), server)
	a = open(peers)
	g.Expect(prepare(a, "dc1-1").PeerURL).To(Equal(plain.PeerURL))
	secured := prepare(a, "dc1-2")
	g.Expect(secured.PeerURL).To(HavePrefix("https://"))
	for _, m := range []agent.Member{plain, secured} { // both start with the certificates
		started, err := a.Start(t.Context(), m.ID, order(1, "start "+m.ID), onlyMemberLaunch(m))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(started.Running).To(BeTrue(), started.Problem)
		g.Eventually(func() error { return serves(m.ClientURL + "/health") }).WithTimeout(testTimeout).Should(Succeed())
	}
	g.Expect(serves(plain.PeerURL + "/members")).To(Succeed())
	g.Expect(serves(strings.Replace(plain.PeerURL, "http://", "https://", 1) + "/members")).NotTo(Succeed())
	g.Expect(serves(strings.Replace(secured.PeerURL, "https://", "http://", 1) + "/members")).NotTo(Succeed())
	g.Expect(serves(secured.PeerURL+"/members")).To(MatchError(ContainSubstring("certificate")), "it wants to see one")
	g.Expect(a.Close()).To(Succeed())

	options.Peers = agent.PeerTLS{}
	_, err := agent.New(options)
	g.Expect(err).To(MatchError(ContainSubstring("member dc1-2 has a TLS peer address")))
	a = open(peers) // the failed agent has not locked the folder
	g.Expect(a.Close()).To(Succeed())
}
