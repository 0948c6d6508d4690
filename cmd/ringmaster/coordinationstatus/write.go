package coordinationstatus

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// Write writes the report in a format.
func (r *Report) Write(out io.Writer, format status.Format, coloured bool) error {
	switch format {
	case status.JSON:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case status.YAML:
		content, err := yaml.Marshal(r)
		if err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	case status.Table, status.Wide:
	}
	p := &printer{out: out, coloured: coloured, wide: format == status.Wide, now: r.Time.Time, flags: r.Flags}
	for i := range r.Systems {
		if i > 0 {
			p.line(terminal.Plain, "")
		}
		p.system(&r.Systems[i])
	}
	return p.err
}

// WriteLines writes lines without control characters: the names in them come from participants.
func WriteLines(out io.Writer, lines []string) {
	p := &printer{out: out}
	for _, line := range lines {
		p.line(terminal.Plain, "%s", line)
	}
}
