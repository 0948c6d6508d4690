package run

import (
	"slices"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/fleet"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
	"github.com/ringmaster-project/ringmaster/experiment/scenario"
)

// Result is the result of a run.
type Result struct {
	Scenario  string      `json:"scenario"`
	Setup     fleet.Setup `json:"setup"`
	Instances int         `json:"instances"`
	Workers   int         `json:"workers,omitempty"`
	// WorkTime is how long each reconcile waited.
	WorkTime time.Duration `json:"workTime,omitempty"`
	Load     scenario.Load `json:"load"`
	Seed     uint64        `json:"seed"`
	// Repeat is the number of the run among those of the same configuration, 0 if there is only one.
	Repeat int `json:"repeat,omitempty"`
	// Lasts is the planned duration.
	Lasts time.Duration `json:"lasts"`
	Begin time.Time     `json:"begin"`
	End   time.Time     `json:"end"`
	// Interrupted is set if the run ended early.
	Interrupted bool `json:"interrupted,omitempty"`
	// Limits are the conditions under which the run is valid, Invalid the reasons why it is not.
	Limits    Limits    `json:"limits"`
	Invalid   []string  `json:"invalid,omitempty"`
	Verdicts  []Verdict `json:"verdicts"`
	Generator Generator `json:"generator"`
	// Kubernetes is the version of the API server.
	Kubernetes string `json:"kubernetes"`
	// Processes are sorted by name.
	Processes []Figures `json:"processes"`
	// Together is the usage of all instances, memory on average: not all of them existed at the same time.
	Together Figures `json:"together"`
	// Responses are the response times of the users' operations, APILatencies those of the API server by verb and resource, and
	// Admission those of the sharder's webhook.
	Responses    []Latency `json:"responses"`
	APILatencies []Latency `json:"apiLatencies"`
	Admission    []Latency `json:"admission,omitempty"`
	// Requests are all requests to the API server, by verb.
	Requests map[string]float64 `json:"requests"`
	// FailedOpen is how often the API server could not reach a webhook, and continued without it.
	FailedOpen float64    `json:"failedOpen"`
	Ownership  Ownership  `json:"ownership"`
	Recoveries []Recovery `json:"recoveries,omitempty"`
	// Reconciles is the number of reconciles, Overlaps describes those that began while another instance reconciled the same Website.
	Reconciles int      `json:"reconciles"`
	Overlaps   []string `json:"overlaps,omitempty"`
	// Capacity is the result of a scenario with a ramp, nil if the initial load was too high.
	Capacity *Capacity `json:"capacity,omitempty"`
	Events   []Event   `json:"events,omitempty"`
	// Errors are the failed operations and measurements.
	Errors []string `json:"errors,omitempty"`
	// Charts are series over time, by name.
	Charts map[string][]measure.Series `json:"-"`
}

// Holds reports whether all objectives hold and no reconciles overlap.
func (r *Result) Holds() bool {
	return len(r.Overlaps) == 0 && !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return !v.Holds })
}

// Failed reports whether the run has shown a failure. A ramp ends when an objective no longer holds, so that is not one.
func (r *Result) Failed() bool {
	return len(r.Overlaps) > 0 || r.Capacity == nil && !r.Holds() || !r.Complete()
}

// Complete reports whether everything was executed and measured.
func (r *Result) Complete() bool { return len(r.Errors) == 0 && r.Generator.Failed == 0 }

// Valid reports whether the run shows the system, and not the limits of the load generator or of the machine.
func (r *Result) Valid() bool { return len(r.Invalid) == 0 }

// Generator is the work of the load generator.
type Generator struct {
	Planned float64 `json:"planned"`
	Done    float64 `json:"done"`
	Failed  float64 `json:"failed"`
	Retried float64 `json:"retried"`
	// Failures are some of the errors of failed operations.
	Failures []string `json:"failures,omitempty"`
	// Late is the p99 of the time from an operation's due time until it started, in seconds.
	Late float64 `json:"late"`
	// Busy is the share of the machine's CPU time in use, on average; BusyPeak is the highest over a minute.
	Busy     float64 `json:"busy"`
	BusyPeak float64 `json:"busyPeak"`
	// Others is the share that is in use by processes outside of the experiment, on average. It is 0 in an existing cluster, whose
	// processes are not known.
	Others float64 `json:"others"`
}

// Figures are the usage of a process.
type Figures struct {
	Name string `json:"name"`
	// CPU is in cores, on average; CPUPeak is the highest over a minute.
	CPU     float64 `json:"cpu"`
	CPUPeak float64 `json:"cpuPeak"`
	// InUse is Go's heap in use and Resident the resident memory, both the maximum, in bytes. LiveHeap is Go's heap after a garbage
	// collection at the end, 0 if it is not known.
	InUse    float64 `json:"inUse,omitempty"`
	LiveHeap float64 `json:"liveHeap,omitempty"`
	Resident float64 `json:"resident"`
	// Received and Sent are in bytes per second.
	Received float64 `json:"received"`
	Sent     float64 `json:"sent"`
	// Reconciles is the number of reconciles, Requests the number of requests to the API server by method.
	Reconciles float64            `json:"reconciles,omitempty"`
	Requests   map[string]float64 `json:"requests,omitempty"`
}

// Ownership is how Websites were assigned.
type Ownership struct {
	// Ownerless is the highest number of Websites without a live owner, OwnerlessSeconds the sum of the times without one.
	Ownerless        float64 `json:"ownerless"`
	OwnerlessSeconds float64 `json:"ownerlessSeconds"`
	Moves            float64 `json:"moves"`
	// LabelWrites is the number of writes for the moves.
	LabelWrites float64 `json:"labelWrites"`
}

// WritesPerMove returns the number of writes for each move.
func (o Ownership) WritesPerMove() float64 {
	if o.Moves == 0 {
		return 0
	}
	return o.LabelWrites / o.Moves
}
