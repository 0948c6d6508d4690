package coordinationstatus

import (
	"io"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/output"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
)

// Write writes the report in a format.
func (r *Report) Write(out io.Writer, format status.Format, coloured bool) error {
	if !format.IsTable() {
		document := output.Document{Root: r}
		for i := range r.Systems {
			document.Rows, document.Names = append(document.Rows, r.Systems[i]), append(document.Names, r.Systems[i].System)
		}
		return format.Write(out, document, false)
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
