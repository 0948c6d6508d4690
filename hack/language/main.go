// Command language fails when a document, help text, message, comment, manifest or script has a word or phrase that
// rules.yaml refuses, or an identifier or a path has such a word.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed rules.yaml
var rulesFile []byte

func main() {
	root := flag.String("C", ".", "the `folder` of the repository")
	flag.Parse()
	findings, err := check(*root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "language:", err)
		os.Exit(2)
	}
	for _, finding := range findings {
		fmt.Println(finding)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "language: found %d phrases and names to reword: see the rules in hack/language/rules.yaml\n", len(findings))
		os.Exit(1)
	}
}

// check checks all files of a repository that are not generated.
func check(root string) (findings []finding, err error) {
	r, err := readRules(rulesFile)
	if err != nil {
		return nil, err
	}
	names, err := files(root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, but still in the index
		}
		if err != nil {
			return nil, err
		}
		found, err := r.check(name, string(content))
		if err != nil {
			return nil, err
		}
		findings = append(findings, found...)
	}
	return append(findings, r.unused()...), nil
}

// files lists the documents, sources, manifests and scripts that git does not ignore.
func files(root string) (names []string, err error) {
	args := []string{"-C", root, "ls-files", "-co", "--exclude-standard", "--"}
	out, err := exec.Command("git", append(args, checked...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("listing files: %w", err)
	}
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); !generated(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// checked are the files to check, as patterns of git.
var checked = []string{"*.go", "*.md", "*.yaml", "*.yml", "*.toml", "*.conf", "*.tmpl", "*.html", "*.sh", "Makefile", ".ci/*", "go.mod", "*/go.mod"}

func generated(name string) bool {
	return strings.Contains(name, "zz_generated") || strings.Contains(name, "/crds/") ||
		strings.HasPrefix(name, "docs/reference/cli/") || name == "docs/reference/api.md" || strings.HasPrefix(name, "hack/language/")
}
