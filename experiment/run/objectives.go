package run

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// Objective is a limit for the p99 of a duration.
type Objective struct {
	Name string `json:"name"`
	// Limit is in seconds.
	Limit float64 `json:"limit"`
	// Coarse is set if the histogram has powers of ten only, so that the p99 is known as a range.
	Coarse bool `json:"coarse,omitempty"`
	// PerRequest is set if the p99 is that of the slowest verb and resource, instead of one over all requests.
	PerRequest bool `json:"perRequest,omitempty"`

	// histogram is the name of the histogram without its suffix, and matchers select its series.
	histogram, matchers string
}

// The histogram of the API server's response times, and the requests that are mutations and reads.
const (
	requestDuration = "apiserver_request_duration_seconds"
	mutations       = `verb=~"POST|PUT|PATCH|DELETE|APPLY"`
	reads           = `verb=~"GET|LIST"`
	// requestLabels tell requests apart.
	requestLabels = "verb, group, resource, subresource"
)

// Objectives returns the objectives of the original evaluation. Those of the API server are judged per verb and resource, as
// Kubernetes' own objectives are: one p99 over all requests would hide slow ones behind frequent ones.
func Objectives() []Objective {
	return []Objective{
		{Name: "queue: time until a worker starts on a Website", Limit: 1, Coarse: true, histogram: "workqueue_queue_duration_seconds", matchers: `name="website"`},
		{Name: "ready: time from a change's due time until its generation is Ready", Limit: 5, histogram: load.ReadyTime},
		{Name: "API server: slowest mutating verb and resource", Limit: 1, PerRequest: true, histogram: requestDuration, matchers: mutations},
		{Name: "API server: slowest reading verb and resource", Limit: 1, PerRequest: true, histogram: requestDuration, matchers: reads},
	}
}

const (
	// judged is the quantile that objectives limit.
	judged = 0.99
	// fewest is how many requests of a verb and resource there must be for a p99.
	fewest = 20
)

// increase is a query for the growth of the histogram's buckets over a time.
func (o Objective) increase(window time.Duration, matchers ...string) string {
	all := matchers
	if o.matchers != "" {
		all = append(all, o.matchers)
	}
	return fmt.Sprintf("increase(%s_bucket{%s}[%dms])", o.histogram, strings.Join(all, ","), milliseconds(window))
}

// p99 is a query for the p99 over a time, of all requests together.
func (o Objective) p99(window time.Duration) string {
	return fmt.Sprintf("histogram_quantile(%g, sum by (le) (%s))", judged, o.increase(window))
}

// p99PerRequest is a query for the p99 over a time by verb and resource, if there are enough requests.
func (o Objective) p99PerRequest(window time.Duration) string {
	const resourceRequests = `resource!=""` // and not health checks and metrics
	return fmt.Sprintf("(histogram_quantile(%g, sum by (%s, le) (%s)) and on (%s) sum by (%s) (%s) >= %d)", judged,
		requestLabels, o.increase(window, resourceRequests), requestLabels, requestLabels, o.increase(window, resourceRequests, `le="+Inf"`), fewest)
}

// query returns a query for the value that is judged. If no verb and resource has enough requests, it is that of all together.
func (o Objective) query(window time.Duration) string {
	if !o.PerRequest {
		return o.p99(window)
	}
	return fmt.Sprintf("topk(1, %s) or on () %s", o.p99PerRequest(window), o.p99(window))
}

// chart returns a query for the same value over time, in one series.
func (o Objective) chart(window time.Duration) string {
	if !o.PerRequest {
		return o.p99(window)
	}
	return fmt.Sprintf("max(%s) or on () %s", o.p99PerRequest(window), o.p99(window))
}

func milliseconds(d time.Duration) int64 { return max(1, d.Milliseconds()) }

// Verdict is whether an objective holds.
type Verdict struct {
	Objective
	// Value is the measured p99 in seconds, nil if nothing was measured. Request is the verb and resource that it is of.
	Value   *float64 `json:"value"`
	Request string   `json:"request,omitempty"`
	Holds   bool     `json:"holds"`
}

// judge returns whether an objective holds over the time before at.
func judge(ctx context.Context, store *measure.Store, o Objective, window time.Duration, at time.Time) (Verdict, error) {
	found, err := store.Query(ctx, o.query(window), at)
	switch {
	case err != nil:
		return Verdict{}, err
	case len(found) == 0 || math.IsNaN(found[0].Value):
		return Verdict{Objective: o}, nil // without a measurement it does not hold
	}
	value := found[0].Value
	return Verdict{Objective: o, Value: &value, Request: requestName(found[0].Labels), Holds: value <= o.Limit}, nil
}

// requestName returns a verb and a resource as people write them: PATCH websites/status.
func requestName(labels map[string]string) string {
	if labels["verb"] == "" {
		return ""
	}
	name := labels["verb"] + " " + labels["resource"]
	if group := labels["group"]; group != "" {
		name += "." + group
	}
	if subresource := labels["subresource"]; subresource != "" {
		name += "/" + subresource
	}
	return name
}
