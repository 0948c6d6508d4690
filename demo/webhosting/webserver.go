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
	"github.com/ringmaster-project/ringmaster/demo/webserver"
	"github.com/ringmaster-project/ringmaster/internal/manifest"
)

// webserverManifest is the ServiceAccount of the web server, which may only read the objects that
// lead to a page.
const webserverManifest = `
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

// siteServer is the HTTP server of the websites.
type siteServer struct {
	url    string
	server *http.Server
}

// serveWebsites starts the HTTP server, with the permissions of its own ServiceAccount.
func (d *Demo) serveWebsites(ctx context.Context) error {
	objects, err := manifest.Decode([]byte(webserverManifest))
	if err != nil {
		return fmt.Errorf("reading the manifest of the web server: %w", err)
	}
	if err := manifest.Apply(ctx, d.Client, cluster.FieldManager, objects...); err != nil {
		return err
	}
	config, err := d.tokenRESTConfig(ctx, "ringmaster-demo", "pages")
	if err != nil {
		return err
	}
	reader, err := cache.New(config, cache.Options{})
	if err != nil {
		return fmt.Errorf("preparing the web server: %w", err)
	}
	d.background.Go(func() { _ = reader.Start(d.ctx) }) // on failure, requests return an error
	// Start the informers now, so that the first request does not wait for them.
	for _, kind := range []client.Object{&networkingv1.Ingress{}, &corev1.Service{}, &appsv1.Deployment{}, &corev1.ConfigMap{}} {
		if _, err := reader.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("preparing the web server: %w", err)
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.options.PagePort)))
	if err != nil {
		return fmt.Errorf("serving the websites (choose another --page-port, or omit it for a free port): %w", err)
	}
	d.server = &siteServer{
		url:    "http://" + listener.Addr().String() + "/",
		server: &http.Server{Handler: webserver.Handler(reader, d.options.Mode, d.siteList), ReadHeaderTimeout: requestTimeout},
	}
	d.hints = d.options.Hints(d.server.url)
	d.background.Go(func() { _ = d.server.server.Serve(listener) }) // returns when the server is closed
	return nil
}

// close stops the server and closes its connections.
func (s *siteServer) close() { s.server.Close() }

// Pages returns the URL of the websites.
func (d *Demo) Pages() string { return d.server.url }

func (d *Demo) tokenRESTConfig(ctx context.Context, namespace, account string) (*rest.Config, error) {
	seconds := int64(365 * 24 * 60 * 60) // no demo runs longer
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := d.Clientset.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("requesting a token for the web server: %w", err)
	}
	return d.Plane.TokenRESTConfig(answer.Status.Token), nil
}

// siteList returns the rows of the index page.
func (d *Demo) siteList() []webserver.Site {
	var sites []webserver.Site
	for _, object := range d.observer.Objects() {
		sites = append(sites, webserver.Site{
			Namespace: object.Namespace, Name: object.Name, Theme: object.Theme, Phase: object.Phase, Owner: object.Shard,
		})
	}
	return sites
}
