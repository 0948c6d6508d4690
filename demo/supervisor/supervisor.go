package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/process"
)

// Program says what to run under a name.
type Program struct {
	Name string
	// Prepare says what to run, before each start.
	Prepare func(context.Context) (process.Spec, error)
}

// Options are who is told of what happens.
type Options struct {
	// Report is told in words what happens to a process, and whether that is wrong.
	Report func(name, what string, wrong bool)
	// Gone is told when a process is gone for good.
	Gone func(name string)
	// Changed is told that there is something new in Members.
	Changed func()
	// Grace is how long a process that was asked to end may take.
	Grace time.Duration
	// Back says what starts a process that was stopped, 'resume' if it is not set.
	Back string
}

// Crew is a number of processes with names.
type Crew struct {
	options Options
	ctx     context.Context // ends preparations
	cancel  context.CancelFunc

	mu      sync.Mutex
	members []*member // in the order in which they were added
	closed  bool
}

// errClosed refuses what would keep a process from its end, and Close waiting for ever.
var errClosed = errors.New("it is ending, and takes no more commands")

// New returns a crew without anybody.
func New(options Options) *Crew {
	ctx, cancel := context.WithCancel(context.Background())
	return &Crew{options: options, ctx: ctx, cancel: cancel}
}

// Add runs a program from now on. One that was stopped, or is about to be, is started again.
func (c *Crew) Add(program Program) error {
	defer c.options.Changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if m := c.find(program.Name); m != nil {
		m.resume()
		return nil
	}
	m := &member{
		Member: Member{Name: program.Name, Phase: Starting, Since: time.Now()}, program: program,
		wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	c.members = append(c.members, m)
	go c.keep(m)
	return nil
}

func (c *Crew) find(name string) *member {
	for _, m := range c.members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// resume makes a process that is not there run now, and one that is about to end run again then.
func (m *member) resume() {
	m.wish, m.Again = run, time.Time{}
	m.hurry()
}

// hurry lets a process that is not there look at what it was told.
func (m *member) hurry() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Members returns all processes, in the order in which they were added.
func (c *Crew) Members() []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Member, 0, len(c.members))
	for _, m := range c.members {
		seen := m.Member
		seen.Wanted, seen.Dismissed = m.wish == run, m.wish == leave
		all = append(all, seen)
	}
	return all
}

// keep runs a process again and again until it is to leave.
func (c *Crew) keep(m *member) {
	defer close(m.gone)
	for {
		c.runOnce(m)
		if !c.await(m) {
			return
		}
	}
}

// await waits until a process that has ended is to run again. It is false when it is to leave.
func (c *Crew) await(m *member) bool {
	for {
		c.mu.Lock()
		wish, wait := m.wish, time.Until(m.Again)
		c.mu.Unlock()
		var timer <-chan time.Time
		switch {
		case wish == leave && c.bury(m):
			return false
		case wish == run && wait <= 0:
			return true
		case wish == run:
			timer = time.After(wait)
		}
		select {
		case <-timer:
		case <-m.wake:
		}
	}
}

// bury forgets a process that has ended, unless it is wanted again meanwhile.
func (c *Crew) bury(m *member) (gone bool) {
	c.options.Gone(m.Name)
	c.change(func() {
		if gone = m.wish == leave; gone {
			c.members = slices.DeleteFunc(c.members, func(other *member) bool { return other == m })
		}
	})
	return gone
}

// runOnce runs a process until it ends, and notes what becomes of it.
func (c *Crew) runOnce(m *member) {
	running, err := c.start(m)
	if err != nil {
		c.mu.Lock()
		how := end{
			failures: m.failures, asked: errors.Is(err, errUnwanted),
			err: fmt.Errorf("cannot be started: %w", err),
		}
		c.mu.Unlock()
		c.settle(m, how)
		return
	}
	began := time.Now()
	<-running.Done()
	c.mu.Lock()
	how := m.ended(running, time.Since(began))
	c.mu.Unlock()
	c.settle(m, how)
}

// errUnwanted is why a process is not started after all.
var errUnwanted = errors.New("it was stopped meanwhile")

func (c *Crew) start(m *member) (*process.Process, error) {
	c.change(func() { m.set(Starting, time.Now()) })
	spec, err := m.program.Prepare(c.ctx)
	if err != nil {
		return nil, err
	}
	var running *process.Process
	c.change(func() {
		if m.wish != run {
			err = errUnwanted
			return
		}
		if running, err = process.Start(spec); err == nil {
			m.current, m.PID, m.killed = running, running.PID(), false
			m.set(Running, time.Now())
		}
	})
	if err == nil {
		c.tell(m.Name, fmt.Sprintf("started as process %d", running.PID()), false)
	}
	return running, err
}

