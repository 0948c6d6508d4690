// Command language fails when a document, help text, message or comment has a word or phrase that rules.yaml refuses.
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
		fmt.Fprintf(os.Stderr, "language: %d phrases to reword; hack/language/rules.yaml has the rules\n", len(findings))
		os.Exit(1)
	}
}

// check checks all files of a repository that people write.
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

// files lists the documents, sources and manifests that git knows, but for generated ones.
func files(root string) (names []string, err error) {
	cmd := exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard", "--", "*.go", "*.md", "*.yaml", "Makefile", "*.sh")
	out, err := cmd.Output()
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

func generated(name string) bool {
	return strings.Contains(name, "zz_generated") || strings.Contains(name, "/crds/") ||
		strings.HasPrefix(name, "docs/reference/cli/") || name == "docs/reference/api.md" || strings.HasPrefix(name, "hack/language/")
}
