package v1alpha1

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// What the schema asks for. An object can be older than a rule of the schema, so the operator looks
// again before it writes a page.
const (
	patternColor      = `^([A-Za-z]+|#[0-9A-Fa-f]{3}|#[0-9A-Fa-f]{4}|#[0-9A-Fa-f]{6}|#[0-9A-Fa-f]{8})$`
	patternFontFamily = `^[A-Za-z0-9]+([ -][A-Za-z0-9]+)*(, ?[A-Za-z0-9]+([ -][A-Za-z0-9]+)*)*$`
	maxColor          = 32
	maxFontFamily     = 128
)

var (
	validColor      = regexp.MustCompile(patternColor)
	validFontFamily = regexp.MustCompile(patternFontFamily)
)

// Validate tells what is wrong with a Theme that got past the schema.
func (s *ThemeSpec) Validate() error {
	var errs []error
	if len(s.Color) > maxColor || !validColor.MatchString(s.Color) {
		errs = append(errs, fmt.Errorf("color %q is neither a name of letters, such as darkcyan, nor a number, such as #00aa88", shorten(s.Color)))
	}
	if len(s.FontFamily) > maxFontFamily || !validFontFamily.MatchString(s.FontFamily) {
		errs = append(errs, fmt.Errorf("fontFamily %q has more than words of letters and digits with commas between them, such as Fira Sans, Menlo", shorten(s.FontFamily)))
	}
	return errors.Join(errs...)
}

// Validate tells what is wrong with a Website that got past the schema.
func (s *WebsiteSpec) Validate() error {
	if wrong := validation.IsDNS1123Subdomain(s.Theme); len(wrong) > 0 {
		return fmt.Errorf("theme %q cannot be the name of a Theme: %s", shorten(s.Theme), strings.Join(wrong, ", "))
	}
	return nil
}

// shorten keeps a message readable whatever somebody has written.
func shorten(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}