// settle notes what becomes of a process that has ended.
func (c *Crew) settle(m *member, how end) {
	var next verdict
	what := ""
	c.change(func() {
		how.wish = m.wish // which may be newer than its end
		next = judge(how)
		now := time.Now()
		what = next.note
		m.current, m.PID, m.Note, m.failures = nil, 0, next.note, next.failures
		switch next.phase {
		case Waiting:
			m.set(Waiting, now)
			m.Again = now.Add(next.after)
			m.Restarts++
			what += fmt.Sprintf("; starts again in %s", next.after)
		default:
			m.set(Stopped, now)
		}
	})
	c.tell(m.Name, what, next.failures > 0)
}

func (c *Crew) change(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.options.Changed()
}

func (c *Crew) tell(name, what string, wrong bool) {
	c.options.Report(name, what, wrong)
	c.options.Changed()
}

// Names returns the names of all processes.
func (c *Crew) Names() []string {
	var names []string
	for _, m := range c.Members() {
		names = append(names, m.Name)
	}
	return names
}

// UnknownError says that nobody has that name, and who is there.
func (c *Crew) UnknownError(name string) error {
	return fmt.Errorf("there is no %q; there are: %s", name, strings.Join(c.Names(), ", "))
}

// on calls do with the process of a name, which is there.
func (c *Crew) on(name string, do func(*member) error) error {
	unknown := c.UnknownError(name)
	defer c.options.Changed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	m := c.find(name)
	if m == nil {
		return unknown
	}
	return do(m)
}

// Kill ends a process at once (SIGKILL). It is started again after it was away for a while.
func (c *Crew) Kill(name string, away time.Duration) error {
	return c.on(name, func(m *member) error {
		if m.current == nil {
			return m.absentError()
		}
		m.killed, m.away = true, away
		return m.current.Signal(syscall.SIGKILL)
	})
}

// Stop asks a process to end (SIGTERM), and to stay away until it is resumed.
func (c *Crew) Stop(name string) error {
	return c.on(name, func(m *member) error {
		if m.Phase == Stopped {
			return fmt.Errorf("%s is stopped already", name)
		}
		return c.dismiss(m, rest)
	})
}

// Remove asks a process to end, and forgets it then.
func (c *Crew) Remove(name string) error {
	return c.on(name, func(m *member) error { return c.dismiss(m, leave) })
}

// dismiss asks a process to end, and kills it if it does not within the time that it has.
func (c *Crew) dismiss(m *member, wish wish) error {
	m.wish = wish
	if m.current == nil {
		if wish == rest {
			m.Note = "stopped by you"
			m.set(Stopped, time.Now())
		}
		m.hurry()
		return nil
	}
	m.set(Stopping, time.Now())
	current := m.current
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.options.Grace)
		defer cancel()
		_ = current.Stop(ctx) // there is nobody to tell that it is gone already
	}()
	return nil
}

// Pause stops a process where it is (SIGSTOP).
func (c *Crew) Pause(name string) error {
	return c.on(name, func(m *member) error {
		switch {
		case m.current == nil:
			return m.absentError()
		case m.Phase != Running:
			return fmt.Errorf("%s is %s already", name, m.Phase)
		}
		m.Phase = Paused
		return m.current.Pause()
	})
}

// Resume lets a paused process go on (SIGCONT), and starts one that is not there.
func (c *Crew) Resume(name string) error {
	return c.on(name, func(m *member) error {
		switch {
		case m.current == nil:
			m.resume()
			return nil
		case m.Phase != Paused:
			return fmt.Errorf("%s is %s, and not paused", name, m.Phase)
		}
		m.Phase = Running
		return m.current.Resume()
	})
}

// Close ends all processes in good order, and by force when ctx ends before they have. From then on all are to
// leave, and nobody can wish anything else.
func (c *Crew) Close(ctx context.Context) {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	members := slices.Clone(c.members)
	for _, m := range members {
		_ = c.dismiss(m, leave) // cannot fail
	}
	c.mu.Unlock()
	for _, m := range members {
		select {
		case <-m.gone:
		case <-ctx.Done():
			c.mu.Lock()
			current := m.current
			c.mu.Unlock()
			if current != nil {
				_ = current.Kill() // it goes with this process at the latest
			}
			<-m.gone
		}
	}
}
