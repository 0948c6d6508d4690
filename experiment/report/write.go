package report

import (
	"bytes"
	"cmp"
	_ "embed" // the page
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/experiment/measure"
	"github.com/ringmaster-project/ringmaster/experiment/run"
)

//go:embed page.html.tmpl
var pageSource string

// page is a template that escapes its values by context.
var page = template.Must(template.New("page").Parse(pageSource))

// Write writes the report into a folder: report.html, report.md with its pictures, results.json and measurements.csv.
func (r *Report) Write(folder string) error {
	html, err := r.html()
	if err != nil {
		return err
	}
	table, err := r.csv()
	if err != nil {
		return err
	}
	results, err := r.json()
	if err != nil {
		return err
	}
	files := map[string][]byte{"report.html": html, "report.md": []byte(r.markdown(r.sections())), "results.json": results, "measurements.csv": table}
	return write(folder, files, r.sections())
}

// WriteSummary writes what fits into a repository: report.md and results.json without single processes' requests and charts over
// time, and the pictures that compare runs.
func (r *Report) WriteSummary(folder string) error {
	trimmed := *r
	trimmed.Results = nil
	for _, result := range r.Results {
		small := *result
		small.APILatencies = result.APILatencies[:min(len(result.APILatencies), slowest)]
		small.Processes = slices.Clone(result.Processes)
		for i := range small.Processes {
			small.Processes[i].Requests = nil
		}
		small.Requests = nil
		small.Events = slices.DeleteFunc(slices.Clone(result.Events), func(e run.Event) bool { return !e.Planned })
		trimmed.Results = append(trimmed.Results, &small)
	}
	results, err := trimmed.json()
	if err != nil {
		return err
	}
	sections := slices.DeleteFunc(trimmed.sections(), func(s section) bool { return s.details })
	return write(folder, map[string][]byte{"report.md": []byte(r.markdown(sections)), "results.json": results}, sections)
}

func (r *Report) json() ([]byte, error) {
	results, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encoding the results: %w", err)
	}
	return append(results, '\n'), nil
}

// write writes files, and the pictures of sections.
func write(folder string, files map[string][]byte, sections []section) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("creating a folder for the report: %w", err)
	}
	for _, s := range sections {
		for _, c := range s.charts {
			files[filepath.Join("pictures", c.file)] = []byte(c.svg())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("creating a folder for the report: %w", err)
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}

// Summary describes the outcome of each run in a line.
func (r *Report) Summary() string {
	var b strings.Builder
	for _, result := range r.Results {
		fmt.Fprintf(&b, "%-18s %s", r.title(result), outcome(result))
		if result.Interrupted {
			fmt.Fprintf(&b, "; interrupted after %s", result.End.Sub(result.Begin).Round(time.Second))
		}
		if !result.Valid() {
			b.WriteString("; INVALID: " + strings.Join(result.Invalid, "; "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// outcome describes the outcome of a run.
func outcome(result *run.Result) string {
	if c := result.Capacity; c != nil && !result.Failed() {
		return fmt.Sprintf("up to %s Websites, %s changes/s", formatNumber(c.Objects), formatNumber(c.Changes))
	}
	if result.Holds() {
		if !result.Complete() {
			return "all objectives hold, but not everything was executed and measured"
		}
		return "all objectives hold"
	}
	var failures []string
	for _, v := range result.Verdicts {
		switch {
		case v.Holds:
		case v.Value == nil:
			failures = append(failures, v.Name+": not measured")
		default:
			failures = append(failures, fmt.Sprintf("%s: %s (at most %s)", v.Name, p99(v), amount(v.Limit, "s")))
		}
	}
	if n := len(result.Overlaps); n > 0 {
		failures = append(failures, fmt.Sprintf("%d overlapping reconciles of one Website", n))
	}
	return "NOT all objectives hold: " + strings.Join(failures, "; ")
}

func (r *Report) heading() string { return "Experiment " + r.Scenario }

// interrupted is the note on a report of an experiment that ended early.
const interrupted = "The experiment was interrupted. The report covers what has run until then."

func (r *Report) markdown(sections []section) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", r.heading())
	if r.Interrupted {
		fmt.Fprintf(&b, "\n%s\n", interrupted)
	}
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		for _, text := range s.text {
			fmt.Fprintf(&b, "\n%s\n", text)
		}
		for _, t := range s.tables {
			fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(t.head, " | "), strings.Repeat(" --- |", len(t.head)))
			for _, row := range t.rows {
				fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			}
		}
		for _, c := range s.charts {
			fmt.Fprintf(&b, "\n![%s](pictures/%s)\n", c.title, c.file)
		}
	}
	return b.String()
}

// pageSection is a section as the page shows it.
type pageSection struct {
	Title  string
	Text   []string
	Tables []pageTable
	Charts []template.HTML
}

type pageTable struct {
	Head []string
	Rows [][]string
}

func (r *Report) html() ([]byte, error) {
	var sections []pageSection
	for _, s := range r.sections() {
		one := pageSection{Title: s.title}
		for _, text := range s.text {
			one.Text = append(one.Text, strings.ReplaceAll(text, "`", ""))
		}
		for _, t := range s.tables {
			one.Tables = append(one.Tables, pageTable{t.head, t.rows})
		}
		for _, c := range s.charts {
			one.Charts = append(one.Charts, template.HTML(c.svg())) //nolint:gosec // svg escapes all texts
		}
		sections = append(sections, one)
	}
	note := ""
	if r.Interrupted {
		note = interrupted
	}
	var b bytes.Buffer
	if err := page.Execute(&b, map[string]any{"Title": r.heading(), "Note": note, "Sections": sections}); err != nil {
		return nil, fmt.Errorf("writing the report as HTML: %w", err)
	}
	return b.Bytes(), nil
}

// csv returns the values of all charts, one for each line.
func (r *Report) csv() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"setup", "instances", "objects", "run", "metric", "subject", "seconds", "value"}}
	for _, result := range r.Results {
		for _, name := range slices.Sorted(maps.Keys(result.Charts)) {
			for _, l := range result.Charts[name] {
				for _, p := range l.Points {
					rows = append(rows, []string{
						string(result.Setup), strconv.Itoa(result.Instances), strconv.Itoa(result.Load.Initial), strconv.Itoa(result.Repeat), name, subject(l),
						strconv.FormatFloat(p.At.Sub(result.Begin).Seconds(), 'f', 1, 64), strconv.FormatFloat(p.Value, 'g', 6, 64),
					})
				}
			}
		}
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("writing the measurements: %w", err)
	}
	return b.Bytes(), nil
}

// subject returns the subject of a series.
func subject(l measure.Series) string {
	return cmp.Or(l.Labels["instance"], l.Labels["verb"], l.Labels[measure.LabelProcess])
}

// Read reads results.json of a report's folder.
func Read(folder string) (*Report, error) {
	path := filepath.Join(folder, "results.json")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	r := &Report{}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, fmt.Errorf("reading the report %s: %w", path, err)
	}
	if len(r.Results) == 0 {
		return nil, fmt.Errorf("reading the report %s: it has no results", path)
	}
	return r, nil
}
