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

// Direction is a direction of traffic.
type Direction int

// The directions. Both is a full partition.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// Options configure a Proxy.
type Options struct {
	// Target is the URL of the API server, and Roots its certificate authorities.
	Target string
	Roots  *x509.CertPool
	// Certificate is the serving certificate of the proxy.
	Certificate tls.Certificate
}

// Proxy is a running proxy. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	server   io.Closer
	watches  *gate
	up, down *gate
	delay    atomic.Int64
	// sent and received are the bytes that clients have sent and received.
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
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are expected
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

// listen returns a proxy that does not serve yet.
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
		_, _ = writer.Write(content) // the client may have disconnected
	})
}

// pass forwards requests to the API server.
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
		// An unreachable server is a broken connection, not a response of the proxy.
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

// Address returns the host and port of the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// URL returns the URL of the proxy.
func (p *Proxy) URL() string { return "https://" + p.listener.Addr().String() }

// Delay delays all data.
func (p *Proxy) Delay(delay time.Duration) { p.delay.Store(int64(delay)) }

// Traffic returns the number of bytes that clients have sent and received, with TLS.
func (p *Proxy) Traffic() (sent, received int64) { return p.sent.Load(), p.received.Load() }

// Cut holds back all bytes in a direction, on open and new connections.
func (p *Proxy) Cut(direction Direction) {
	if direction&ToServer != 0 {
		p.up.set(false)
	}
	if direction&ToClient != 0 {
		p.down.set(false)
	}
}

// Answer responds to requests for a path with JSON content instead of the API server, until the proxy is closed.
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

// HoldWatches holds back the events of all watches. Other requests are not affected.
func (p *Proxy) HoldWatches() { p.watches.set(false) }

// Refuse resets all connections and refuses new ones.
func (p *Proxy) Refuse() {
	p.refuse(true)
	p.Reset()
}

// Reset resets all connections. New ones are accepted.
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

// Heal ends all faults.
func (p *Proxy) Heal() {
	p.refuse(false)
	p.AfterWrites(nil)
	p.delay.Store(0)
	for _, gate := range []*gate{p.up, p.down, p.watches} {
		gate.set(true)
	}
}

// Close closes the proxy with all its connections.
func (p *Proxy) Close() error {
	p.Reset()
	return p.server.Close()
}

func (p *Proxy) refuse(refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = refused
}

// admit adds a connection, unless the proxy refuses connections.
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

// faultyListener applies the proxy's faults to each connection.
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
