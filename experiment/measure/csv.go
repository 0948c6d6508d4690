package measure

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// WriteCSV writes all samples: the process, the series, the seconds since begin, and the value. It omits series whose name has one
// of the prefixes.
func (s *Store) WriteCSV(ctx context.Context, out io.Writer, begin time.Time, without ...string) error {
	querier, err := s.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return fmt.Errorf("reading the measurements: %w", err)
	}
	defer querier.Close()
	w := csv.NewWriter(out)
	if err := w.Write([]string{"process", "series", "seconds", "value"}); err != nil {
		return err
	}
	all := querier.Select(ctx, true, nil, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+"))
	var samples chunkenc.Iterator
	for all.Next() {
		series := all.At()
		seriesLabels := series.Labels()
		if hasPrefix(seriesLabels.Get(model.MetricNameLabel), without) {
			continue
		}
		process, name := seriesLabels.Get(LabelProcess), seriesName(seriesLabels)
		samples = series.Iterator(samples)
		for samples.Next() == chunkenc.ValFloat {
			at, value := samples.At()
			seconds := time.UnixMilli(at).Sub(begin).Seconds()
			if err := w.Write([]string{process, name, strconv.FormatFloat(seconds, 'f', 1, 64), strconv.FormatFloat(value, 'g', -1, 64)}); err != nil {
				return err
			}
		}
		if err := samples.Err(); err != nil {
			return fmt.Errorf("reading the measurements: %w", err)
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return all.Err()
}

// seriesName returns a series in Prometheus' notation, without the process.
func seriesName(series labels.Labels) string {
	rest := labels.NewBuilder(series).Del(LabelProcess, model.MetricNameLabel).Labels()
	if rest.IsEmpty() {
		return series.Get(model.MetricNameLabel)
	}
	return series.Get(model.MetricNameLabel) + strings.ReplaceAll(rest.String(), `", `, `",`)
}
