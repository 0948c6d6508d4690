package pages

import (
	"bytes"
	_ "embed" // the list of all pages
	"errors"
	"html/template"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Site is a page in the list of all pages.
type Site struct {
	// Namespace and Name are those of the object, and its path.
	Namespace, Name string
	Theme, Phase    string
	// Owner is the instance that looks after it, if there is one.
	Owner string
}

//go:embed index.html.tmpl
var indexSource string

// indexTemplate escapes what is put into it according to where it is put.
var indexTemplate = template.Must(template.New("index").Parse(indexSource))

// index is what is in the list.
type index struct {
	Mode  string
	Sites []Site
}

// Handler serves the list of all pages under /, and every page under its path. It reads objects with the
// reader, and asks for the sites each time.
func Handler(reader client.Reader, mode string, sites func() []Site) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(writer http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		if err := indexTemplate.Execute(&page, index{mode, sites()}); err != nil {
			http.Error(writer, err.Error(), http.StatusInternalServerError)
			return
		}
		serve(writer, page.String())
	})
	mux.HandleFunc("GET /", func(writer http.ResponseWriter, request *http.Request) {
		page, err := find(request.Context(), reader, request.URL.Path)
		absent := &missing{}
		switch {
		case errors.As(err, &absent):
			http.Error(writer, absent.what, absent.status)
		case err != nil:
			http.Error(writer, err.Error(), http.StatusBadGateway)
		default:
			serve(writer, page)
		}
	})
	return mux
}

func serve(writer http.ResponseWriter, page string) {
	header := writer.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store") // a reload shows what is there now
	// A website's page is its owner's to write, markup and all. Who asked may have gone.
	_, _ = writer.Write([]byte(page)) //nolint:gosec // see above; the list of all is escaped by its template
}
