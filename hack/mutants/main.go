// Command mutants changes the product in small ways that break a promise, one at a time, and fails unless the test that checks the
// promise notices each of them. A test counts as having noticed only if it fails with the message that is expected: not if the
// mutant does not compile, panics or makes the test time out.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	root := flag.String("C", "..", "root of the module to change")
	list := flag.String("list", "mutants/mutants.yaml", "file with the mutants")
	named := flag.String("run", "", "regular expression: apply only the mutants with such names")
	ci := flag.Bool("ci", false, "apply only the mutants that are for each change")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := check(ctx, *root, *list, *named, *ci, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// check applies the chosen mutants and reports each of them as soon as it is known.
func check(ctx context.Context, root, list, named string, ci bool, out io.Writer) error {
	all, err := read(list)
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(named)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	chosen := slices.DeleteFunc(all, func(m mutant) bool { return ci && !m.CI || !pattern.MatchString(m.Name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant of %s is chosen", list)
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return err
	}
	began := time.Now()
	results, err := newRunner(root, chosen, out).run(ctx)
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if r.verdict != killed {
			failed++
			fmt.Fprintf(out, "\n%s: %s\n  in %s, by %s %s, expected to fail with %q\n%s", r.Name, r.verdict, r.File, r.Package, r.Test, r.Message, indent(r.detail))
		}
	}
	fmt.Fprintf(out, "\n%d mutants, %d killed, in %s\n", len(results), len(results)-failed, time.Since(began).Round(time.Second))
	if failed > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by the expected assertion: extend the test, or update the mutant if the code has changed", failed, len(results))
	}
	return nil
}

// indent shows the end of an output.
func indent(output string) string {
	const maxLines = 40
	lines := strings.Split(strings.TrimSpace(output), "\n")
	lines = lines[max(0, len(lines)-maxLines):]
	return "    " + strings.Join(lines, "\n    ") + "\n"
}
