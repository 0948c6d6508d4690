package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Main serves an agent, with flags, until the context ends. Its servers end with it.
func Main(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	options := Options{}
	flags.StringVar(&options.Region, "region", "dc1", "what the names of the servers begin with")
	flags.StringVar(&options.Cluster, "cluster", "orders", "name of the NATS cluster")
	flags.StringVar(&options.Dir, "data-dir", "data", "folder for the data of the servers")
	flags.StringVar(&options.Protocol, "protocol", "1", "protocol that the first servers speak among each other")
	flags.IntVar(&options.Members, "members", 1, "how many servers the region begins with")
	list := func(into *[]string) func(string) error {
		return func(value string) error { *into = strings.Split(value, ","); return nil }
	}
	flags.Func("seeds", "routes of the first servers of all regions, as host:port,…", list(&options.Seeds))
	flags.Func("peers", "URLs of the other agents", list(&options.Peers))
	flags.Func("ports", "ports for the servers, three for each: for clients, routes and health", func(value string) error {
		for port := range strings.SplitSeq(value, ",") {
			number, err := strconv.Atoi(port)
			if err != nil {
				return err
			}
			options.Ports = append(options.Ports, number)
		}
		return nil
	})
	listen := flags.String("listen", "127.0.0.1:0", "address to serve at")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	a, err := New(ctx, options)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: a.handler(), ReadHeaderTimeout: time.Minute}
	go func() { <-ctx.Done(); _ = server.Close() }()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	a.close()
	return nil
}

// close ends all servers.
func (a *Agent) close() {
	a.mu.Lock()
	servers := slices.Collect(maps.Values(a.servers))
	a.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(func() {
			s.orderMu.Lock()
			defer s.orderMu.Unlock()
			s.stop()
		})
	}
	all.Wait()
}

func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, a.Members()) })
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, a.Events()) })
	mux.HandleFunc("POST /members/{name}", func(w http.ResponseWriter, r *http.Request) {
		var order Order
		err := json.NewDecoder(r.Body).Decode(&order)
		if err == nil {
			err = a.Do(r.PathValue("name"), order)
		}
		if fenced, ok := errors.AsType[*FencedError](err); ok {
			answer(w, http.StatusConflict, fenced)
		} else if err != nil {
			answer(w, http.StatusUnprocessableEntity, FailedError{err.Error()})
		} else {
			answer(w, http.StatusOK, struct{}{})
		}
	})
	return mux
}

func answer(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // the client that does not hear it asks again
}
