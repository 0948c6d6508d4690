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

// Answer is what a server tells about itself.
type Answer struct {
	Pod     string `json:"pod"`
	Version string `json:"version"`
	// User is who the API server says that the pod is.
	User string `json:"user"`
}

type server struct {
	// answer is nil until the API server has said who this pod is.
	answer   atomic.Pointer[Answer]
	draining atomic.Bool
}

func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("hello", flag.ContinueOnError)
	address := flags.String("listen", ":8080", "the `address` to serve on")
	drain := flags.Duration("drain", 5*time.Second,
		"how long to go on serving after SIGTERM, until every node knows that this pod leaves its Service")
	if err := flags.Parse(args); err != nil {
		return err
	}

	s := &server{}
	go s.introduce(ctx)
	web := &http.Server{Addr: *address, Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	log.Printf("hello %s serves on %s", os.Getenv("VERSION"), *address)

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return s.leave(web, *drain)
}

// leave ends the server so that no client notices: requests still arrive for a moment after
// SIGTERM, because the pod is taken out of its Service at the same time and not before.
func (s *server) leave(web *http.Server, drain time.Duration) error {
	log.Printf("told to end; serving for %s more", drain)
	s.draining.Store(true)
	time.Sleep(drain)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return web.Shutdown(ctx)
}

// introduce asks the API server who this pod is, until it says so.
func (s *server) introduce(ctx context.Context) {
	for ctx.Err() == nil {
		user, err := whoAmI(ctx)
		if err == nil {
			s.answer.Store(&Answer{Pod: podName(), Version: os.Getenv("VERSION"), User: user})
			log.Printf("the API server calls this pod %s", user)
			return
		}
		log.Printf("asking the API server who this is: %v", err)
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
		http.Error(w, errStranger.Error(), http.StatusServiceUnavailable)
		return
	}
	if s.draining.Load() {
		// A kept connection would break when the server ends.
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Printf("answering: %v", err)
	}
}

var errStranger = errors.New("the API server has not said yet who this pod is")

// healthz makes a pod ready that can reach the API server, and no other.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	if s.answer.Load() == nil {
		http.Error(w, errStranger.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
