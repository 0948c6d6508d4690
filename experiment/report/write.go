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

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

//go:embed page.html.tmpl
var pageSource string

// page escapes what is put into it according to where it is put.
var page = template.Must(template.New("page").Parse(pageSource))

// Write writes the report into a folder: report.html, report.md with its pictures, results.json and measurements.csv.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, "pictures"), 0o755); err != nil {
		return fmt.Errorf("making a folder for the report: %w", err)
	}
	html, err := r.html()
	if err != nil {
		return err
	}
	results, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	table, err := r.csv()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"report.html": html, "report.md": []byte(r.markdown()), "results.json": append(results, '\n'), "measurements.csv": table,
	}
	for _, s := range r.sections() {
		for _, c := range s.charts {
			files[filepath.Join("pictures", c.file)] = []byte(c.svg())
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}

// Summary is the verdict in a few lines.
func (r *Report) Summary() string {
	var b strings.Builder
	for _, result := range r.Results {
		fmt.Fprintf(&b, "%-18s %s", r.title(result), outcome(result))
		if result.Interrupted {
			fmt.Fprintf(&b, "; it was ended after %s, before its time", result.End.Sub(result.Begin).Round(time.Second))
		}
		switch g := result.Generator; {
		case !g.Kept():
			b.WriteString("; the load was not what was promised: " + whyNot(g))
		case g.Crowded():
			b.WriteString("; this machine was nearly all at work")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// outcome is what came of a run.
func outcome(result *run.Result) string {
	if c := result.Capacity; c != nil && !result.Failed() {
		return fmt.Sprintf("up to %s Websites, %s changes/s", short(c.Objects), short(c.Changes))
	}
	if result.Holds() {
		if !result.Complete() {
			return "all objectives hold, but not all could be done or measured"
		}
		return "all objectives hold"
	}
	var wrong []string
	for _, v := range result.Verdicts {
		switch {
		case v.Holds:
		case v.Value == nil:
			wrong = append(wrong, v.Name+": it was not measured")
		default:
			wrong = append(wrong, fmt.Sprintf("%s: %s instead of %s", v.Name, took(v), amount(v.Limit, "s")))
		}
	}
	if n := len(result.Doubles); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d reconciles of one Website by two instances at a time", n))
	}
	return "NOT all objectives hold: " + strings.Join(wrong, "; ")
}

func (r *Report) heading() string { return "Experiment " + r.Scenario }

func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", r.heading())
	if r.Cut {
		b.WriteString("\nIt was ended before its time: this is about what has run until then.\n")
	}
	for _, s := range r.sections() {
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

// shown is a section in the page.
type shown struct {
	Title  string
	Text   []string
	Tables []shownTable
	Charts []template.HTML
}

type shownTable struct {
	Head []string
	Rows [][]string
}

func (r *Report) html() ([]byte, error) {
	var sections []shown
	for _, s := range r.sections() {
		one := shown{Title: s.title}
		for _, text := range s.text {
			one.Text = append(one.Text, strings.ReplaceAll(text, "`", ""))
		}
		for _, t := range s.tables {
			one.Tables = append(one.Tables, shownTable{t.head, t.rows})
		}
		for _, c := range s.charts {
			one.Charts = append(one.Charts, template.HTML(c.svg())) //nolint:gosec // it escapes what it shows
		}
		sections = append(sections, one)
	}
	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{"Title": r.heading(), "Cut": r.Cut, "Sections": sections})
	if err != nil {
		return nil, fmt.Errorf("writing the report as HTML: %w", err)
	}
	return b.Bytes(), nil
}

// csv is everything that was drawn, a line for each value.
func (r *Report) csv() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"setup", "instances", "objects", "what", "of", "seconds", "value"}}
	for _, result := range r.Results {
		for _, name := range sortedKeys(result.Charts) {
			for _, l := range result.Charts[name] {
				for _, p := range l.Points {
					rows = append(rows, []string{
						string(result.Setup), strconv.Itoa(result.Instances), strconv.Itoa(result.Load.Initial), name, of(l), strconv.FormatFloat(p.At.Sub(result.Begin).Seconds(), 'f', 1, 64),
						strconv.FormatFloat(p.Value, 'g', 6, 64),
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

// of is what a line is about.
func of(l measure.Line) string {
	return cmp.Or(l.Labels["instance"], l.Labels["verb"], l.Labels[measure.LabelProcess])
}
