package faultproxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Direction is a way that bytes go.
type Direction int

// The directions. Both is a network that is cut.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Options say what the proxy stands before.
type Options struct {
	// Target is the URL of the API server, and Roots what vouches for it.
	Target string
	Roots  *x509.CertPool
	// Certificate is what the proxy shows its clients.
	Certificate tls.Certificate
}

// Proxy is a proxy that runs. Its methods may be called from several goroutines.
type Proxy struct {
	listener net.Listener
	server   io.Closer
	watches  *gate
	up, down *gate
	delay    atomic.Int64
	// sent and received are what clients have.
	sent, received atomic.Int64

	mu      sync.Mutex
	refused bool
	conns   map[*faultyConn]struct{}
	answers map[string][]byte // by path
	// afterWrite decides whether the client receives the answer to a write, or is nil.
	afterWrite func(Write) (answer bool)
}

// Start starts a proxy on a free loopback port, without any fault.
func Start(options Options) (*Proxy, error) {
	target, err := url.Parse(options.Target)
	if err != nil {
		return nil, fmt.Errorf("reading the target: %w", err)
	}
	p, err := listen()
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler:           p.handler(target, options.Roots),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{options.Certificate}, NextProtos: []string{"h2", "http/1.1"}},
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are what it is for
		ReadHeaderTimeout: time.Minute,
		ConnContext:       withConnection,
	}
	p.server = server
	go func() {
		if err := server.ServeTLS(faultyListener{p.listener, p}, "", ""); !errors.Is(err, http.ErrServerClosed) {
			panic(fmt.Sprintf("the fault proxy ended: %v", err))
		}
	}()
	return p, nil
}

// listen returns a proxy that serves nobody yet.
func listen() (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return &Proxy{
		listener: listener,
		watches:  newGate(),
		up:       newGate(),
		down:     newGate(),
		conns:    map[*faultyConn]struct{}{},
		answers:  map[string][]byte{},
	}, nil
}

func (p *Proxy) handler(target *url.URL, roots *x509.CertPool) http.Handler {
	server := p.pass(target, roots)
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		content, known := p.answer(request.URL.Path)
		if !known {
			server.ServeHTTP(writer, request)
			return
		}
		writer.Header().Set("Content-Type", "application/json")
		_, _ = writer.Write(content) // a client that has gone needs no answer
	})
}

// pass brings requests to the API server.
func (p *Proxy) pass(target *url.URL, roots *x509.CertPool) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots},
			ForceAttemptHTTP2: true,
		},
		FlushInterval: -1, // a watch's event must not wait for the next one
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(response *http.Response) error {
			if isWatch(response.Request) {
				response.Body = &gatedBody{ReadCloser: response.Body, gate: p.watches, ended: response.Request.Context().Done()}
			}
			return p.judgeAnswer(response)
		},
		// A server that is away shows as a broken connection, not as an answer that it never gave.
		ErrorHandler: func(_ http.ResponseWriter, request *http.Request, err error) {
			if errors.Is(err, errAnswerLost) {
				resetConnection(request)
			}
			panic(http.ErrAbortHandler)
		},
	}
}

func isWatch(request *http.Request) bool {
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}

// Address is where clients reach the proxy, as host and port.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// URL is where clients reach the proxy.
func (p *Proxy) URL() string { return "https://" + p.listener.Addr().String() }

// Delay makes every piece of data that travels take so much longer.
func (p *Proxy) Delay(delay time.Duration) { p.delay.Store(int64(delay)) }

// Traffic is how many bytes clients have sent and received, as they were on the wire.
func (p *Proxy) Traffic() (sent, received int64) { return p.sent.Load(), p.received.Load() }

// Cut holds back what goes in a direction, on open and on new connections.
func (p *Proxy) Cut(direction Direction) {
	if direction&ToServer != 0 {
		p.up.set(false)
	}
	if direction&ToClient != 0 {
		p.down.set(false)
	}
}

// Answer answers requests for a path with the JSON content instead of the API server, until the proxy is closed.
func (p *Proxy) Answer(path string, content []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[path] = content
}

func (p *Proxy) answer(path string) (content []byte, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	content, known = p.answers[path]
	return content, known
}

// HoldWatches holds back the events of all watches. Other requests go on.
func (p *Proxy) HoldWatches() { p.watches.set(false) }

// Refuse ends all connections and accepts no new ones.
func (p *Proxy) Refuse() {
	p.refuse(true)
	p.Reset()
}

// Reset ends all connections. New ones are accepted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	conns := make([]*faultyConn, 0, len(p.conns))
	for conn := range p.conns {
		conns = append(conns, conn)
	}
	p.mu.Unlock()
	for _, conn := range conns {
		conn.reset()
	}
}

// Mend ends all faults.
func (p *Proxy) Mend() {
	p.refuse(false)
	p.AfterWrites(nil)
	p.delay.Store(0)
	for _, gate := range []*gate{p.up, p.down, p.watches} {
		gate.set(true)
	}
}

// Close ends the proxy with all its connections.
func (p *Proxy) Close() error {
	p.Reset()
	return p.server.Close()
}

func (p *Proxy) refuse(refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = refused
}

// admit takes a connection up, unless all are refused.
func (p *Proxy) admit(conn *faultyConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refused {
		p.conns[conn] = struct{}{}
	}
	return !p.refused
}

func (p *Proxy) forget(conn *faultyConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// faultyListener puts the proxy's faults on each connection.
type faultyListener struct {
	net.Listener
	proxy *Proxy
}

func (l faultyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		faulty := &faultyConn{Conn: conn, proxy: l.proxy, ended: make(chan struct{})}
		if l.proxy.admit(faulty) {
			return faulty, nil
		}
		faulty.reset()
	}
}
