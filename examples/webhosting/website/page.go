package website

import (
	"bytes"
	_ "embed" // the page and the configuration of nginx
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

// pageTemplate escapes values for their context: text, attribute or style sheet.
var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// page has the values of the template.
type page struct {
	Name, Namespace, ServerName string
	Theme, Color, FontFamily    string
}

// newPage returns the page of a Website. It returns an error if the Theme is invalid, which the
// schema normally prevents. The template would escape the values, but the page would be useless.
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
