package website

import (
	"bytes"
	_ "embed" // the page and nginx' configuration
	"fmt"
	"html/template"

	"sigs.k8s.io/controller-runtime/pkg/client"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

var (
	//go:embed index.html.tmpl
	pageSource string
	//go:embed nginx.conf
	nginxConfig string
)

// pageTemplate escapes what is put into it according to where it is put: into text, an attribute or a
// style sheet.
var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// page is what is shown.
type page struct {
	Name, Namespace, ServerName string
	Theme, Color, FontFamily    string
}

// newPage is the page of a Website. It fails if the Theme has something that no page may have, which the
// schema should have refused: it would be escaped all the same, but the page would not look as anybody
// wants it.
func newPage(website *webhostingv1alpha1.Website, theme *webhostingv1alpha1.Theme) (page, error) {
	if err := theme.Spec.Validate(); err != nil {
		return page{}, err
	}
	return page{
		Name: website.Name, Namespace: website.Namespace, ServerName: ServerName(client.ObjectKeyFromObject(website)),
		Theme: theme.Name, Color: theme.Spec.Color, FontFamily: theme.Spec.FontFamily,
	}, nil
}

func (p page) render() (string, error) {
	var html bytes.Buffer
	if err := pageTemplate.Execute(&html, p); err != nil {
		return "", fmt.Errorf("rendering the page: %w", err)
	}
	return html.String(), nil
}
