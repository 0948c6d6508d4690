package doctor

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Status is the result of a check, or the severity of a finding.
type Status string

// The statuses.
const (
	// OK: nothing is wrong.
	OK Status = "ok"
	// Unknown: it could not be checked, for example because the user may not read something.
	Unknown Status = "unknown"
	// Warning: it works, but somebody should look at it.
	Warning Status = "warning"
	// Failure: objects are not assigned, moved or reconciled as they should be.
	Failure Status = "failure"
)

var severities = []Status{OK, Unknown, Warning, Failure}

// worse returns the more severe of two statuses.
func worse(a, b Status) Status {
	if slices.Index(severities, b) > slices.Index(severities, a) {
		return b
	}
	return a
}

// Report is the result of all checks.
type Report struct {
	// Time is the time of the checks by the clock of the API server.
	Time metav1.Time `json:"time"`
	// Status is the most severe status of all checks.
	Status  Status  `json:"status"`
	Summary Summary `json:"summary"`
	Checks  []Check `json:"checks"`
}

// Summary counts checks and findings.
type Summary struct {
	Checks   int `json:"checks"`
	Failures int `json:"failures"`
	Warnings int `json:"warnings"`
	Unknown  int `json:"unknown"`
}

// Check is one check with its findings.
type Check struct {
	// Name identifies the check, such as "webhooks".
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Message says what was found to be in order.
	Message  string    `json:"message,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// Finding is one thing that is wrong, or that could not be checked.
type Finding struct {
	// Reason identifies the kind of the finding, such as "CRDMissing".
	Reason Reason `json:"reason"`
	Status Status `json:"status"`
	// Object is the object concerned, as TYPE/NAME or TYPE/NAMESPACE/NAME.
	Object string `json:"object,omitempty"`
	// Ring is the ring concerned, if there is one.
	Ring string `json:"ring,omitempty"`
	// Cause says what is wrong, and what follows from that.
	Cause string `json:"cause"`
	// Next is the next step.
	Next string `json:"next"`
}

func (c *Check) add(findings ...Finding) {
	for _, f := range findings {
		c.Findings = append(c.Findings, f)
		c.Status = worse(c.Status, f.Status)
	}
}

// has reports whether the check has a finding about a ring. An empty ring means any.
func (c *Check) has(ring string, reasons ...Reason) bool {
	return slices.ContainsFunc(c.Findings, func(f Finding) bool {
		return (ring == "" || f.Ring == ring) && slices.Contains(reasons, f.Reason)
	})
}

// summarize sorts the findings, the most severe ones first, and counts them.
func (r *Report) summarize() {
	r.Status, r.Summary = OK, Summary{Checks: len(r.Checks)}
	for i := range r.Checks {
		check := &r.Checks[i]
		check.Status = cmp.Or(check.Status, OK)
		r.Status = worse(r.Status, check.Status)
		slices.SortStableFunc(check.Findings, func(a, b Finding) int {
			return cmp.Compare(slices.Index(severities, b.Status), slices.Index(severities, a.Status))
		})
		for _, f := range check.Findings {
			switch f.Status {
			case Failure:
				r.Summary.Failures++
			case Warning:
				r.Summary.Warnings++
			case Unknown:
				r.Summary.Unknown++
			case OK:
			}
		}
	}
}

// callProgram replaces the name of this program in next steps.
func (r *Report) callProgram(name string) {
	if name == "" {
		return
	}
	for i := range r.Checks {
		for j := range r.Checks[i].Findings {
			next := &r.Checks[i].Findings[j].Next
			*next = strings.ReplaceAll(*next, "ringmaster ", name+" ")
		}
	}
}

// Checked reports whether anything could be checked besides the version of the API server, which everybody
// may read.
func (r *Report) Checked() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name != checkServer && c.Status != Unknown })
}
