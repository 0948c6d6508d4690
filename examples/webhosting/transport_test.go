package main

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// transport records the requests of an operator, and can reject or delay them.
type transport struct {
	mu       sync.Mutex
	requests []string // method and path
	refuse   func(*http.Request) bool
	hold     func(*http.Request) <-chan struct{}
}

// wrap returns a client config whose requests pass through the transport.
func (w *transport) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripFunc(func(request *http.Request) (*http.Response, error) { return w.roundTrip(request, next) })
	})
	return config
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (t roundTripFunc) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func (w *transport) roundTrip(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	w.mu.Lock()
	w.requests = append(w.requests, describe(request))
	refuse, hold := w.refuse, w.hold
	w.mu.Unlock()
	if refuse != nil && refuse(request) {
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Status: "500 rejected by the test", Request: request,
			Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("rejected by the test")),
		}, nil
	}
	if hold != nil {
		if until := hold(request); until != nil {
			select {
			case <-until:
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		}
	}
	return next.RoundTrip(request)
}

// describe returns the method and path of a request. A watch that starts with all objects counts as
// a list.
func describe(request *http.Request) string {
	operation, query := request.Method, request.URL.Query()
	switch {
	case query.Get("sendInitialEvents") == "true":
		operation = "LIST"
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		operation = "WATCH"
	}
	return operation + " " + request.URL.Path
}

// reset clears the recorded requests.
func (w *transport) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = nil
}

// setRefuse sets which requests are rejected.
func (w *transport) setRefuse(which func(*http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = which
}

// matching returns the recorded requests that match a condition.
func (w *transport) matching(which func(string) bool) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for _, request := range w.requests {
		if which(request) {
			found = append(found, request)
		}
	}
	return found
}

// writes returns the recorded writes.
func (w *transport) writes() []string {
	return w.matching(func(request string) bool {
		method, _, _ := strings.Cut(request, " ")
		return method != http.MethodGet && method != "WATCH" && method != "LIST"
	})
}

// reads returns the recorded reads of single objects, which a cache should have served.
func (w *transport) reads() []string {
	return w.matching(func(request string) bool { return strings.HasPrefix(request, "GET ") })
}
