package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// LabelProcess is the label with the name of the process that a series is about.
const LabelProcess = "process"

// Store has the measurements of a run. Its methods may be called concurrently.
type Store struct {
	db     *tsdb.DB
	engine *promql.Engine

	mu sync.Mutex
	// begin is the time of the first sample, and known are the counters that have samples.
	begin int64
	known map[uint64]bool
}

const (
	// retention is longer than any experiment.
	retention = 30 * 24 * time.Hour
	// lookback is how long a sample counts as current: the samples of a process that has ended soon do not.
	lookback = 20 * time.Second
)

// Open opens the store in a folder, and creates it if necessary.
func Open(folder string) (*Store, error) {
	options := tsdb.DefaultOptions()
	options.RetentionDuration = retention.Milliseconds()
	quiet := slog.New(slog.DiscardHandler)
	db, err := tsdb.Open(folder, quiet, nil, options, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the measurements in %s: %w", folder, err)
	}
	return &Store{db: db, known: map[uint64]bool{}, engine: promql.NewEngine(promql.EngineOpts{
		Logger: quiet, MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: lookback, EnableAtModifier: true,
		Parser: parser.NewParser(parser.Options{}),
	})}, nil
}

// Close closes the store. Its measurements stay in the folder.
func (s *Store) Close() error { return s.db.Close() }

// Batch is a set of samples of one process at one time.
type Batch struct {
	store    *Store
	appender storage.Appender
	at       int64
	process  string
	err      error
}

// Batch returns an empty batch.
func (s *Store) Batch(ctx context.Context, process string, at time.Time) *Batch {
	return &Batch{store: s, appender: s.db.Appender(ctx), at: at.UnixMilli(), process: process}
}

// Add adds a value.
func (b *Batch) Add(name string, value float64) {
	b.add(labels.FromStrings(model.MetricNameLabel, name), value)
}

func (b *Batch) add(of labels.Labels, value float64) {
	if b.err != nil {
		return
	}
	series := labels.NewBuilder(of).Set(LabelProcess, b.process).Labels()
	if b.store.startsAtZero(series, b.at) {
		_, b.err = b.appender.Append(0, series, b.at-1, 0)
	}
	if b.err == nil {
		_, b.err = b.appender.Append(0, series, b.at, value)
	}
}

// startsAtZero reports whether a counter needs an initial 0: one that first appears after the store's first sample has counted
// from zero since then, which would not be an increase otherwise.
func (s *Store) startsAtZero(series labels.Labels, at int64) bool {
	if !isCounter(series.Get(model.MetricNameLabel)) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begin == 0 {
		s.begin = at
	}
	hash := series.Hash()
	if s.known[hash] {
		return false
	}
	s.known[hash] = true
	return at > s.begin
}

// isCounter reports whether a series of that name only grows.
func isCounter(name string) bool {
	for _, suffix := range []string{"_total", "_bucket", "_count", "_sum"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// Parse adds the series of Prometheus' text format whose names have one of the prefixes.
func (b *Batch) Parse(text []byte, prefixes ...string) {
	parse := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for b.err == nil {
		entry, err := parse.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			b.err = fmt.Errorf("parsing the metrics of %s: %w", b.process, err)
			return
		}
		if entry != textparse.EntrySeries {
			continue
		}
		series, _, value := parse.Series()
		if !hasPrefix(string(series), prefixes) {
			continue
		}
		var of labels.Labels
		parse.Labels(&of)
		b.add(of, value)
	}
}

func hasPrefix(series string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(series, prefix) {
			return true
		}
	}
	return false
}

// Commit stores the batch, or nothing of it.
func (b *Batch) Commit() error {
	if b.err != nil {
		return errors.Join(b.err, b.appender.Rollback())
	}
	return b.appender.Commit()
}

// Value is an element of a query's result.
type Value struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates a PromQL query at a time.
func (s *Store) Query(ctx context.Context, query string, at time.Time) ([]Value, error) {
	prepared, err := s.engine.NewInstantQuery(ctx, s.db, nil, query, at)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	defer prepared.Close()
	result := prepared.Exec(ctx)
	found, err := result.Vector()
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, errors.Join(err, result.Err))
	}
	var all []Value
	for _, sample := range found {
		all = append(all, Value{sample.Metric.Map(), sample.F})
	}
	return all, nil
}

// QueryOne returns the only element of a query's result, and whether there is one.
func (s *Store) QueryOne(ctx context.Context, query string, at time.Time) (value float64, found bool, err error) {
	all, err := s.Query(ctx, query, at)
	if err != nil || len(all) == 0 {
		return 0, false, err
	}
	if len(all) > 1 {
		return 0, false, fmt.Errorf("query %s: got %d values instead of one", query, len(all))
	}
	return all[0].Value, true, nil
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Series is a value over time.
type Series struct {
	Labels map[string]string
	Points []Point
}

// QueryRange evaluates a PromQL query at every step of a time range.
func (s *Store) QueryRange(ctx context.Context, query string, from, to time.Time, step time.Duration) ([]Series, error) {
	prepared, err := s.engine.NewRangeQuery(ctx, s.db, nil, query, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	defer prepared.Close()
	result := prepared.Exec(ctx)
	found, err := result.Matrix()
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, errors.Join(err, result.Err))
	}
	var all []Series
	for _, series := range found {
		one := Series{Labels: series.Metric.Map()}
		for _, p := range series.Floats {
			one.Points = append(one.Points, Point{time.UnixMilli(p.T), p.F})
		}
		all = append(all, one)
	}
	return all, nil
}
