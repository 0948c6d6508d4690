package faultproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
)

// Write is a request that changed something, as the API server applied it.
type Write struct {
	Method string
	// Path is the path of the object or, for POST, of the collection.
	Path string
}

// AfterWrites calls a function for every write that the API server has applied, before the client receives the
// response. If the function returns false, the client's connection is reset, with all requests and watches on it: the
// client cannot know that the write was applied. The function may be called concurrently; nil ends the fault.
func (p *Proxy) AfterWrites(decide func(Write) (answer bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.afterWrite = decide
}

var errAnswerLost = errors.New("the response is dropped")

// judgeAnswer returns errAnswerLost if the client must not receive the response.
func (p *Proxy) judgeAnswer(response *http.Response) error {
	p.mu.Lock()
	decide := p.afterWrite
	p.mu.Unlock()
	if decide == nil || !applied(response) {
		return nil
	}
	if !decide(Write{Method: response.Request.Method, Path: response.Request.URL.Path}) {
		return errAnswerLost
	}
	return nil
}

// applied reports whether a response confirms a write. Reviews of tokens and permissions are POST requests that store
// nothing.
func applied(response *http.Response) bool {
	switch response.Request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return false
	}
	path := response.Request.URL.Path
	review := strings.HasPrefix(path, "/apis/authorization.k8s.io/") || strings.HasPrefix(path, "/apis/authentication.k8s.io/")
	return !review && response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusMultipleChoices
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// withConnection keeps the connection that requests arrive on in their contexts.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

func resetConnection(request *http.Request) {
	if conn, ok := request.Context().Value(connectionKey{}).(*faultyConn); ok {
		conn.reset()
	}
}
