package oracle

import (
	"time"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// process has the events of a process.
type process struct {
	shard, instance string
	joinedAt        time.Time
	// running are the times when it was a member and not paused, and pauses when it was paused.
	running, pauses []Window
	// gone is the time of its end, or zero.
	gone time.Time

	joined, paused bool
}

func (t *timeline) process(name string) *process {
	if t.processes[name] == nil {
		t.processes[name] = &process{}
	}
	return t.processes[name]
}

func (p *process) isWorking() bool { return p.joined && !p.paused && p.gone.IsZero() }

// note adds an event of the process.
func (p *process) note(event *history.Event) {
	worked := p.isWorking()
	switch event.Type {
	case history.Joined:
		p.joined, p.joinedAt, p.shard, p.instance = true, event.Time, event.Shard, event.Instance
	case history.Left, history.Lost:
		p.joined = false
	case history.Gone:
		p.gone = event.Time
	case history.Paused:
		p.paused = true
		p.pauses = append(p.pauses, Window{From: event.Time})
	case history.Resumed:
		if p.paused {
			p.pauses[len(p.pauses)-1].To = event.Time
		}
		p.paused = false
	default:
	}
	switch works := p.isWorking(); {
	case works && !worked:
		p.running = append(p.running, Window{From: event.Time})
	case !works && worked:
		p.running[len(p.running)-1].To = event.Time
	}
}

// finish closes the windows that are open at the end of the run.
func (p *process) finish(end time.Time) {
	for _, open := range [][]Window{p.running, p.pauses} {
		if last := len(open) - 1; last >= 0 && open[last].To.IsZero() {
			open[last].To = end
		}
	}
}

// resumedBefore reports whether the process was resumed before a time.
func (p *process) resumedBefore(at time.Time) bool {
	for _, pause := range p.pauses {
		if !pause.To.After(at) {
			return true
		}
	}
	return false
}

// holds reports whether this process held the shard's Lease after a write.
func (p *process) holds(lease *observedLease) bool {
	return lease.Held() && (p.instance == "" || lease.Instance == "" || lease.Instance == p.instance)
}

// lostLease returns when it was observed that the process had lost its Lease, or zero.
func (t *timeline) lostLease(p *process, lag time.Duration) time.Time {
	had := false
	for i := range t.leases[p.shard] {
		lease := &t.leases[p.shard][i]
		switch {
		case p.holds(lease):
			had = true
		case had && (p.instance != "" || lease.at.After(p.joinedAt.Add(lag))):
			// Without an instance, a loss just after it had joined may be that of the previous
			// process.
			return lease.at
		}
	}
	return time.Time{}
}
