package watches_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/ringmaster-project/ringmaster/pkg/shard/internal/watches"
)

// BenchmarkAPIServerRestart measures the time from the end of an outage to the first event of each watch, in
// processes with this package and, in the same outage, in processes with client-go's reflector alone. The
// outage is the given time without an API server and the time of its start.
//
//	go test ./pkg/shard/internal/watches -run '^$' -bench . -benchtime 5x -timeout 1h
func BenchmarkAPIServerRestart(b *testing.B) {
	for _, outages := range [][]time.Duration{
		{2 * time.Second},
		{5 * time.Second},
		{15 * time.Second},
		{5 * time.Second, 5 * time.Second, 5 * time.Second}, // a reflector's backoff is not reset between them
	} {
		b.Run(fmt.Sprint(outages), func(b *testing.B) {
			s := newServer(b)
			reflector, restored := &figures{}, &figures{}
			for n := 0; b.Loop(); n++ {
				ctx, cancel := context.WithCancel(b.Context())
				const processes = 2
				var running []measuredProcess
				for range processes {
					running = append(running,
						measuredProcess{s.run(ctx, b, func(*cache.Options) {}), reflector},
						measuredProcess{s.run(ctx, b, watches.Configure), restored})
				}
				for i, outage := range outages {
					s.measure(ctx, b, outage, fmt.Sprintf("after-%d-%d", n, i), running)
				}
				cancel()
			}
			reflector.report(b, "reflector")
			restored.report(b, "restored")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measuredProcess is a process and the figures to which its results are added.
type measuredProcess struct {
	*process
	*figures
}

// measure kills the API server, starts it after a while, and waits until all watches have resumed.
func (s *server) measure(ctx context.Context, b *testing.B, outage time.Duration, name string, running []measuredProcess) {
	b.Helper()
	time.Sleep(5 * time.Second) // until the server is idle
	killed := time.Now()
	if err := s.APIServer.Kill(); err != nil {
		b.Fatal(err)
	}
	time.Sleep(outage)
	if err := s.APIServer.Start(ctx); err != nil {
		b.Fatal(err)
	}
	ready := time.Now()
	s.write(ctx, b, name)
	for _, m := range running {
		m.waitUntil(ctx, b, name, func() bool { return len(m.events(name)) == len(kinds()) })
		for _, at := range m.events(name) {
			m.delays = append(m.delays, at.Sub(ready).Seconds())
		}
		sent, relists := 0, 0
		for _, r := range m.sent(killed) {
			if r.at.Before(ready) {
				sent++
			}
			if r.verb != "watch" {
				relists++
			}
			m.count(r)
		}
		m.attempts = append(m.attempts, float64(sent))
		m.relists = append(m.relists, float64(relists))
	}
	b.Logf("%s: the API server was unreachable for %.1f s", name, ready.Sub(killed).Seconds())
}

// figures are the results of processes with the same configuration.
type figures struct {
	delays            []float64 // seconds from the readiness of the API server to an event, per watch and outage
	attempts, relists []float64 // number during and after an outage, per process and outage
	results           map[string]int
}

func (f *figures) count(r request) {
	if f.results == nil {
		f.results = map[string]int{}
	}
	f.results[r.verb+" "+r.result]++
}

func (f *figures) report(b *testing.B, name string) {
	b.Helper()
	for _, figure := range []struct {
		unit   string
		values []float64
	}{{"s", f.delays}, {"requests", f.attempts}, {"relists", f.relists}} {
		slices.Sort(figure.values)
		n := len(figure.values)
		b.Logf("%s: n=%d p50 %.1f range %.1f to %.1f %s", name, n, figure.values[n/2], figure.values[0], figure.values[n-1], figure.unit)
		b.ReportMetric(figure.values[n/2], name+"-"+figure.unit+"-p50")
		b.ReportMetric(figure.values[n-1], name+"-"+figure.unit+"-max")
	}
	b.Logf("%s: requests by verb and result: %v", name, f.results)
}
