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

// link is the traffic from one region to another.
type link struct{ from, to string }

// peerNetwork proxies the traffic between the members of all regions. Members dial the proxy at the advertised
// addresses, and it dials the member that listens behind it. It recognizes the dialing member by its
// certificate.
type peerNetwork struct {
	t testing.TB
	// folder maps advertised ports to the ports behind them, and etcd is a wrapper that reads the folder.
	folder, etcd string
	done         chan struct{}
	goroutines   sync.WaitGroup

	mu        sync.Mutex
	cutLinks  map[link]chan struct{} // closed when the link is healed
	bytesSent map[link]int64
	// heldBackCount is how many messages were held back since the last heal.
	heldBackCount int
}

// etcdWrapper is an etcd that listens for its peers behind the proxy.
const etcdWrapper = `#!/bin/sh
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
		t: t, folder: rig.TempDir(t), done: make(chan struct{}), cutLinks: map[link]chan struct{}{}, bytesSent: map[link]int64{},
	}
	n.etcd = filepath.Join(n.folder, "etcd")
	if err := os.WriteFile(n.etcd, fmt.Appendf(nil, etcdWrapper, n.folder, filepath.Join(rig.Assets(t), "etcd")), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(n.done); n.goroutines.Wait() })
	return n
}

// prepare starts a proxy for each member of a region, as soon as it has addresses.
func (n *peerNetwork) prepare(r *region) {
	r.etcd = n.etcd
	client, err := agent.NewClient("http://" + r.address)
	r.f.Expect(err).NotTo(HaveOccurred())
	n.goroutines.Go(func() {
		known := map[string]bool{}
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-n.done:
				return
			case <-ticker.C:
			}
			members, err := client.Members(n.t.Context())
			if err != nil {
				continue // the agent has not started yet
			}
			for _, m := range members {
				if !known[m.PeerURL] {
					known[m.PeerURL] = true
					if err := n.listen(r, m.PeerURL); err != nil {
						n.t.Errorf("opening the network before %s: %v", m.ID, err)
					}
				}
			}
		}
	})
}

// listen starts the proxy of a member.
func (n *peerNetwork) listen(r *region, peerURL string) error {
	address, err := url.Parse(peerURL)
	if err != nil {
		return err
	}
	behind, err := process.ReservePort("127.0.0.1")
	if err != nil {
		return err
	}
	n.t.Cleanup(behind.Release)
	authority, err := os.ReadFile(filepath.Join(r.f.pki, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	own, err := pairOf(r.f.pki, r.prefix)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", address.Host, &tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	})
	if err != nil {
		return err
	}
	n.goroutines.Go(func() { <-n.done; _ = listener.Close() })
	n.goroutines.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n.goroutines.Go(func() { n.connect(conn.(*tls.Conn), r, fmt.Sprintf("127.0.0.1:%d", behind.Number), roots) })
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

// connect forwards a connection to a member, with the certificate of the dialing member.
func (n *peerNetwork) connect(conn *tls.Conn, to *region, behind string, roots *x509.CertPool) {
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
	own, err := pairOf(to.f.pki, from)
	if err != nil {
		return
	}
	member, err := tls.Dial("tcp", behind, &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: roots, ServerName: "127.0.0.1"})
	if err != nil {
		return // the client sees a closed connection
	}
	conns = append(conns, member)
	n.goroutines.Go(func() { n.copyBytes(member, conn, link{from, to.prefix}, ended); end() })
	n.goroutines.Go(func() {
		select {
		case <-n.done:
			end()
		case <-ended:
		}
	})
	n.copyBytes(conn, member, link{to.prefix, from}, ended)
}

// copyBytes copies bytes in one direction. While the link is cut, it holds them back.
func (n *peerNetwork) copyBytes(into, from net.Conn, over link, ended <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		for healed := n.waitForHeal(over, count); healed != nil; healed = n.waitForHeal(over, 0) {
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
		n.bytesSent[over] += int64(count)
		n.mu.Unlock()
	}
}

// waitForHeal returns a channel that is closed when a link is healed, or nil if it is not cut. It counts what is
// held back.
func (n *peerNetwork) waitForHeal(over link, count int) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cutLinks[over] != nil && count > 0 {
		n.heldBackCount++
	}
	return n.cutLinks[over]
}

func (n *peerNetwork) cut(links ...link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, each := range links {
		if n.cutLinks[each] == nil {
			n.cutLinks[each] = make(chan struct{})
		}
	}
}

// heal restores all links, delivers what was held back, and returns how many messages that were.
func (n *peerNetwork) heal() (kept int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.heldBackCount = 0 }()
	for _, healed := range n.cutLinks {
		close(healed)
	}
	clear(n.cutLinks)
	return n.heldBackCount
}

// bytesTo returns the number of bytes that were sent to a region.
func (n *peerNetwork) bytesTo(to string) (count int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for over, sent := range n.bytesSent {
		if over.to == to {
			count += sent
		}
	}
	return count
}
