// Command results fills the marked blocks of documents with the figures in docs/results, so that no figure is copied by hand.
//
// A block begins with <!-- figures: NAME --> and ends with <!-- end of figures -->; a figure in a sentence is between
// <!-- figure: NAME --> and <!-- end -->. If their results do not exist, they stay as they are.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/ringmaster-project/ringmaster/experiment/report"
)

func main() {
	if len(os.Args) != 2 { //nolint:mnd // the program and the folder
		fmt.Fprintln(os.Stderr, "Usage: results DOCS")
		os.Exit(1)
	}
	if err := fill(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

// documents are those with blocks.
var documents = []string{"explanation/evaluation.md", "explanation/choosing.md", "how-to/operate.md", "../README.md"}

// fill updates the blocks of all documents in a folder, and the picture that they share.
func fill(docs string) error {
	const picture = "pictures/capacity.svg"
	if content, err := os.ReadFile(filepath.Join(docs, "results", "capacity", picture)); err == nil {
		if err := os.WriteFile(filepath.Join(docs, picture), content, 0o644); err != nil {
			return fmt.Errorf("writing a picture: %w", err)
		}
	}
	results := source(filepath.Join(docs, "results"))
	for _, name := range documents {
		path := filepath.Join(docs, name)
		before, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a document: %w", err)
		}
		after, err := replace(string(before), results)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if after == string(before) {
			continue
		}
		if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
			return fmt.Errorf("writing a document: %w", err)
		}
	}
	return nil
}

// source returns a function that reads the report with a name, nil if it does not exist.
func source(folder string) func(name string) (*report.Report, error) {
	return func(name string) (*report.Report, error) {
		found, err := report.Read(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil //nolint:nilnil // it was not measured yet
		}
		return found, err
	}
}

// blocks are what is filled, with the format of the result: name and content.
var blocks = []struct {
	pattern *regexp.Regexp
	format  string
}{
	{regexp.MustCompile(`(?s)<!-- figures: ([a-z-]+) -->\n.*?<!-- end of figures -->`), "<!-- figures: %s -->\n%s\n<!-- end of figures -->"},
	{regexp.MustCompile(`<!-- figure: ([a-z-]+) -->[^<]*<!-- end -->`), "<!-- figure: %s -->%s<!-- end -->"},
}

// replace returns a text with its blocks filled.
func replace(text string, results func(string) (*report.Report, error)) (string, error) {
	var failed error
	for _, kind := range blocks {
		text = kind.pattern.ReplaceAllStringFunc(text, func(block string) string {
			name := kind.pattern.FindStringSubmatch(block)[1]
			write := writers[name]
			if write == nil {
				failed = errors.Join(failed, fmt.Errorf("unknown block %q", name))
				return block
			}
			content, err := write(results)
			if err != nil || content == "" {
				failed = errors.Join(failed, err)
				return block
			}
			return fmt.Sprintf(kind.format, name, strings.TrimSpace(content))
		})
	}
	return text, failed
}
