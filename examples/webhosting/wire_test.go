package main

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// wire is between an operator and the API server. It notes what is asked for, and can refuse it or keep it
// waiting.
type wire struct {
	mu       sync.Mutex
	requests []string // method and path
	refuse   func(*http.Request) bool
	hold     func(*http.Request) <-chan struct{}
}

// through makes a client's requests go this way.
func (w *wire) through(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return trip(func(request *http.Request) (*http.Response, error) { return w.pass(request, next) })
	})
	return config
}

type trip func(*http.Request) (*http.Response, error)

func (t trip) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func (w *wire) pass(request *http.Request, next http.RoundTripper) (*http.Response, error) {
	w.mu.Lock()
	w.requests = append(w.requests, describe(request))
	refuse, hold := w.refuse, w.hold
	w.mu.Unlock()
	if refuse != nil && refuse(request) {
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Status: "500 refused by the test", Request: request,
			Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("refused by the test")),
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

// describe tells a watch from a read. One that begins with all objects is a list; one that only goes on
// where another one has ended is not.
func describe(request *http.Request) string {
	what, query := request.Method, request.URL.Query()
	switch {
	case query.Get("sendInitialEvents") == "true":
		what = "LIST"
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		what = "WATCH"
	}
	return what + " " + request.URL.Path
}

// forget begins a new count.
func (w *wire) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = nil
}

// refuses sets whose requests fail from now on.
func (w *wire) refuses(which func(*http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = which
}

// asked are the requests since the last forget that satisfy a condition.
func (w *wire) asked(which func(string) bool) []string {
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

// writes are all requests that change something.
func (w *wire) writes() []string {
	return w.asked(func(request string) bool {
		method, _, _ := strings.Cut(request, " ")
		return method != http.MethodGet && method != "WATCH" && method != "LIST"
	})
}

// reads are all requests for something that a cache could have told.
func (w *wire) reads() []string {
	return w.asked(func(request string) bool { return strings.HasPrefix(request, "GET ") })
}
