//go:build faults

package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	"github.com/ringmaster-project/ringmaster/internal/process"
	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// link is what one region says to another.
type link struct{ from, to string }

// peerNetwork lies between the members of all regions. They dial it at the addresses that they know from each other, and it dials
// the member that listens behind it. It knows by their certificates who dials.
type peerNetwork struct {
	t testing.TB
	// folder has the ports behind which members listen, by those that others know, and etcd is a program that reads them.
	folder, etcd string
	ended        chan struct{}
	working      sync.WaitGroup

	mu   sync.Mutex
	held map[link]chan struct{} // closed when it is healed
	sent map[link]int64
	// kept is how often something was held back since the last time that it was healed.
	kept int
}

// wrapped is an etcd that listens for its peers behind the network.
const wrapped = `#!/bin/sh
for arg; do
	case $arg in --listen-peer-urls=*) port=${arg##*:} ;; esac
done
if [ -n "$port" ]; then
	until [ -s "%[1]s/$port" ]; do sleep 0.05; done
	read -r behind <"%[1]s/$port"
fi
for arg; do
	shift
	case $arg in --listen-peer-urls=*) arg=${arg%%:*}:$behind ;; esac
	set -- "$@" "$arg"
done
exec "%[2]s" "$@"
`

func newPeerNetwork(t *testing.T) *peerNetwork {
	t.Helper()
	n := &peerNetwork{
		t: t, folder: rig.TempDir(t), ended: make(chan struct{}), held: map[link]chan struct{}{}, sent: map[link]int64{},
	}
	n.etcd = filepath.Join(n.folder, "etcd")
	if err := os.WriteFile(n.etcd, fmt.Appendf(nil, wrapped, n.folder, filepath.Join(rig.Assets(t), "etcd")), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(n.ended); n.working.Wait() })
	return n
}

// prepare puts the network before all members of a region, as soon as they have addresses.
func (n *peerNetwork) prepare(r *region) {
	r.etcd = n.etcd
	client, err := agent.NewClient("http://" + r.address)
	r.w.Expect(err).NotTo(HaveOccurred())
	n.working.Go(func() {
		known := map[string]bool{}
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-n.ended:
				return
			case <-again.C:
			}
			members, err := client.Members(n.t.Context())
			if err != nil {
				continue // it is not there yet
			}
			for _, m := range members {
				if !known[m.PeerURL] {
					known[m.PeerURL] = true
					if err := n.open(r, m.PeerURL); err != nil {
						n.t.Errorf("opening the network before %s: %v", m.ID, err)
					}
				}
			}
		}
	})
}

// open lets others reach a member.
func (n *peerNetwork) open(r *region, peerURL string) error {
	address, err := url.Parse(peerURL)
	if err != nil {
		return err
	}
	behind, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return err
	}
	n.t.Cleanup(behind.Release)
	authority, err := os.ReadFile(filepath.Join(r.w.pki, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	own, err := pairOf(r.w.pki, r.prefix)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", address.Host, &tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	})
	if err != nil {
		return err
	}
	n.working.Go(func() { <-n.ended; _ = listener.Close() })
	n.working.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n.working.Go(func() { n.carry(conn.(*tls.Conn), r, fmt.Sprintf("127.0.0.1:%d", behind.Number), roots) })
		}
	})
	path := filepath.Join(n.folder, address.Port())
	if err := os.WriteFile(path+".new", fmt.Appendln(nil, behind.Number), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func pairOf(pki, region string) (tls.Certificate, error) {
	path := filepath.Join(pki, region)
	return tls.LoadX509KeyPair(path+".crt", path+".key")
}

// carry passes on what two members say, to the one that was dialed under the certificate of the one that dials.
func (n *peerNetwork) carry(conn *tls.Conn, to *region, behind string, roots *x509.CertPool) {
	ended := make(chan struct{})
	conns := []net.Conn{conn}
	end := sync.OnceFunc(func() {
		close(ended)
		for _, each := range conns {
			_ = each.Close()
		}
	})
	defer end()
	if err := conn.Handshake(); err != nil {
		return
	}
	from := conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	own, err := pairOf(to.w.pki, from)
	if err != nil {
		return
	}
	member, err := tls.Dial("tcp", behind, &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: "127.0.0.1"})
	if err != nil {
		return // it shows as what it is: nobody is there
	}
	conns = append(conns, member)
	n.working.Go(func() { n.pass(member, conn, link{from, to.prefix}, ended); end() })
	n.working.Go(func() {
		select {
		case <-n.ended:
			end()
		case <-ended:
		}
	})
	n.pass(conn, member, link{to.prefix, from}, ended)
}

// pass brings bytes from one side to the other. While the link is cut they are held back, as a network does.
func (n *peerNetwork) pass(into, from net.Conn, over link, ended <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		for healed := n.heldBack(over, count); healed != nil; healed = n.heldBack(over, 0) {
			select {
			case <-healed:
			case <-ended:
				return
			}
		}
		if _, wrong := into.Write(buffer[:count]); wrong != nil || err != nil {
			return
		}
		n.mu.Lock()
		n.sent[over] += int64(count)
		n.mu.Unlock()
	}
}

// heldBack is closed when a link is whole again, or nil if it is. It counts what is held back.
func (n *peerNetwork) heldBack(over link, count int) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held[over] != nil && count > 0 {
		n.kept++
	}
	return n.held[over]
}

func (n *peerNetwork) cut(links ...link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, each := range links {
		if n.held[each] == nil {
			n.held[each] = make(chan struct{})
		}
	}
}

// heal lets everything through again, also what was held back, and returns how often that was.
func (n *peerNetwork) heal() (kept int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.kept = 0 }()
	for _, healed := range n.held {
		close(healed)
	}
	clear(n.held)
	return n.kept
}

// carried is how many bytes went to a region.
func (n *peerNetwork) carried(to string) (count int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for over, sent := range n.sent {
		if over.to == to {
			count += sent
		}
	}
	return count
}
