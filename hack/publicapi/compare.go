package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// comparison is the difference between the accepted API and the current one.
type comparison struct {
	// next is the accepted API with the explained changes.
	next []string
	// added are new lines, unexplained the lines that were removed without a reason.
	added, unexplained []string
	// stale are the lines that are explained but were not removed.
	stale []string
}

// compare judges the API that the code has now. A removed line stays accepted until it is explained.
func compare(accepted, current []string, reasons map[string]string) comparison {
	var c comparison
	for _, line := range current {
		if !slices.Contains(accepted, line) {
			c.added = append(c.added, line)
		}
		if reasons[line] != "" {
			c.stale = append(c.stale, line)
		}
	}
	c.next = slices.Clone(current)
	for _, line := range accepted {
		if !slices.Contains(current, line) && reasons[line] == "" {
			c.unexplained = append(c.unexplained, line)
			c.next = append(c.next, line)
		}
	}
	slices.Sort(c.next)
	return c
}

// parseAPI reads lines of an API. Empty ones and comments do not count.
func parseAPI(content string) []string {
	var lines []string
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

var errNoReason = errors.New("no comment above it gives a reason")

// parseReasons reads the explained changes: groups of removed lines, each below a comment with the reason. An empty
// line ends a group.
func parseReasons(content string) (map[string]string, error) {
	reasons := map[string]string{}
	reason, listed := "", false
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		text, isComment := strings.CutPrefix(line, "#")
		switch {
		case line == "":
			reason, listed = "", false
		case isComment && listed:
			reason, listed = strings.TrimSpace(text), false
		case isComment:
			reason = strings.TrimSpace(reason + " " + strings.TrimSpace(text))
		case reason == "":
			return nil, fmt.Errorf("%q: %w", line, errNoReason)
		default:
			reasons[line], listed = reason, true
		}
	}
	return reasons, nil
}
