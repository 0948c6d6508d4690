package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// health serves the probes: /healthz always succeeds, /readyz while this process is a shard of the
// ring, so that a rollout continues when it has joined.
type health struct {
	ready  atomic.Bool
	server *http.Server
}

func serveHealth(address string) (*health, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serving health probes: %w", err)
	}
	h := &health{}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(writer http.ResponseWriter, _ *http.Request) {
		if h.ready.Load() {
			return
		}
		http.Error(writer, "not a shard of the ring", http.StatusServiceUnavailable)
	})
	h.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = h.server.Serve(listener) }() // if it fails, the probes of the kubelet fail
	return h, nil
}

func (h *health) close() { _ = h.server.Close() } // the process is about to exit
