package view

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Style is the meaning of text, which determines how it looks.
type Style int

// The styles. They use the colours of the terminal, so that they are legible on its background.
const (
	Plain Style = iota
	Bold
	Dim
	Good
	Warn
	Bad
	Accent
	Marked
)

var codes = map[Style]string{Bold: "1", Dim: "2", Good: "32", Warn: "33", Bad: "31", Accent: "36", Marked: "7"}

// Span is text in one style.
type Span struct {
	Text  string
	Style Style
}

// Line is a line of styled text.
type Line []Span

// Text returns the line without styles.
func (l Line) Text() string {
	var text strings.Builder
	for _, span := range l {
		text.WriteString(span.Text)
	}
	return strings.TrimRight(text.String(), " ")
}

// ANSI returns the line with escape sequences for its styles.
func (l Line) ANSI() string {
	var text strings.Builder
	for _, span := range l {
		if code := codes[span.Style]; code != "" && span.Text != "" {
			fmt.Fprintf(&text, "\x1b[%sm%s\x1b[0m", code, span.Text)
		} else {
			text.WriteString(span.Text)
		}
	}
	return text.String()
}

func (l Line) width() (width int) {
	for _, span := range l {
		width += utf8.RuneCountInString(span.Text)
	}
	return width
}

// clip truncates the line to a width.
func (l Line) clip(width int) Line {
	left := width
	for i, span := range l {
		runes := []rune(span.Text)
		if len(runes) <= left {
			left -= len(runes)
			continue
		}
		clipped := append(Line{}, l[:i]...)
		if left > 0 {
			clipped = append(clipped, Span{string(runes[:left-1]) + "…", span.Style})
		}
		return clipped
	}
	return l
}

// sanitize replaces control characters and characters that are not one cell wide.
func sanitize(text string) string {
	const firstWide = 0x1100 // from here on, scripts have characters of two cells
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r) || unicode.Is(unicode.Mn, r):
			return '?'
		case r >= firstWide && !strings.ContainsRune("…→–—•’“”", r):
			return '?'
		}
		return r
	}, text)
}

// pad pads or truncates text to a width.
func pad(text string, width int) string {
	runes := []rune(text)
	if len(runes) > width {
		return string(runes[:max(0, width-1)]) + "…"
	}
	return text + strings.Repeat(" ", width-len(runes))
}

// truncateLeft truncates text at the beginning, because the names of instances differ at the end.
func truncateLeft(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return "…" + string(runes[len(runes)-max(0, width-1):])
	}
	return text
}

// age formats a duration as kubectl formats ages.
func age(d time.Duration) string { return duration.HumanDuration(max(0, d)) }
