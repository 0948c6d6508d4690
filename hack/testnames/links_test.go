package main

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestBrokenLinks plants links to files and headings that do not exist.
func TestBrokenLinks(t *testing.T) {
	tree := fstest.MapFS{
		"README.md":         {},
		"docs/a/one.md":     {},
		"docs/a/picture.md": {Data: []byte("# A `Title`, of [two](x) words\n```\n# not a heading\n```\n")},
	}
	for text, want := range map[string]string{
		"[x](picture.md) and [x](../../README.md)":      "",
		"[x](https://example.com/a) [y](http://b.c/#d)": "",
		"[x](picture.md#a-title-of-two-words)":          "",
		"# Here\n[x](#here)":                            "",
		"```\n[x](missing.md)\n```":                     "",
		"![x](missing.svg)":                             "docs/a/one.md: link to missing.svg, which does not exist",
		"[x](../README.md)":                             "docs/a/one.md: link to ../README.md, which does not exist",
		"[x](picture.md#not-a-heading)":                 "docs/a/one.md: link to picture.md#not-a-heading, which has no such heading",
	} {
		tree["docs/a/one.md"] = &fstest.MapFile{Data: []byte(text)}
		if diff := cmp.Diff(want, strings.Join(brokenLinks(tree, "docs/a/one.md", text), "\n")); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
