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

// LabelProcess has the name of the process that something was noted of.
const LabelProcess = "process"

// Book is what was noted. Its methods may be called at the same time.
type Book struct {
	db     *tsdb.DB
	engine *promql.Engine

	mu sync.Mutex
	// begun is when something was noted for the first time, and known are the counters that were noted.
	begun int64
	known map[uint64]bool
}

const (
	// kept is longer than any experiment.
	kept = 30 * 24 * time.Hour
	// lookBack is how long something holds that was noted once: of a process that is gone nothing holds for long.
	lookBack = 20 * time.Second
)

// Open begins a book in a folder, or goes on with one.
func Open(folder string) (*Book, error) {
	options := tsdb.DefaultOptions()
	options.RetentionDuration = kept.Milliseconds()
	quiet := slog.New(slog.DiscardHandler)
	db, err := tsdb.Open(folder, quiet, nil, options, nil)
	if err != nil {
		return nil, fmt.Errorf("opening the measurements in %s: %w", folder, err)
	}
	return &Book{db: db, known: map[uint64]bool{}, engine: promql.NewEngine(promql.EngineOpts{
		Logger: quiet, MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: lookBack, EnableAtModifier: true,
		Parser: parser.NewParser(parser.Options{}),
	})}, nil
}

// Close ends it. What was noted stays in the folder.
func (b *Book) Close() error { return b.db.Close() }

// Samples are values of series.
type Samples struct {
	book     *Book
	appender storage.Appender
	at       int64
	process  string
	err      error
}

// Begin begins to note something of a process at a time.
func (b *Book) Begin(ctx context.Context, process string, at time.Time) *Samples {
	return &Samples{book: b, appender: b.db.Appender(ctx), at: at.UnixMilli(), process: process}
}

// Add notes a value.
func (s *Samples) Add(name string, value float64) {
	s.add(labels.FromStrings(model.MetricNameLabel, name), value)
}

func (s *Samples) add(of labels.Labels, value float64) {
	if s.err != nil {
		return
	}
	series := labels.NewBuilder(of).Set(LabelProcess, s.process).Labels()
	if s.book.isNew(series, s.at) {
		_, s.err = s.appender.Append(0, series, s.at-1, 0)
	}
	if s.err == nil {
		_, s.err = s.appender.Append(0, series, s.at, value)
	}
}

// isNew tells whether a counter has begun to count after the book was begun: before that it was zero, and what it has counted
// since then would not be seen to have grown.
func (b *Book) isNew(series labels.Labels, at int64) bool {
	if !counts(series.Get(model.MetricNameLabel)) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun == 0 {
		b.begun = at
	}
	hash := series.Hash()
	if b.known[hash] {
		return false
	}
	b.known[hash] = true
	return at > b.begun
}

// counts tells whether a series of that name only grows.
func counts(name string) bool {
	for _, suffix := range []string{"_total", "_bucket", "_count", "_sum"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// Read notes what a process says in Prometheus' text format: those series whose name has one of the prefixes.
func (s *Samples) Read(text []byte, prefixes ...string) {
	parse := textparse.NewPromParser(text, labels.NewSymbolTable(), false)
	for s.err == nil {
		entry, err := parse.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			s.err = fmt.Errorf("understanding what %s says of itself: %w", s.process, err)
			return
		}
		if entry != textparse.EntrySeries {
			continue
		}
		series, _, value := parse.Series()
		if !wanted(string(series), prefixes) {
			continue
		}
		var of labels.Labels
		parse.Labels(&of)
		s.add(of, value)
	}
}

func wanted(series string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(series, prefix) {
			return true
		}
	}
	return false
}

// Commit makes all of it last, or nothing.
func (s *Samples) Commit() error {
	if s.err != nil {
		return errors.Join(s.err, s.appender.Rollback())
	}
	return s.appender.Commit()
}

// Value is one of what was asked for.
type Value struct {
	Labels map[string]string
	Value  float64
}

// At answers a question, in Prometheus' language, about a time.
func (b *Book) At(ctx context.Context, question string, at time.Time) ([]Value, error) {
	query, err := b.engine.NewInstantQuery(ctx, b.db, nil, question, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", question, err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	found, err := result.Vector()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", question, errors.Join(err, result.Err))
	}
	var all []Value
	for _, sample := range found {
		all = append(all, Value{sample.Metric.Map(), sample.F})
	}
	return all, nil
}

// One is the only answer to a question, and whether there is one.
func (b *Book) One(ctx context.Context, question string, at time.Time) (value float64, known bool, err error) {
	found, err := b.At(ctx, question, at)
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	if len(found) > 1 {
		return 0, false, fmt.Errorf("%s: there are %d answers", question, len(found))
	}
	return found[0].Value, true, nil
}

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Line is something over time.
type Line struct {
	Labels map[string]string
	Points []Point
}

// Over answers a question about every step of a time.
func (b *Book) Over(ctx context.Context, question string, from, to time.Time, step time.Duration) ([]Line, error) {
	query, err := b.engine.NewRangeQuery(ctx, b.db, nil, question, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", question, err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	found, err := result.Matrix()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", question, errors.Join(err, result.Err))
	}
	var all []Line
	for _, series := range found {
		line := Line{Labels: series.Metric.Map()}
		for _, p := range series.Floats {
			line.Points = append(line.Points, Point{time.UnixMilli(p.T), p.F})
		}
		all = append(all, line)
	}
	return all, nil
}
