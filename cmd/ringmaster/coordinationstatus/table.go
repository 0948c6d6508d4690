package coordinationstatus

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/terminal"
	"github.com/ringmaster-project/ringmaster/internal/prose"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// none is shown where there is nothing.
const none = "-"

// lastDone is how much of what was done is shown, unless all is asked for.
const lastDone = 3

// printer writes for people. After an error it writes nothing more.
type printer struct {
	out      io.Writer
	coloured bool
	wide     bool
	now      time.Time
	flags    string // that name the store
	err      error
}

func (p *printer) line(colour terminal.Colour, format string, args ...any) {
	if p.err != nil {
		return
	}
	text := plain(fmt.Sprintf(format, args...))
	if p.coloured {
		text = terminal.Paint(colour, text)
	}
	_, p.err = fmt.Fprintln(p.out, text)
}

// table writes a table below a gap, unless it has only a head.
func (p *printer) table(t *terminal.Table) {
	if len(t.Rows) < 2 || p.err != nil {
		return
	}
	p.line(terminal.Plain, "")
	p.write(t)
}

// write writes a table.
func (p *printer) write(t *terminal.Table) {
	if p.err != nil {
		return
	}
	for _, row := range t.Rows {
		for i := range row {
			row[i].Text = plain(row[i].Text)
		}
	}
	p.err = t.Write(p.out, p.coloured)
}

// plain makes what instances have said one line, which does nothing to a terminal but appear in it.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// columns is a table with a head.
func columns(titles ...string) *terminal.Table {
	var head []terminal.Cell
	for _, title := range titles {
		if title != "" {
			head = append(head, terminal.Cell{Text: title, Colour: terminal.Faint})
		}
	}
	return &terminal.Table{Rows: [][]terminal.Cell{head}}
}

// wideTitle is one that is there only when all is asked for.
func (p *printer) wideTitle(title string) string {
	if p.wide {
		return title
	}
	return ""
}

func (p *printer) age(since time.Time) string {
	if since.IsZero() {
		return none
	}
	return duration.HumanDuration(max(0, p.now.Sub(since)))
}

func (p *printer) system(s *System) {
	lock := "nobody holds the lock"
	if s.Lock != nil {
		lock = fmt.Sprintf("%s holds the lock, with token %d, for %s", s.Lock.Holder, s.Lock.Token, p.age(s.Lock.Since))
	}
	p.line(terminal.Strong, "%s: %s, %s", s.System, prose.Count(len(s.Instances), "instance"), lock)
	if p.wide {
		p.line(terminal.Faint, "revision %d, newest token %d", s.Revision, s.Token)
	}
	if len(s.Instances) == 0 {
		p.line(terminal.Faint, "No operator is alive in global mode. Operators in local mode are not shown.")
	}
	p.instances(s)
	p.plan(s)
	p.actions(s)
	p.done(s)
	p.concerns(s)
}

func (p *printer) instances(s *System) {
	t := columns("INSTANCE", "PREFIX", "MODE", "GENERATION", "DOES")
	for i, instance := range s.Instances {
		does := terminal.Cell{Text: cmp.Or(s.Roles[i].Does, none)}
		switch {
		case s.Denied[instance.Name] != nil:
			does.Colour = terminal.Bad
		case s.Lock != nil && s.Lock.Holder == instance.Name:
			does.Colour = terminal.Good
		case slices.ContainsFunc(s.Orders, func(o Order) bool { return o.Prefix == instance.Prefix }):
			does.Colour = terminal.Doubtful
		}
		t.Add(terminal.Cell{Text: instance.Name, Colour: terminal.Strong}, terminal.Cell{Text: instance.Prefix},
			terminal.Cell{Text: string(instance.Mode)}, terminal.Cell{Text: strconv.FormatInt(instance.Generation, 10)}, does)
	}
	for _, process := range s.Superseded {
		t.Add(terminal.Cell{Text: process.Name, Colour: terminal.Strong}, terminal.Cell{Text: process.Prefix},
			terminal.Cell{Text: string(process.Mode)}, terminal.Cell{Text: strconv.FormatInt(process.Generation, 10)},
			terminal.Cell{Text: "superseded by a newer process of this name", Colour: terminal.Doubtful})
	}
	for i := range s.Left {
		left := terminal.Cell{Text: "no process is alive"}
		if said := s.Left[i].Says(); said != nothing {
			left = terminal.Cell{Text: "no process is alive; left behind: " + said, Colour: terminal.Doubtful}
		}
		t.Add(terminal.Cell{Text: none}, terminal.Cell{Text: s.Left[i].Prefix}, terminal.Cell{Text: none}, terminal.Cell{Text: none}, left)
	}
	p.table(t)
}

