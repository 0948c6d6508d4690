//go:build unix

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Run serves an agent until the context ends, and then stops its processes.
func Run(ctx context.Context, address string, options Options) (err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	a, err := New(options)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: a.Handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	options.Log.Info("Agent is ready", "region", options.Region, "address", listener.Addr().String())
	select {
	case err = <-served:
	case <-ctx.Done():
		// Orders in progress are finished. Waiting orders return an error, because their clients are disconnected.
		err = server.Close()
	}
	return errors.Join(err, a.Close())
}

// Handler returns the handler of the agent's API.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) { answer(w, a.List(), nil) })
	mux.HandleFunc("PUT /members/{id}", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(id string, in prepareRequest) (any, error) { return a.Prepare(id, in.System) })
	})
	mux.HandleFunc("PUT /members/{id}/version", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(id string, in versionRequest) (any, error) { return a.SetVersion(id, in.Version) })
	})
	mux.HandleFunc("PUT /members/{id}/args", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(id string, in argsRequest) (any, error) { return a.SetArgs(id, in.Args) })
	})
	mux.HandleFunc("POST /members/{id}/start", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(id string, in startRequest) (any, error) { return a.Start(r.Context(), id, in.Order, in.Launch) })
	})
	mux.HandleFunc("POST /members/{id}/restart", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(id string, in Order) (any, error) { return a.Restart(r.Context(), id, in) })
	})
	mux.HandleFunc("POST /members/{id}/stop", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(id string, in Order) (any, error) { return a.Stop(r.Context(), id, in) })
	})
	mux.HandleFunc("DELETE /members/{id}", func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func(id string, in Order) (any, error) { return struct{}{}, a.Delete(r.Context(), id, in) })
	})
	return mux
}

// handle decodes a request and encodes the response.
func handle[T any](w http.ResponseWriter, r *http.Request, do func(id string, in T) (any, error)) {
	var in T
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(content, &in)
	}
	if err != nil {
		answer(w, nil, refuse(ReasonInvalid, "decoding the request: %v", err))
		return
	}
	out, err := do(r.PathValue("id"), in)
	answer(w, out, err)
}

var statusOf = map[Reason]int{
	ReasonFenced:      http.StatusConflict,
	ReasonDeleting:    http.StatusConflict,
	ReasonNotStarted:  http.StatusConflict,
	ReasonNotPrepared: http.StatusNotFound,
	ReasonTaken:       http.StatusConflict,
	ReasonInvalid:     http.StatusBadRequest,
	ReasonFailed:      http.StatusInternalServerError,
}

func answer(w http.ResponseWriter, out any, err error) {
	status := http.StatusOK
	if err != nil {
		refused := &RefusedError{Reason: ReasonFailed, Message: err.Error()}
		_ = errors.As(err, &refused) // otherwise the ReasonFailed above is kept
		status, out = statusOf[refused.Reason], refused
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // a client that misses the response repeats the request
}
