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

// none is the placeholder for an empty cell.
const none = "-"

// maxDoneRecords is the number of done records in the table format.
const maxDoneRecords = 3

// printer writes a report as text. After an error it writes nothing.
type printer struct {
	out      io.Writer
	coloured bool
	wide     bool
	now      time.Time
	flags    string // that select the store
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

// table writes an empty line and a table, unless the table has only a header.
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

// plain replaces control characters: text from participants must not control the terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// columns returns a table with a header. It leaves out empty titles.
func columns(titles ...string) *terminal.Table {
	var head []terminal.Cell
	for _, title := range titles {
		if title != "" {
			head = append(head, terminal.Cell{Text: title, Colour: terminal.Faint})
		}
	}
	return &terminal.Table{Rows: [][]terminal.Cell{head}}
}

// wideTitle returns the title in the wide format, otherwise "".
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
	p.line(terminal.Strong, "%s: %s, %s", s.System, prose.Count(len(s.Instances), "participant"), lock)
	if p.wide {
		p.line(terminal.Faint, "revision %d, newest token %d", s.Revision, s.Token)
	}
	if len(s.Instances) == 0 {
		p.line(terminal.Faint, "No participant is alive in global mode. Participants in local mode are not shown.")
	}
	p.participants(s)
	p.plan(s)
	p.actions(s)
	p.done(s)
	p.warnings(s)
}

func (p *printer) participants(s *System) {
	t := columns("PARTICIPANT", "PREFIX", "MODE", "GENERATION", "DOES")
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
	for i := range s.Dead {
		does := terminal.Cell{Text: "no process is alive"}
		if entries := s.Dead[i].Entries(); entries != noEntries {
			does = terminal.Cell{Text: "no process is alive; left behind: " + entries, Colour: terminal.Doubtful}
		}
		t.Add(terminal.Cell{Text: none}, terminal.Cell{Text: s.Dead[i].Prefix}, terminal.Cell{Text: none}, terminal.Cell{Text: none}, does)
	}
	p.table(t)
}

// plan writes the action in progress, with a mark at the current step.
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
		note = waitingFor(s, step)
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

// waitingFor returns the participants that have to carry out the current step.
func waitingFor(s *System, step coordination.Step) string {
	if !step.Order {
		return ""
	}
	var all []string
	for i := range s.Orders {
		order := &s.Orders[i]
		state := "has to answer"
		switch {
		case order.Prefix == "":
			all = append(all, "the participant of the member has to answer")
			continue
		case order.Accepted && order.Alive:
			state = "has accepted it, and has to answer"
		case order.Accepted:
			state = "has accepted it, but the accepting process is not alive"
		case !order.Alive:
			state = "has to answer, and no process of it is alive"
		}
		all = append(all, order.Prefix+" "+state)
	}
	return cmp.Or(strings.Join(all, "; "), "carried out; the plan continues when its holder finds the members healthy")
}

var stateColours = map[State]terminal.Colour{
	NotReady: terminal.Doubtful, Ready: terminal.Good, InProgress: terminal.Good, Planned: terminal.Good, Done: terminal.Faint, NotNeeded: terminal.Faint,
}

// actions writes the members and the wait reasons of all actions.
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

// Outlook returns the wait reasons of the action, as one sentence.
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
	case counts[Ready] > 0 && a.Retry != nil:
		return fmt.Sprintf("%s is tried again in %s: it was given up %s.", a.Action, roundUp(a.Retry.delay), times(a.Retry.Failures))
	case counts[Ready] > 0:
		return fmt.Sprintf("%s is ready to begin: after its quiet window, if the system is healthy.", a.Action)
	case counts[InProgress]+counts[Planned] > 0:
		return fmt.Sprintf("%s is being done.", a.Action)
	case counts[Done] > 0:
		return fmt.Sprintf("%s is done; the participants have not withdrawn it yet.", a.Action)
	}
	return fmt.Sprintf("%s: nothing is pending.", a.Action)
}

// roundUp rounds up to seconds, so that a delay is never shown as 0s.
func roundUp(delay time.Duration) time.Duration {
	return (delay + time.Second - 1).Truncate(time.Second)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}

// done writes the last actions that ended.
func (p *printer) done(s *System) {
	t := columns("LAST DONE", "MEMBERS", "BY", "TOKEN", "STEPS", "TOOK", "AGO", "OUTCOME")
	for i, done := range s.DoneRecords {
		if i >= maxDoneRecords && !p.wide {
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
		if took, known := durationOf(&done); known {
			lasted = duration.HumanDuration(took)
		}
		t.Add(terminal.Cell{Text: string(done.Action)}, terminal.Cell{Text: ids(done.Members)}, terminal.Cell{Text: done.Holder},
			terminal.Cell{Text: strconv.FormatInt(done.Token, 10)}, terminal.Cell{Text: fmt.Sprintf("%d/%d", done.StepIndex, len(done.Steps))},
			terminal.Cell{Text: lasted}, terminal.Cell{Text: p.age(done.Until)}, outcome)
	}
	p.table(t)
}

// warnings writes the problems that may need an intervention.
func (p *printer) warnings(s *System) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Denied)) {
		all = append(all, fmt.Sprintf("%s cannot hold the lock: it is on the deny list of %s", name, prose.List(s.Denied[name])))
	}
	all = append(all, p.hanging(s)...)
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
	for i := range s.Dead {
		if dead := &s.Dead[i]; len(dead.Members) > 0 || len(dead.Denies) > 0 {
			all = append(all, fmt.Sprintf("no process of %s is alive; if it will not return: ringmaster coordination forget %[2]s %[1]s%[3]s", dead.Prefix, s.System, p.flags))
		}
	}
	if len(all) > 0 {
		p.line(terminal.Plain, "")
	}
	for _, warning := range all {
		p.line(terminal.Doubtful, "! %s", warning)
	}
}

// hangingAfter is the duration of a step after which the report names the command against a hanging process. The store has no
// time for a single step, so a plan counts as hanging when its steps up to now have taken longer on average.
const hangingAfter = time.Minute

// mayHang reports whether the current step takes longer than expected.
func (p *printer) mayHang(s *System) bool {
	return s.Intent != nil && p.now.Sub(s.Intent.Since) > hangingAfter*time.Duration(s.Intent.StepIndex+1)
}

// hanging returns the commands that help if the current step does not end.
func (p *printer) hanging(s *System) []string {
	const command = "ringmaster coordination %s %s%s"
	abandon := fmt.Sprintf(command, "abandon", s.System, p.flags)
	var all []string
	for i := range s.Orders {
		order := &s.Orders[i]
		switch {
		case order.Accepted && !order.Alive:
			all = append(all, fmt.Sprintf("%s has accepted the order to %s, but the accepting process is not alive; if no other process answers: %s", order.Prefix, order, abandon))
		case order.Accepted && p.mayHang(s):
			all = append(all, fmt.Sprintf("%s has accepted the order to %s and not answered it; if it hangs: %s", order.Prefix, order, abandon))
		}
	}
	if step := s.ownStep(); step != nil && p.mayHang(s) {
		all = append(all, fmt.Sprintf("%s has not finished the step %s; if it hangs: %s", s.Lock.Holder, step,
			fmt.Sprintf(command, "break-lock", s.System, p.flags)))
	}
	return all
}

func ids[V any](members map[coordination.MemberID]V) string {
	return cmp.Or(prose.List(slices.Sorted(maps.Keys(members))), none)
}
