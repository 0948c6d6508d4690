// Command ingress is the ingress controller of the end-to-end tests. It serves the Ingresses of one class.
// It supports paths and host names, but not TLS, wildcards, default backends or annotations, which the
// sample operator does not use.
//
// It forwards requests to Services and not, as most ingress controllers, to their pods, so that Services
// are tested too.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	address := flag.String("listen", ":8080", "`address` to serve on")
	class := flag.String("class", "nginx", "class of the Ingresses to serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, *address, *class)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingress:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, class string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	const never = 0
	factory := informers.NewSharedInformerFactory(client, never)
	c := controller{
		class:     class,
		ingresses: factory.Networking().V1().Ingresses().Lister(),
		services:  factory.Core().V1().Services().Lister(),
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("listing %s: %w", kind, ctx.Err())
		}
	}
	// After the caches have synced, so that the first request finds all rules.
	log.Printf("serving the Ingresses of class %s on %s", class, address)
	return serve(ctx, &http.Server{Addr: address, Handler: c.handler(), ReadHeaderTimeout: 5 * time.Second})
}

// serve serves until the context ends, and then finishes open requests.
func serve(ctx context.Context, web *http.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- web.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return web.Shutdown(grace)
}
