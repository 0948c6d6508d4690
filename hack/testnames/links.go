package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var (
	fenced  = regexp.MustCompile("(?ms)^ *```.*?\\n *```$")
	span    = regexp.MustCompile("`[^`\\n]+`")
	link    = regexp.MustCompile(`\]\(([^()\s]*)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// markup is what GitHub removes from a heading to make its anchor.
	markup = regexp.MustCompile(`\]\([^)]*\)|[^\p{L}\p{N}_ -]`)
)

// brokenLinks finds links to files and headings of the tree that do not exist.
func brokenLinks(tree fs.FS, name, document string) (problems []string) {
	for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(fenced.ReplaceAllString(document, ""), "code"), -1) {
		target, anchor, hasAnchor := strings.Cut(found[1], "#")
		file := name
		if target != "" {
			file = path.Join(path.Dir(name), target)
		}
		_, err := fs.Stat(tree, file)
		switch {
		case strings.Contains(target, "://"):
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s: link to %s, which does not exist", name, found[1]))
		case hasAnchor && strings.HasSuffix(file, ".md") && !anchors(tree, file)[anchor]:
			problems = append(problems, fmt.Sprintf("%s: link to %s, which has no such heading", name, found[1]))
		}
	}
	return problems
}

func anchors(tree fs.FS, file string) map[string]bool {
	content, err := fs.ReadFile(tree, file)
	found := map[string]bool{}
	if err != nil {
		return found
	}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
		found[strings.ReplaceAll(strings.ToLower(markup.ReplaceAllString(h[1], "")), " ", "-")] = true
	}
	return found
}
