// Package webserver serves the pages of websites in place of an Ingress controller and nginx: it
// looks up the path in the Ingresses, and reads the page from the ConfigMap that the pods behind it
// mount.
//
// It guarantees that a page reflects the current objects in the cluster, and that names of objects
// are escaped in the list of all pages.
package webserver

import (
	"bytes"
	_ "embed" // the template of the index page
	"errors"
	"html/template"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Site is a row of the index page.
type Site struct {
	// Namespace and Name are those of the Website. Together they are its path.
	Namespace, Name string
	Theme, Phase    string
	// Owner is the instance that reconciles it, if there is one.
	Owner string
}

//go:embed index.html.tmpl
var indexSource string

// indexTemplate escapes all values for their context.
var indexTemplate = template.Must(template.New("index").Parse(indexSource))

// index is the data of the index page.
type index struct {
	Mode  string
	Sites []Site
}

// Handler serves the list of all pages under /, and every page under its path. It calls sites for
// each request of the list.
func Handler(reader client.Reader, mode string, sites func() []Site) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(writer http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		if err := indexTemplate.Execute(&page, index{mode, sites()}); err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		writePage(writer, page.String())
	})
	mux.HandleFunc("GET /", func(writer http.ResponseWriter, request *http.Request) {
		page, err := find(request.Context(), reader, request.URL.Path)
		absent := &missingError{}
		switch {
		case errors.As(err, &absent):
			http.Error(writer, absent.message, absent.status)
		case err != nil:
			http.Error(writer, err.Error(), http.StatusBadGateway)
		default:
			writePage(writer, page)
		}
	})
	return mux
}

func writePage(writer http.ResponseWriter, page string) {
	header := writer.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store") // a reload shows the current page
	// The page of a website may contain any markup. An error means that the client has
	// disconnected.
	_, _ = writer.Write([]byte(page)) //nolint:gosec // see above; the template escapes the values of the index page
}