// plan is what is being done, with a mark at the step that is next.
func (p *printer) plan(s *System) {
	if s.Intent == nil {
		return
	}
	i := s.Intent
	p.line(terminal.Plain, "")
	p.line(terminal.Strong, "%s of %s, by %s with token %d, begun %s ago", i.Action, ids(i.Members), cmp.Or(i.Holder, none), i.Token, p.age(i.Since))
	if s.Lock == nil {
		p.line(terminal.Doubtful, "  ! nobody holds the lock: the next participant continues the intent")
	}
	t := &terminal.Table{Indent: "  "}
	for n, step := range i.Steps {
		t.Add(p.step(s, n, step)...)
	}
	p.write(t)
	for _, id := range slices.Sorted(maps.Keys(i.LeftOut)) {
		p.line(terminal.Doubtful, "  ! without %s: %s", id, i.LeftOut[id])
	}
}

func (p *printer) step(s *System, n int, step coordination.Step) []terminal.Cell {
	mark, colour, note := " ", terminal.Plain, ""
	switch {
	case n < s.Intent.StepIndex:
		mark, colour = "✓", terminal.Faint
	case n == s.Intent.StepIndex:
		mark, colour = "→", terminal.Good
		note = awaited(s, step)
	}
	row := []terminal.Cell{
		{Text: fmt.Sprintf("%s %d", mark, n+1), Colour: colour},
		{Text: step.String(), Colour: colour},
		{Text: note, Colour: terminal.Doubtful},
	}
	if p.wide {
		var with []string
		for _, key := range slices.Sorted(maps.Keys(step.With)) {
			with = append(with, key+"="+step.With[key])
		}
		row = append(row, terminal.Cell{Text: strings.Join(with, " "), Colour: terminal.Faint})
	}
	return row
}

// awaited says who has to do the present step.
func awaited(s *System, step coordination.Step) string {
	if !step.Order {
		return ""
	}
	var all []string
	for i := range s.Orders {
		order := &s.Orders[i]
		said := "has to answer"
		switch {
		case order.Prefix == "":
			all = append(all, "the participant of the member has to answer")
			continue
		case order.Accepted && order.Alive:
			said = "has accepted it, and has to answer"
		case order.Accepted:
			said = "has accepted it, but the accepting process is not alive"
		case !order.Alive:
			said = "has to answer, and no process of it is alive"
		}
		all = append(all, order.Prefix+" "+said)
	}
	return cmp.Or(strings.Join(all, "; "), "carried out; the plan goes on when its holder finds the members healthy")
}

var stateColours = map[State]terminal.Colour{
	NotReady: terminal.Doubtful, Ready: terminal.Good, Doing: terminal.Good, Planned: terminal.Good, Done: terminal.Faint, Unwanted: terminal.Faint,
}

// actions are what is in the sets, and what it waits for.
func (p *printer) actions(s *System) {
	t := columns("ACTION", "MEMBER", "PREFIX", "STATE", "ADDRESSES", p.wideTitle("VERSION"))
	for _, action := range s.Actions {
		name := string(action.Action)
		for _, member := range action.Members {
			row := []terminal.Cell{
				{Text: name},
				{Text: string(member.ID), Colour: terminal.Strong},
				{Text: member.Prefix},
				{Text: string(member.State), Colour: stateColours[member.State]},
				{Text: cmp.Or(strings.Join(member.Addresses, " "), none)},
			}
			if p.wide {
				row = append(row, terminal.Cell{Text: strconv.FormatInt(member.Version, 10)})
			}
			t.Add(row...)
			name = ""
		}
	}
	if len(s.Actions) == 0 {
		p.line(terminal.Plain, "")
		p.line(terminal.Faint, "Nothing is pending.")
		return
	}
	p.table(t)
	p.line(terminal.Plain, "")
	for i := range s.Actions {
		p.line(terminal.Plain, "%s", s.Actions[i].Outlook())
	}
}

