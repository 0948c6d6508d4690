// Command publicapi compares the exported API of the packages for users with the last accepted one.
//
// The accepted API is a file with a line for each exported name, in the manner of Go's own api/*.txt, so that a change of it
// is readable in a diff. The command adds new lines to it. It removes a line only if the file of explained changes lists it
// with a reason, and fails otherwise.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

func main() {
	root := flag.String("C", ".", "root of the repository")
	accepted := flag.String("accepted", "", "file with the accepted API")
	explained := flag.String("explained", "", "file with explained incompatible changes")
	flag.Parse()
	lines, err := current(*root, flag.Args())
	if err == nil {
		err = update(*accepted, *explained, lines, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "publicapi:", err)
		os.Exit(1)
	}
}

func current(root string, patterns []string) ([]string, error) {
	all, module, err := load(root, os.Environ(), patterns...)
	if err != nil {
		return nil, err
	}
	return describe(module, all...), nil
}

const header = `# What the packages for users export. 'make generate' adds what is new; a line that is removed or changed is an
# incompatible change, which must be explained first: see CONTRIBUTING.md.
`

// update writes the accepted API, and fails when a line is removed without a reason. Without a file of accepted lines,
// everything is accepted.
func update(acceptedPath, explainedPath string, now []string, out io.Writer) error {
	content, err := os.ReadFile(acceptedPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	explained, err := os.ReadFile(explainedPath)
	if err != nil {
		return err
	}
	reasons, err := parseReasons(string(explained))
	if err != nil {
		return fmt.Errorf("reading %s: %w", explainedPath, err)
	}
	c := compare(parseAPI(string(content)), now, reasons)
	if err := os.WriteFile(acceptedPath, []byte(header+strings.Join(c.next, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	for _, line := range c.unexplained {
		fmt.Fprintln(out, "removed:", line)
	}
	for _, line := range c.stale {
		fmt.Fprintln(out, "explained but not removed:", line)
	}
	switch {
	case len(c.unexplained) > 0:
		return fmt.Errorf("%d incompatible changes of the exported API are not explained: keep what users call, or copy the lines to %s "+
			"below a comment with the reason", len(c.unexplained), explainedPath)
	case len(c.stale) > 0:
		return fmt.Errorf("delete the lines that are not removed from %s", explainedPath)
	}
	return nil
}
