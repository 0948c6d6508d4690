package doctor

import (
	"net/http"
	"sync/atomic"
	"time"
)

// serverClock is the clock of the API server, as the Date headers of its responses show it: the clock of
// this computer may be wrong.
type serverClock struct {
	now func() time.Time
	// ahead is how far the clock of the API server is ahead.
	ahead atomic.Int64
}

func (c *serverClock) Now() time.Time { return c.now().Add(time.Duration(c.ahead.Load())) }

// dateTolerance hides the delay of a response, and that the header has whole seconds only.
const dateTolerance = 5 * time.Second

func (c *serverClock) observe(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil {
			return response, err
		}
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			ahead := date.Sub(c.now())
			if ahead.Abs() < dateTolerance {
				ahead = 0
			}
			c.ahead.Store(int64(ahead))
		}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
