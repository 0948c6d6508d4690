// Command testnames fails when a document names a test that does not exist, links to a file or heading that does not exist,
// or has a table of promises with a row that names no test. It checks names only: whether a test checks what the row
// promises is for reviewers and mutants.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	root := flag.String("C", ".", "root of the repository")
	flag.Parse()
	problems, err := check(os.DirFS(*root), flag.Args()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testnames:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// check looks at documents of a tree, which are named by patterns.
func check(tree fs.FS, patterns ...string) (problems []string, err error) {
	known, err := readTests(tree)
	if err != nil {
		return nil, err
	}
	for _, pattern := range patterns {
		names, err := fs.Glob(tree, pattern)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("no document is named %s", pattern)
		}
		for _, name := range names {
			content, err := fs.ReadFile(tree, filepath.ToSlash(name))
			if err != nil {
				return nil, err
			}
			problems = append(problems, judge(known, name, string(content))...)
			problems = append(problems, brokenLinks(tree, name, string(content))...)
		}
	}
	return problems, nil
}

// judge says what is wrong with a document.
func judge(known index, name, document string) []string {
	references, wrong := readReferences(document)
	for _, r := range references {
		switch {
		case known.has(r.dir, r.name):
		case r.dir != "":
			wrong = append(wrong, finding{r.line, fmt.Sprintf("test %s not found in %s", r.name, r.dir)})
		default:
			wrong = append(wrong, finding{r.line, "test " + r.name + " not found"})
		}
	}
	slices.SortStableFunc(wrong, func(a, b finding) int { return a.line - b.line })
	var problems []string
	for _, w := range wrong {
		problems = append(problems, fmt.Sprintf("%s:%d: %s", name, w.line, w.what))
	}
	return problems
}
