package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Answer identifies a server.
type Answer struct {
	Pod     string `json:"pod"`
	Version string `json:"version"`
	// User is the pod's user, as the API server knows it.
	User string `json:"user"`
}

type server struct {
	// answer is nil until the API server has returned the user.
	answer   atomic.Pointer[Answer]
	draining atomic.Bool
}

func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hello", flag.ContinueOnError)
	address := flags.String("listen", ":8080", "`address` to serve on")
	drain := flags.Duration("drain", 5*time.Second,
		"time to serve after SIGTERM, until every node has removed this pod from its Service")
	if err := flags.Parse(args); err != nil {
		return err
	}

	s := &server{}
	go s.identify(ctx)
	web := &http.Server{Addr: *address, Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	log.Printf("hello %s serves on %s", os.Getenv("VERSION"), *address)

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return s.shutDown(web, *drain)
}

// shutDown ends the server without a failed request. Requests still arrive after SIGTERM, because the pod is
// removed from its Service at the same time.
func (s *server) shutDown(web *http.Server, drain time.Duration) error {
	log.Printf("received SIGTERM; serving for another %s", drain)
	s.draining.Store(true)
	time.Sleep(drain)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return web.Shutdown(ctx)
}

// identify asks the API server for the pod's user until it answers.
func (s *server) identify(ctx context.Context) {
	for ctx.Err() == nil {
		user, err := whoAmI(ctx)
		if err == nil {
			s.answer.Store(&Answer{Pod: podName(), Version: os.Getenv("VERSION"), User: user})
			log.Printf("the API server knows this pod as %s", user)
			return
		}
		log.Printf("asking the API server for the user of this pod: %v", err)
		time.Sleep(time.Second)
	}
}

// podName prefers the downward API: a pod on the host's network has the host's name.
func podName() string {
	if name := os.Getenv("POD_NAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Sprintf("unknown (%v)", err)
	}
	return name
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.hello)
	mux.HandleFunc("GET /healthz", s.healthz)
	return mux
}

func (s *server) hello(w http.ResponseWriter, _ *http.Request) {
	answer := s.answer.Load()
	if answer == nil {
		http.Error(w, errUnidentified.Error(), http.StatusServiceUnavailable)
		return
	}
	if s.draining.Load() {
		// A connection that stays open would be reset when the server ends.
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Printf("answering: %v", err)
	}
}

var errUnidentified = errors.New("the API server has not returned the user of this pod yet")

// healthz makes the pod ready when it has reached the API server.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	if s.answer.Load() == nil {
		http.Error(w, errUnidentified.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
