package oracle

import (
	"time"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

// process is what happened to a process.
type process struct {
	shard, instance string
	joinedAt        time.Time
	// running is when it was a member and could work, pauses when it was stopped where it was.
	running, pauses []Window
	// gone is when it had ended, or zero.
	gone time.Time

	joined, paused bool
}

func (t *timeline) process(name string) *process {
	if t.processes[name] == nil {
		t.processes[name] = &process{}
	}
	return t.processes[name]
}

func (p *process) works() bool { return p.joined && !p.paused && p.gone.IsZero() }

// note takes an event of the process in.
func (p *process) note(event *history.Event) {
	worked := p.works()
	switch event.What {
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
	switch works := p.works(); {
	case works && !worked:
		p.running = append(p.running, Window{From: event.Time})
	case !works && worked:
		p.running[len(p.running)-1].To = event.Time
	}
}

// finish closes what was open when the run ended.
func (p *process) finish(end time.Time) {
	for _, open := range [][]Window{p.running, p.pauses} {
		if last := len(open) - 1; last >= 0 && open[last].To.IsZero() {
			open[last].To = end
		}
	}
}

// woken tells whether the process has been paused before a time.
func (p *process) woken(at time.Time) bool {
	for _, pause := range p.pauses {
		if !pause.To.After(at) {
			return true
		}
	}
	return false
}

// holds tells whether a write of the shard's Lease left it with this process.
func (p *process) holds(lease *leased) bool {
	return lease.Held() && (p.instance == "" || lease.Instance == "" || lease.Instance == p.instance)
}

// lostLease is when the process was seen to have lost the Lease that it had, or zero.
func (t *timeline) lostLease(p *process, lag time.Duration) time.Time {
	had := false
	for i := range t.leases[p.shard] {
		lease := &t.leases[p.shard][i]
		switch {
		case p.holds(lease):
			had = true
		case had && (p.instance != "" || lease.at.After(p.joinedAt.Add(lag))):
			// Without knowing the instance, a loss that was seen just after it had joined may be
			// that of the process before it.
			return lease.at
		}
	}
	return time.Time{}
}
