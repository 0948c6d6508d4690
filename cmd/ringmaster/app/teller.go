package app

import (
	"fmt"
	"io"
	"time"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/unlabel"
)

// teller tells a person how unlabelling goes.
type teller struct {
	out, progress io.Writer
	dryRun        bool
	ring          string

	found, removed int
	told           time.Time
}

// going tells of the progress when there was nothing to see for a while.
func (t *teller) going(count unlabel.Count) {
	const quiet = 3 * time.Second
	now := time.Now()
	if t.told.IsZero() {
		t.told = now
	}
	if now.Sub(t.told) >= quiet {
		t.told = now
		fmt.Fprintf(t.progress, "%s: %d so far …\n", count.Resource, count.Found)
	}
}

// done tells what came of a resource.
func (t *teller) done(count unlabel.Count) {
	if count.Found == 0 {
		return
	}
	t.found += count.Found
	if !t.dryRun {
		t.removed += count.Done
	}
	fmt.Fprintf(t.out, "%s: %s\n", count.Resource, t.of(count.Done, count.Found))
}

func (t *teller) of(done, found int) string {
	switch {
	case t.dryRun:
		return fmt.Sprintf("%d with labels", found)
	case done == found:
		return fmt.Sprintf("%d unlabelled", done)
	}
	return fmt.Sprintf("%d unlabelled, %d still have labels", done, found-done)
}

// summary tells what came of all.
func (t *teller) summary(resources int) {
	if t.dryRun {
		fmt.Fprintf(t.out, "%d objects have labels of the ring %s; resources searched: %d.\n", t.found, t.ring, resources)
		return
	}
	fmt.Fprintf(t.out, "Removed the labels of the ring %s from %d objects; resources searched: %d.\n", t.ring, t.removed, resources)
}
