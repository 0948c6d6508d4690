package oracle

// requests looks for requests of users that failed (I3).
func (r *run) requests() {
	for _, event := range r.asked {
		request := event.Request
		r.figures.Requests++
		r.figures.Slowest = max(r.figures.Slowest, request.Took)
		if request.Error != "" {
			r.found(Refused, request.Object, event.Time.Add(-request.Took), event.Time, nil, "%s: %s", request.Verb, request.Error)
		}
	}
}
