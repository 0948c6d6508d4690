package webhosting

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/demo/cluster"
	"github.com/ringmaster-project/ringmaster/demo/pages"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
)

// pagesManifest is who serves the pages, and what that may do: read what leads to a page.
const pagesManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: ringmaster-demo}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: pages, namespace: ringmaster-demo}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "ringmaster-demo:pages"}
rules:
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [get, list, watch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "ringmaster-demo:pages"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "ringmaster-demo:pages"}
subjects: [{kind: ServiceAccount, name: pages, namespace: ringmaster-demo}]
`

// pageServer serves pages on this machine.
type pageServer struct {
	url    string
	server *http.Server
}

// servePages serves the pages, with rights that suffice for nothing else.
func (d *Demo) servePages(ctx context.Context) error {
	objects, err := manifest.Decode([]byte(pagesManifest))
	if err != nil {
		return fmt.Errorf("reading what may serve pages: %w", err)
	}
	if err := manifest.Apply(ctx, d.Client, cluster.Owner, objects...); err != nil {
		return err
	}
	config, err := d.tokenConfig(ctx, "ringmaster-demo", "pages")
	if err != nil {
		return err
	}
	reader, err := cache.New(config, cache.Options{})
	if err != nil {
		return fmt.Errorf("preparing to serve pages: %w", err)
	}
	d.background.Go(func() { _ = reader.Start(d.ctx) }) // without it, requests say what is missing
	// So that the first page does not wait for it.
	for _, kind := range []client.Object{&networkingv1.Ingress{}, &corev1.Service{}, &appsv1.Deployment{}, &corev1.ConfigMap{}} {
		if _, err := reader.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("preparing to serve pages: %w", err)
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.options.PagePort)))
	if err != nil {
		return fmt.Errorf("serving pages (choose another --page-port, or none for a free one): %w", err)
	}
	d.pages = &pageServer{
		url:    "http://" + listener.Addr().String() + "/",
		server: &http.Server{Handler: pages.Handler(reader, d.options.Mode, d.sites), ReadHeaderTimeout: patience},
	}
	d.hints = d.options.Hints(d.pages.url)
	d.background.Go(func() { _ = d.pages.server.Serve(listener) }) // it ends when it is closed
	return nil
}

// close ends the server, with those who still read.
func (s *pageServer) close() { s.server.Close() }

// Pages is where the websites can be seen.
func (d *Demo) Pages() string { return d.pages.url }

func (d *Demo) tokenConfig(ctx context.Context, namespace, account string) (*rest.Config, error) {
	seconds := int64(365 * 24 * 60 * 60) // nobody shows anything for longer
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := d.Clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token: %w", err)
	}
	return d.Plane.TokenRESTConfig(answer.Status.Token), nil
}

// sites are the pages that there are.
func (d *Demo) sites() []pages.Site {
	var sites []pages.Site
	for _, object := range d.scene.Objects() {
		sites = append(sites, pages.Site{
			Namespace: object.Namespace, Name: object.Name, Theme: object.Theme, Phase: object.Phase, Owner: object.Shard,
		})
	}
	return sites
}
