package status

import (
	"fmt"
	"io"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/output"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/internal/prose"
)

// Format is the format of a report.
type Format = output.Format

// The formats of reports without an argument.
const (
	Table = output.Table
	Wide  = output.Wide
	JSON  = output.JSON
	YAML  = output.YAML
)

// Style is how a report is written.
type Style struct {
	Format    Format
	Coloured  bool
	NoHeaders bool // of tables and custom columns
}

// Write writes the report.
func (r *Report) Write(out io.Writer, style Style) error {
	if !style.Format.IsTable() {
		return style.Format.Write(out, r.document(), style.NoHeaders)
	}
	p := &printer{out: out, coloured: style.Coloured, noHeaders: style.NoHeaders}
	p.report(r, style.Format == Wide)
	return p.err
}

// document returns the report for programs. Rows and names are those of the rings and leaders, or of the objects.
func (r *Report) document() output.Document {
	d := output.Document{Root: r}
	for i := range r.Rings {
		name := r.Rings[i].Name
		if r.Rings[i].Declared {
			name = "controllerring.sharding.timebertt.dev/" + name
		}
		d.Rows, d.Names = append(d.Rows, r.Rings[i]), append(d.Names, name)
	}
	for i := range r.Leaders {
		d.Rows, d.Names = append(d.Rows, r.Leaders[i]), append(d.Names, "lease.coordination.k8s.io/"+r.Leaders[i].Lease)
	}
	for i := range r.Objects {
		d.Rows, d.Names = append(d.Rows, r.Objects[i]), append(d.Names, r.Objects[i].String())
	}
	return d
}

// printer writes tables and lines for people. After an error it writes nothing more.
type printer struct {
	out                 io.Writer
	coloured, noHeaders bool
	err                 error
}

func (p *printer) table(t *terminal.Table) {
	if p.noHeaders {
		t.Rows = t.Rows[1:]
	}
	if p.err == nil {
		p.err = t.Write(p.out, p.coloured)
	}
}

func (p *printer) line(colour terminal.Colour, format string, args ...any) {
	if p.err != nil {
		return
	}
	text := terminal.Printable(fmt.Sprintf(format, args...))
	if p.coloured {
		text = terminal.Paint(colour, text)
	}
	_, p.err = fmt.Fprintln(p.out, text)
}

func (p *printer) report(r *Report, wide bool) {
	if len(r.Rings) > 0 {
		p.table(ringsTable(r, wide))
	}
	for i := range r.Rings {
		p.ring(&r.Rings[i], r, wide)
	}
	if len(r.Leaders) > 0 {
		if len(r.Rings) > 0 {
			p.line(terminal.Plain, "")
		}
		p.table(leadersTable(r.Leaders, r.Time.Time, wide))
	}
	if len(r.Objects) > 0 {
		p.objects(r, wide)
	}
	if r.Namespace != "" && len(r.Rings) > 0 {
		p.line(terminal.Faint, "\nOnly objects in the namespace %s are counted.", r.Namespace)
	}
}

// ring writes the shards and the problems of a ring.
func (p *printer) ring(ring *Ring, r *Report, wide bool) {
	p.line(terminal.Plain, "")
	p.line(terminal.Strong, "%s", ring.Name)
	p.table(ring.shardsTable(r.Counted, r.Time.Time, wide))
	for _, concern := range ring.concerns() {
		p.line(terminal.Doubtful, "  ! %s", concern)
	}
	if silent := ring.unpublished(); len(silent) > 0 && !r.Counted {
		p.line(terminal.Faint, "  Number of objects not published by: %s. To count all objects, add --count.", prose.List(silent))
	}
}

// objects writes objects, why they have their owners, and their events.
func (p *printer) objects(r *Report, wide bool) {
	p.table(objectsTable(r.Objects, r.Time.Time, wide))
	p.line(terminal.Plain, "")
	for _, reason := range reasons(r.Objects) {
		p.line(terminal.Plain, "%s", reason)
	}
	for i := range r.Objects {
		object := &r.Objects[i]
		if len(object.Events) == 0 {
			continue
		}
		p.line(terminal.Plain, "")
		p.line(terminal.Strong, "Events of %s", object)
		p.table(eventsTable(object, r.Time.Time))
	}
}
