package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ringmaster-project/ringmaster/experiment/load"
	"github.com/ringmaster-project/ringmaster/experiment/measure"
)

// Latency is the distribution of a duration, in seconds.
type Latency struct {
	Name  string  `json:"name"`
	Count float64 `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	// Max is the upper limit of the highest bucket that was used. It is open if that bucket has no upper limit: some took longer.
	Max  float64 `json:"max"`
	Open bool    `json:"open,omitempty"`
}

// bucket is a bucket of a histogram: how many durations are not longer than its limit.
type bucket struct{ limit, count float64 }

// latencies returns a Latency for each histogram in a query's result, sorted by their p99, the slowest first.
func latencies(values []measure.Value, name func(labels map[string]string) string) []Latency {
	histograms := map[string][]bucket{}
	for _, value := range values {
		limit, err := strconv.ParseFloat(value.Labels["le"], 64)
		if err != nil {
			continue
		}
		key := name(value.Labels)
		histograms[key] = append(histograms[key], bucket{limit, value.Value})
	}
	var all []Latency
	for key, buckets := range histograms {
		if latency, ok := summarize(buckets); ok {
			latency.Name = key
			all = append(all, latency)
		}
	}
	slices.SortFunc(all, func(a, b Latency) int {
		return cmp.Or(cmp.Compare(b.P99, a.P99), cmp.Compare(b.Max, a.Max), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// least is the smallest increase that counts as one: it is extrapolated, and so not an integer.
const least = 0.5

// summarize returns the quantiles of a histogram, and whether it has counted anything.
func summarize(buckets []bucket) (Latency, bool) {
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.limit, b.limit) })
	n := len(buckets)
	if n == 0 || buckets[n-1].count < least {
		return Latency{}, false
	}
	latency := Latency{Count: math.Round(buckets[n-1].count), P50: quantile(0.5, buckets), P99: quantile(judged, buckets)}
	below := 0.0 // the limit of the previous bucket
	for _, b := range buckets {
		if latency.Max = b.limit; buckets[n-1].count-b.count >= least {
			below = b.limit
			continue
		}
		if latency.Open = math.IsInf(b.limit, 1); latency.Open {
			latency.Max = below
		}
		break
	}
	return latency, true
}

// quantile interpolates within a bucket, as Prometheus does.
func quantile(q float64, buckets []bucket) float64 {
	rank := q * buckets[len(buckets)-1].count
	i := slices.IndexFunc(buckets, func(b bucket) bool { return b.count >= rank })
	lower, below := 0.0, 0.0
	if i > 0 {
		lower, below = buckets[i-1].limit, buckets[i-1].count
	}
	if math.IsInf(buckets[i].limit, 1) {
		return lower
	}
	if buckets[i].count <= below {
		return buckets[i].limit
	}
	return lower + (buckets[i].limit-lower)*(rank-below)/(buckets[i].count-below)
}

// AdmissionInSharder is the name of the latency of admission requests as the sharder measures it.
const AdmissionInSharder = "admission request, measured by the sharder"

// sharderWebhook is the name of the sharder's webhook in its configuration.
const sharderWebhook = "sharder.sharding.timebertt.dev"

// summarizeLatencies adds the distributions of response times.
func (r *run) summarizeLatencies(ctx context.Context, result *Result) error {
	for _, of := range []struct {
		into                     *[]Latency
		labels, metric, matchers string
		name                     func(map[string]string) string
	}{
		{&result.Responses, "do", load.ResponseTime, "", func(labels map[string]string) string { return labels["do"] + " a Website" }},
		{&result.Responses, "process", load.ReadyTime, "", func(map[string]string) string { return "Website Ready" }},
		{&result.APILatencies, requestLabels, requestDuration, `resource!="",verb!~"WATCH|CONNECT"`, requestName},
		{
			&result.Admission, "operation", "apiserver_admission_webhook_admission_duration_seconds", `name="` + sharderWebhook + `"`,
			func(labels map[string]string) string {
				return labels["operation"] + ": call of the webhook, measured by the API server"
			},
		},
		{
			&result.Admission, "process", "controller_sharding_admission_duration_seconds", "",
			func(map[string]string) string { return AdmissionInSharder },
		},
	} {
		query := fmt.Sprintf("sum by (%s, le) (increase(%s_bucket{%s}%s))", of.labels, of.metric, of.matchers, r.over())
		found, err := r.store.Query(ctx, query, r.end)
		if err != nil {
			return err
		}
		*of.into = append(*of.into, latencies(found, of.name)...)
	}
	return nil
}
