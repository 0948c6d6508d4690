package v1alpha1

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The rules of the schema. An object can be older than a rule, so the operator validates it again
// before it writes a page.
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

// Validate returns an error for a Theme that violates the schema.
func (s *ThemeSpec) Validate() error {
	var errs []error
	if len(s.Color) > maxColor || !validColor.MatchString(s.Color) {
		errs = append(errs, fmt.Errorf("color %q is neither a color name, such as darkcyan, nor a hexadecimal color, such as #00aa88", shorten(s.Color)))
	}
	if len(s.FontFamily) > maxFontFamily || !validFontFamily.MatchString(s.FontFamily) {
		errs = append(errs, fmt.Errorf("fontFamily %q is not a comma-separated list of font names, such as Fira Sans, Menlo", shorten(s.FontFamily)))
	}
	return errors.Join(errs...)
}

// Validate returns an error for a Website that violates the schema.
func (s *WebsiteSpec) Validate() error {
	if wrong := validation.IsDNS1123Subdomain(s.Theme); len(wrong) > 0 {
		return fmt.Errorf("theme %q is not a valid name: %s", shorten(s.Theme), strings.Join(wrong, ", "))
	}
	return nil
}

// shorten limits the length of a value in a message.
func shorten(s string) string {
	const limit = 40
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return s
}
