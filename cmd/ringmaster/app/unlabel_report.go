package app

import (
	"fmt"
	"io"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/unlabel"
)

// unlabelReporter prints the progress and the result of unlabel.
type unlabelReporter struct {
	out, progress io.Writer
	dryRun        bool
	ring          string

	found, removed int
	printedAt      time.Time
}

// reportProgress prints a count if nothing was printed for a while.
func (r *unlabelReporter) reportProgress(count unlabel.Count) {
	const quiet = 3 * time.Second
	now := time.Now()
	if r.printedAt.IsZero() {
		r.printedAt = now
	}
	if now.Sub(r.printedAt) >= quiet {
		r.printedAt = now
		fmt.Fprintf(r.progress, "%s: %d so far …\n", count.Resource, count.Found)
	}
}

// reportResource prints the result for a resource.
func (r *unlabelReporter) reportResource(count unlabel.Count) {
	if count.Found == 0 {
		return
	}
	r.found += count.Found
	if !r.dryRun {
		r.removed += count.Done
	}
	fmt.Fprintf(r.out, "%s: %s\n", count.Resource, r.describe(count.Done, count.Found))
}

func (r *unlabelReporter) describe(done, found int) string {
	switch {
	case r.dryRun:
		return fmt.Sprintf("%d with labels", found)
	case done == found:
		return fmt.Sprintf("%d unlabelled", done)
	}
	return fmt.Sprintf("%d unlabelled, %d still have labels", done, found-done)
}

// reportTotal prints the result for all resources.
func (r *unlabelReporter) reportTotal(resources int) {
	if r.dryRun {
		fmt.Fprintf(r.out, "%d objects have labels of the ring %s; resources searched: %d.\n", r.found, r.ring, resources)
		return
	}
	fmt.Fprintf(r.out, "Removed the labels of the ring %s from %d objects; resources searched: %d.\n", r.ring, r.removed, resources)
}
