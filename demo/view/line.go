package view

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Style is how text looks.
type Style int

// The styles. They are the terminal's own colours, so that they can be read on its background.
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

// Line is a line of a frame.
type Line []Span

// Text is the line without styles.
func (l Line) Text() string {
	var text strings.Builder
	for _, span := range l {
		text.WriteString(span.Text)
	}
	return strings.TrimRight(text.String(), " ")
}

// ANSI is the line as a terminal takes it.
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

// clip cuts the line where the terminal ends.
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

// clean makes text from elsewhere safe to show: each rune is one cell wide and does nothing.
func clean(text string) string {
	const wide = 0x1100 // from here on, scripts have runes of two cells
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r) || unicode.Is(unicode.Mn, r):
			return '?'
		case r >= wide && !strings.ContainsRune("…→–—•’“”", r):
			return '?'
		}
		return r
	}, text)
}

// pad makes text exactly as wide.
func pad(text string, width int) string {
	runes := []rune(text)
	if len(runes) > width {
		return string(runes[:max(0, width-1)]) + "…"
	}
	return text + strings.Repeat(" ", width-len(runes))
}

// tail is the end of a text, where the names of instances differ.
func tail(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return "…" + string(runes[len(runes)-max(0, width-1):])
	}
	return text
}

// short is a duration as kubectl shows ages.
func short(d time.Duration) string {
	switch d = max(0, d); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