// Outlook says in words what an action waits for.
func (a *Action) Outlook() string {
	counts := map[State]int{}
	for _, member := range a.Members {
		counts[member.State]++
	}
	switch {
	case len(a.Waits) > 0:
		var reasons []string
		for _, wait := range a.Waits {
			reasons = append(reasons, wait.String())
		}
		return fmt.Sprintf("%s waits for %s.", a.Action, strings.Join(reasons, "; "))
	case counts[Ready] > 0:
		return fmt.Sprintf("%s is ready to begin: after its quiet window, if the system is healthy.", a.Action)
	case counts[Doing]+counts[Planned] > 0:
		return fmt.Sprintf("%s is being done.", a.Action)
	case counts[Done] > 0:
		return fmt.Sprintf("%s is done; the participants have not withdrawn it yet.", a.Action)
	}
	return fmt.Sprintf("%s: nothing is pending.", a.Action)
}

// done is what was done last.
func (p *printer) done(s *System) {
	t := columns("LAST DONE", "MEMBERS", "BY", "TOKEN", "STEPS", "TOOK", "AGO", "OUTCOME")
	for i, done := range s.DoneRecords {
		if i >= lastDone && !p.wide {
			break
		}
		outcome := terminal.Cell{Text: "done", Colour: terminal.Good}
		if done.Failure != "" {
			outcome = terminal.Cell{Text: "given up: " + done.Failure, Colour: terminal.Bad}
		}
		if len(done.LeftOut) > 0 {
			outcome.Text += ", without " + prose.List(slices.Sorted(maps.Keys(done.LeftOut)))
		}
		lasted := none
		if took, known := took(&done); known {
			lasted = duration.HumanDuration(took)
		}
		t.Add(terminal.Cell{Text: string(done.Action)}, terminal.Cell{Text: ids(done.Members)}, terminal.Cell{Text: done.Holder},
			terminal.Cell{Text: strconv.FormatInt(done.Token, 10)}, terminal.Cell{Text: fmt.Sprintf("%d/%d", done.StepIndex, len(done.Steps))},
			terminal.Cell{Text: lasted}, terminal.Cell{Text: p.age(done.Until)}, outcome)
	}
	p.table(t)
}

// concerns are what somebody should look at.
func (p *printer) concerns(s *System) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Denied)) {
		all = append(all, fmt.Sprintf("%s cannot hold the lock: it is on the deny list of %s", name, prose.List(s.Denied[name])))
	}
	all = append(all, p.stuck(s)...)
	for _, process := range s.Superseded {
		all = append(all, fmt.Sprintf("two processes have the name %s, and only the newer one works: stop the older one, or rename it", process.Name))
	}
	for _, absent := range s.Absent {
		all = append(all, fmt.Sprintf("%s is expected by %s but not alive: start it, or remove it from the expected participants",
			absent.Prefix, prose.List(absent.By)))
	}
	for _, prefix := range s.Incomplete {
		all = append(all, prefix+" has declared only a part of its needs, and no action begins before it has declared all: see the log of its operator")
	}
	all = append(all, s.PolicyConflicts...)
	for i := range s.Left {
		if left := &s.Left[i]; len(left.Members) > 0 || len(left.Denies) > 0 {
			all = append(all, fmt.Sprintf("no process of %s is alive; if it will not return: ringmaster coordination forget %[2]s %[1]s%[3]s", left.Prefix, s.System, p.flags))
		}
	}
	if len(all) > 0 {
		p.line(terminal.Plain, "")
	}
	for _, concern := range all {
		p.line(terminal.Doubtful, "! %s", concern)
	}
}

// stuck names what a person can do when the present step does not end.
func (p *printer) stuck(s *System) []string {
	const command = "ringmaster coordination %s %s%s"
	abandon := fmt.Sprintf(command, "abandon", s.System, p.flags)
	var all []string
	for i := range s.Orders {
		order := &s.Orders[i]
		switch {
		case order.Accepted && !order.Alive:
			all = append(all, fmt.Sprintf("%s has accepted the order to %s, but the accepting process is not alive; if no other process answers: %s", order.Prefix, order.what(), abandon))
		case order.Accepted:
			all = append(all, fmt.Sprintf("%s is carrying out an order; if it hangs: %s", order.Prefix, abandon))
		}
	}
	if step := s.ownStep(); step != nil {
		all = append(all, fmt.Sprintf("%s is carrying out a step; if it hangs: %s", s.Lock.Holder, fmt.Sprintf(command, "break-lock", s.System, p.flags)))
	}
	return all
}

func ids[V any](members map[coordination.MemberID]V) string {
	return cmp.Or(prose.List(slices.Sorted(maps.Keys(members))), none)
}
