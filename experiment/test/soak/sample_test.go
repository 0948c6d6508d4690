//go:build soak

package soak_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onsi/gomega"

	lines "github.com/ringmaster-project/ringmaster/experiment/history"
	"github.com/ringmaster-project/ringmaster/experiment/test/soak"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

const (
	sampleEvery   = 10 * time.Second
	progressEvery = 2 // samples
)

// metricsClient reads metrics of processes of this test, which have self-signed certificates.
var metricsClient = &http.Client{
	Timeout:   5 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

// requestCount is the number of requests that a process had sent at a time.
type requestCount struct {
	at    time.Time
	total float64
}

// sampleUntil samples all processes periodically and prints progress.
func (s *setup) sampleUntil(ctx context.Context) {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	sent := map[string][]requestCount{}
	for n, last := 1, time.Now(); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if gap := time.Since(last); gap > sampleEvery+leaseDuration/2 {
			// Leases expire meanwhile, and their holders exit.
			s.t.Errorf("the machine stalled for %s: repeat the run with fewer other processes", gap.Round(time.Second))
		}
		if err := s.requests.Update(); err != nil {
			s.t.Error(err)
			return
		}
		var now []soak.Sample
		for i, replica := range s.sharders {
			name, url := fmt.Sprint("sharder-", i), fmt.Sprintf("https://127.0.0.1:%d/metrics", replica.Metrics)
			if sample, ok := s.sample(ctx, name, url, filepath.Dir(replica.Kubeconfig), s.begin, sent); ok {
				sample.Long = true
				now = append(now, sample)
			}
		}
		for _, m := range s.live() {
			if sample, ok := s.sample(ctx, m.name, fmt.Sprintf("http://127.0.0.1:%d/metrics", m.metrics), "", m.since, sent); ok {
				sample.Long = m.long
				now = append(now, sample)
			}
		}
		s.samples, last = append(s.samples, now...), time.Now()
		if n%progressEvery == 0 {
			s.progress(now)
		}
	}
}

// sample measures a process. A process that is paused or has just exited does not respond.
func (s *setup) sample(ctx context.Context, name, url, folder string, since time.Time, sent map[string][]requestCount) (soak.Sample, bool) {
	at := time.Now()
	total, watches := s.requests.Of(name)
	const window = time.Minute
	sent[name] = append(slices.DeleteFunc(sent[name], func(c requestCount) bool { return at.Sub(c.at) > window+sampleEvery/2 }), requestCount{at, total})
	text, err := metrics(ctx, url, folder)
	if err != nil || len(sent[name]) < 2 {
		return soak.Sample{}, false
	}
	sample := soak.Sample{Process: name, At: at.Sub(s.begin), Age: at.Sub(since), Watches: watches}
	first := sent[name][0]
	sample.Requests = (total - first.total) / at.Sub(first.at).Minutes()
	if sample.Heap, sample.Goroutines, sample.Files, err = soak.ReadMetrics(text); err != nil {
		s.t.Errorf("%s: %v", name, err)
		return soak.Sample{}, false
	}
	return sample, true
}

// metrics fetches the metrics of a process, with the token in the folder if there is one.
func metrics(ctx context.Context, url, folder string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	if folder != "" {
		token, err := os.ReadFile(filepath.Join(folder, "token"))
		if err != nil {
			return "", err
		}
		request.Header.Set("Authorization", "Bearer "+string(token))
	}
	response, err := metricsClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("reading %s: got status %s", url, response.Status)
	}
	return string(content), err
}

// progress prints one line with the current figures.
func (s *setup) progress(now []soak.Sample) {
	var parts []string
	for _, p := range now {
		parts = append(parts, fmt.Sprintf("%s %.0f MiB %.0f goroutines %.0f watches %.0f files %.0f req/min",
			p.Process, p.Heap/(1<<20), p.Goroutines, p.Watches, p.Files, p.Requests))
	}
	fmt.Fprintf(s.t.Output(), "%s of %s  %d Websites Ready, %d not; %s\n", s.elapsed(), *duration, s.generator.Ready(), s.generator.Waiting(), strings.Join(parts, "; "))
}

// history waits until nothing is written, and returns all events in order.
func (s *setup) history() []history.Event {
	s.t.Helper()
	const quiet = 5 * time.Second
	var events []history.Event
	s.Eventually(func(g gomega.Gomega) time.Duration {
		var err error
		events, err = history.Read(s.path())
		g.Expect(err).NotTo(gomega.HaveOccurred())
		var last time.Time
		for _, e := range events {
			if e.Type == history.Wrote {
				last = e.Time
			}
		}
		return time.Since(last)
	}).WithPolling(quiet).Should(gomega.BeNumerically(">", quiet))
	for _, m := range s.started() {
		read, err := lines.Read(m.Log)
		s.Expect(err).NotTo(gomega.HaveOccurred())
		events = append(events, reconciles(m, read)...)
	}
	slices.SortStableFunc(events, func(a, b history.Event) int { return a.Time.Compare(b.Time) })
	return events
}

// reconciles returns the reconciles that an instance has logged.
func reconciles(m *instance, logged []lines.Line) []history.Event {
	var events []history.Event
	numbers := map[string]int64{}
	for _, line := range logged {
		if numbers[line.ID] == 0 {
			numbers[line.ID] = int64(len(numbers) + 1)
		}
		eventType := history.Started
		if line.Ended() {
			eventType = history.Ended
		}
		events = append(events, history.Event{
			Time: line.At, Type: eventType, Process: m.id, Shard: m.name,
			Reconcile: &history.Reconcile{
				Number: numbers[line.ID],
				Object: history.Object{Group: website.Group, Kind: website.Kind, Namespace: line.Namespace, Name: line.Name},
			},
		})
	}
	return events
}
