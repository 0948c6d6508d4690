package status

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// Format is how a report is written. It is the value of a flag.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// String is the flag's value.
func (f *Format) String() string { return string(*f) }

// Type is shown in the flag's description.
func (f *Format) Type() string { return "format" }

// Set takes the flag's value.
func (f *Format) Set(value string) error {
	switch Format(value) {
	case Table, Wide, JSON, YAML:
		*f = Format(value)
		return nil
	}
	return fmt.Errorf("it is one of %s, %s, %s, %s", Table, Wide, JSON, YAML)
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
	case Table, Wide:
	}
	p := &printer{out: out, coloured: coloured}
	p.report(r, format == Wide)
	return p.err
}

// printer writes for people. After an error it writes nothing more.
type printer struct {
	out      io.Writer
	coloured bool
	err      error
}

func (p *printer) table(t *terminal.Table) {
	if p.err == nil {
		p.err = t.Write(p.out, p.coloured)
	}
}

func (p *printer) line(colour terminal.Colour, format string, args ...any) {
	if p.err != nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	if p.coloured {
		text = terminal.Paint(colour, text)
	}
	_, p.err = fmt.Fprintln(p.out, text)
}

func (p *printer) report(r *Report, wide bool) {
	if len(r.Rings) > 0 {
		p.table(summary(r.Rings, r.Time.Time, wide))
	}
	for i := range r.Rings {
		ring := &r.Rings[i]
		p.line(terminal.Plain, "")
		p.line(terminal.Strong, "%s", ring.Name)
		p.table(ring.matrix(r.Time.Time, wide))
		for _, concern := range ring.concerns() {
			p.line(terminal.Doubtful, "  ! %s", concern)
		}
	}
	if len(r.Leaders) > 0 {
		if len(r.Rings) > 0 {
			p.line(terminal.Plain, "")
		}
		p.table(leads(r.Leaders, r.Time.Time, wide))
	}
	if len(r.Objects) > 0 {
		p.table(objects(r.Objects, r.Time.Time, wide))
		p.line(terminal.Plain, "")
		for _, reason := range reasons(r.Objects) {
			p.line(terminal.Plain, "%s", reason)
		}
	}
	if r.Namespace != "" && len(r.Rings) > 0 {
		p.line(terminal.Faint, "\nOnly objects in the namespace %s are counted.", r.Namespace)
	}
}
