package website

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	webhostingv1alpha1 "github.com/ringmaster-project/ringmaster/examples/webhosting/api/v1alpha1"
)

func validPage() page {
	return page{Name: "a", Namespace: "b", ServerName: "c", Theme: "d", Color: "red", FontFamily: "Menlo"}
}

// markupOf returns the characters of a page that no value may change: markup, and the characters
// that end styles.
func markupOf(t *testing.T, p page) string {
	t.Helper()
	html, err := p.render()
	if err != nil {
		t.Fatal(err)
	}
	style, body, found := strings.Cut(html, "</style>")
	if !found {
		t.Fatalf("no style in\n%s", html)
	}
	keep := func(signs string) func(rune) rune {
		return func(r rune) rune {
			if strings.ContainsRune(signs, r) {
				return r
			}
			return -1
		}
	}
	_, style, _ = strings.Cut(style, "<style>")
	head, _, _ := strings.Cut(html, "<style>")
	const markup = `<>"'`
	return strings.Map(keep(markup), head) + "|" + strings.Map(keep(markup+`;{}@\()`), style) + "|" + strings.Map(keep(markup), body)
}

var attacks = []string{
	"</style><script>alert(1)</script>", "red; } body { display: none", "url(javascript:alert(1))", "expression(alert(1))",
	`"'><img src=x onerror=alert(1)>`, "red/*", "\\3c script\\3e", "<!--", "-->", "@import 'x'", "red\n}\n*{", "&lt;script&gt;", "\x00", "{{.Name}}",
}

// TestPageEscapesMarkup injects attacks into every field of a page.
func TestPageEscapesMarkup(t *testing.T) {
	want := markupOf(t, validPage())
	for _, text := range attacks {
		for field, into := range fieldsOf() {
			p := validPage()
			*into(&p) = text
			if got := markupOf(t, p); got != want {
				t.Errorf("%q as %s changes the page:\n%s\n%s", text, field, want, got)
			}
		}
	}
}

func fieldsOf() map[string]func(*page) *string {
	return map[string]func(*page) *string{
		"name": func(p *page) *string { return &p.Name }, "namespace": func(p *page) *string { return &p.Namespace },
		"server name": func(p *page) *string { return &p.ServerName }, "theme": func(p *page) *string { return &p.Theme },
		"color": func(p *page) *string { return &p.Color }, "font": func(p *page) *string { return &p.FontFamily },
	}
}

// FuzzPage looks for values that change the markup of a page.
func FuzzPage(f *testing.F) {
	for _, text := range attacks {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, name, color, font string) {
		p := validPage()
		p.Name, p.Color, p.FontFamily = name, color, font
		if want, got := markupOf(t, validPage()), markupOf(t, p); got != want {
			t.Errorf("the page changes:\n%s\n%s", want, got)
		}
	})
}

func TestPage(t *testing.T) {
	website := &webhostingv1alpha1.Website{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "homepage"}}
	for name, test := range map[string]struct {
		theme webhostingv1alpha1.ThemeSpec
		shows []string // or it is refused
	}{
		"a name of CSS":  {webhostingv1alpha1.ThemeSpec{Color: "darkcyan", FontFamily: "Menlo"}, []string{"background-color: darkcyan;", "font-family: Menlo, sans-serif;", "<h1>Welcome to homepage</h1>"}},
		"three digits":   {webhostingv1alpha1.ThemeSpec{Color: "#0a8", FontFamily: "Fira Sans, Menlo"}, []string{"background-color: #0a8;", "font-family: Fira Sans, Menlo, sans-serif;"}},
		"eight digits":   {webhostingv1alpha1.ThemeSpec{Color: "#00AA88ff", FontFamily: "PT-Mono"}, []string{"background-color: #00AA88ff;", "font-family: PT-Mono, sans-serif;"}},
		"five digits":    {webhostingv1alpha1.ThemeSpec{Color: "#00aa8", FontFamily: "Menlo"}, nil},
		"a function":     {webhostingv1alpha1.ThemeSpec{Color: "rgb(0,0,0)", FontFamily: "Menlo"}, nil},
		"no color":       {webhostingv1alpha1.ThemeSpec{FontFamily: "Menlo"}, nil},
		"a quoted font":  {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: `"Fira Sans"`}, nil},
		"one more style": {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "Menlo; display: none"}, nil},
		"markup":         {webhostingv1alpha1.ThemeSpec{Color: "red", FontFamily: "</style>"}, nil},
		"a line break":   {webhostingv1alpha1.ThemeSpec{Color: "red\n", FontFamily: "Menlo"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := newPage(website, &webhostingv1alpha1.Theme{ObjectMeta: metav1.ObjectMeta{Name: "exciting"}, Spec: test.theme})
			if (err != nil) != (test.shows == nil) {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			html, err := p.render()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range append(test.shows, ServerName(key("shop", "homepage")), "theme exciting") {
				if !strings.Contains(html, want) {
					t.Errorf("%q is not in\n%s", want, html)
				}
			}
		})
	}
}
