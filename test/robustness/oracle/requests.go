package oracle

import "time"

// requests finds requests of users that failed or took too long (I3).
func (r *run) requests() {
	for i := range r.asked {
		event := &r.asked[i]
		request := event.Request
		if request.Reference {
			continue
		}
		r.figures.Requests++
		r.figures.Slowest = max(r.figures.Slowest, request.Took)
		during := Window{From: event.Time.Add(-request.Took), To: event.Time}
		if request.Error != "" {
			r.found(Refused, request.Object, during.From, during.To, nil, "%s: %s", request.Verb, request.Error)
		}
		reference := r.reference(during)
		r.figures.Delay = max(r.figures.Delay, request.Took-reference)
		if r.Delay > 0 && request.Took-reference > r.Delay {
			r.found(Delayed, request.Object, during.From, during.To, nil, "%s took %s, which is more than %s longer than a reference request, which took %s",
				request.Verb, request.Took, r.Delay, reference)
		}
	}
}

// reference returns the duration of the slowest reference request during a time: the latency of the API server and the
// machine without Ringmaster.
func (r *run) reference(during Window) time.Duration {
	var slowest time.Duration
	for i := range r.asked {
		event := &r.asked[i]
		if event.Request.Reference && event.Time.After(during.From) && event.Time.Add(-event.Request.Took).Before(during.To) {
			slowest = max(slowest, event.Request.Took)
		}
	}
	return slowest
}
