package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// Format is the format of a report. It is the value of a flag.
type Format string

// The formats.
const (
	Text Format = "text"
	JSON Format = "json"
	YAML Format = "yaml"
)

// String returns the value of the flag.
func (f *Format) String() string { return string(*f) }

// Type is shown in the description of the flag.
func (f *Format) Type() string { return "format" }

// Set sets the value of the flag.
func (f *Format) Set(value string) error {
	switch Format(value) {
	case Text, JSON, YAML:
		*f = Format(value)
		return nil
	}
	return fmt.Errorf("must be one of %s, %s, %s", Text, JSON, YAML)
}

var colours = map[Status]terminal.Colour{
	OK: terminal.Good, Warning: terminal.Doubtful, Failure: terminal.Bad, Unknown: terminal.Doubtful,
}

// Write writes the report.
func (r *Report) Write(out io.Writer, format Format, coloured bool) error {
	switch format {
	case JSON:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case YAML:
		content, err := yaml.Marshal(r)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	case Text:
	}
	var text strings.Builder
	for i := range r.Checks {
		r.Checks[i].write(&text, coloured)
	}
	fmt.Fprintf(&text, "\n%s\n", r.Summary.sentence())
	_, err := io.WriteString(out, text.String())
	return err
}

const nameWidth, statusWidth = 11, 7

func (c *Check) write(out io.Writer, coloured bool) {
	paint := func(status Status, text string) string {
		if !coloured {
			return text
		}
		return terminal.Paint(colours[status], text)
	}
	message := c.Message
	if len(c.Findings) > 0 {
		message = prose.Count(len(c.Findings), "finding")
	}
	fmt.Fprintf(out, "%s  %-*s  %s\n", paint(c.Status, fmt.Sprintf("%-*s", statusWidth, c.Status)), nameWidth, c.Name, terminal.Printable(message))
	for _, f := range c.Findings {
		fmt.Fprintf(out, "  %s  %s: %s\n           next: %s\n", paint(f.Status, fmt.Sprintf("%-*s", statusWidth, f.Status)),
			f.Object, terminal.Printable(f.Cause), f.Next)
	}
}

func (s Summary) sentence() string {
	checks := prose.Count(s.Checks, "check")
	if s.Failures+s.Warnings+s.Unknown == 0 {
		return "No problems found in " + checks + "."
	}
	return fmt.Sprintf("%s, %s and %d unknown in %s.", prose.Count(s.Failures, "failure"), prose.Count(s.Warnings, "warning"), s.Unknown, checks)
}
