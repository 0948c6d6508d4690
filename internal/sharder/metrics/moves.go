package metrics

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ringmaster-project/ringmaster/internal/assignment"
	"github.com/ringmaster-project/ringmaster/internal/sharder/moves"
)

// Measure makes all that a Mover does be counted and measured.
func (m *Metrics) Measure(options *moves.Options) {
	options.Report = func(ring string, resource schema.GroupResource, action assignment.Action, took time.Duration) {
		switch action {
		case assignment.Drain:
			m.Drained(ring, resource)
		case assignment.Assign, assignment.Move:
			m.Moved(ring, resource, took)
		case assignment.Undrain, assignment.Keep:
		}
	}
	options.Synced = func(ring string, counts moves.Counts, _ error) {
		m.Synced(ring, counts.Objects, counts.Unassigned, counts.Took)
	}
	options.Drained = func(ring string, report moves.DrainReport) {
		m.Draining(ring, report.Outstanding, report.Oldest, report.Ended)
	}
}
