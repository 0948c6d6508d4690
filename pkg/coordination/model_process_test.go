package coordination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// processMemory is the state of a Coordinator between two calls of Reconcile, as an immutable value.
type processMemory struct {
	settings    Settings
	left        time.Time
	session     string
	lost        bool // the process knows that its session is lost
	grant       *grantMemory
	isHolder    bool
	localIntent *Intent // of the run in local mode
	givenUp     map[Action]localFailure
	doubtful    bool
	registered  registration
	seen        map[barrierKey]observation
	doing       stepState
	former      map[string]bool
	text        string // of all fields above
}

type grantMemory struct {
	token, version, intentVersion int64
	lock                          Lock
	since                         time.Time
	intent                        *Intent
	cause                         error
	ending                        bool
}

// modelSession is a session that the model can mark as lost.
type modelSession struct {
	kv.Session
	id    string
	lost  chan struct{}
	close func() error
}

func (s *modelSession) ID() string                  { return s.id }
func (s *modelSession) Lost() <-chan struct{}       { return s.lost }
func (s *modelSession) Close(context.Context) error { return s.close() }

func (s *modelSession) lose() {
	select {
	case <-s.lost:
	default:
		close(s.lost)
	}
}

// snapshotOf returns the memory of a Coordinator.
func snapshotOf(c *Coordinator) *processMemory {
	m := &processMemory{
		settings: c.settings.clone(), left: c.leftAt, doubtful: c.lockUncertain, registered: c.registered, seen: maps.Clone(c.observed), doing: c.stepState,
		former: maps.Clone(c.lostSessions), isHolder: c.currentRun != nil, givenUp: maps.Clone(c.localFailures),
	}
	if local, ok := c.currentRun.(*localRun); ok {
		m.localIntent = local.intent()
		m.localIntent.Steps = slices.Clone(m.localIntent.Steps)
	}
	if s, ok := c.session.(*modelSession); ok {
		m.session = s.id
		select {
		case <-s.lost:
			m.lost = true
		default:
		}
	}
	if g := c.grant; g != nil {
		m.grant = &grantMemory{
			token: g.Token, version: g.version, intentVersion: g.intentVersion, lock: g.lock, since: g.since, intent: g.Intent(),
			cause: context.Cause(g.ctx), ending: g.releasing.Load(),
		}
		if m.grant.cause != nil && !m.isHolder { // only its end matters
			m.grant = &grantMemory{cause: m.grant.cause}
		}
	}
	if held := c.currentGrant(); m.isHolder && held != c.grant {
		panic("a run must have the last grant of its process")
	}
	m.text = m.describe()
	return m
}

func (m *processMemory) describe() string {
	var b strings.Builder
	fmt.Fprintln(&b, encode(m.settings), m.left.Unix(), m.session, m.lost, m.isHolder, m.doubtful, m.registered, sortedKeys(m.former), m.givenUp)
	if m.localIntent != nil {
		fmt.Fprintln(&b, encode(m.localIntent))
	}
	if m.isHolder {
		fmt.Fprintln(&b, m.doing.id, m.doing.since.Unix(), m.doing.executed)
	}
	if g := m.grant; g != nil {
		fmt.Fprintln(&b, g.token, g.version, g.intentVersion, encode(g.lock), g.since.Unix(), encode(g.intent), g.cause, g.ending)
	}
	for _, q := range slices.SortedFunc(maps.Keys(m.seen), func(a, b barrierKey) int {
		return strings.Compare(string(a.action)+a.class, string(b.action)+b.class)
	}) {
		fmt.Fprintln(&b, q, m.seen[q].pending, m.seen[q].since.Unix())
	}
	return b.String()
}

// process is a process of a participant: its memory, and during a Reconcile the responses since its beginning. Reconcile is
// deterministic, so it does the same again with the same responses.
type process struct {
	name        string // unique
	participant int
	incarnation int
	updated     bool // it was started while an earlier process was alive
	opened      int  // sessions
	session     string
	memory      *processMemory
	log         []*recordedCall
	next        string          // the next call, "" outside of Reconcile
	nextCommit  *kv.Transaction // of the next call, if it is a commit
}

// recordedCall is a call of a Reconcile with its response.
type recordedCall struct {
	call     string
	err      error
	snapshot *kv.Snapshot
	revision int64
	session  string
	needs    Needs
	steps    []Step
	text     string // the response, for the hash of the state
}

// sessionLostNotice marks the point in a log at which the process notices the loss of its session.
var sessionLostNotice = &recordedCall{call: "notice", text: "notice"}

func newProcess(name string, participant, incarnation int) *process {
	m := &processMemory{seen: map[barrierKey]observation{}}
	m.text = m.describe()
	return &process{name: name, participant: participant, incarnation: incarnation, memory: m}
}

func (p *process) describe(b *strings.Builder) {
	fmt.Fprintln(b, p.name, p.opened, p.session, p.memory.text)
	for _, a := range p.log {
		fmt.Fprintln(b, a.call, a.err, a.text)
	}
}

// stopAtCall is the panic that ends a Reconcile at its next call.
type stopAtCall struct{}

// execution runs a process until its next call.
type execution struct {
	w            *modelState
	p            *process
	c            *Coordinator
	session      *modelSession
	at           int
	allowedCalls int
	commits      *kv.Transaction // of the present call, if it is a commit
	fault        string          // of the allowed call
	lastCall     string          // the allowed call
}

// Now returns the time of the model.
func (e *execution) Now() time.Time                                { return e.w.now }
func (e *execution) Since(t time.Time) time.Duration               { return e.w.now.Sub(t) }
func (e *execution) Watch(context.Context, string) <-chan struct{} { return nil }

// run runs a process until after its next call, and returns that call.
func (e *execution) run() (call string) {
	e.c = e.restore()
	defer func() {
		if e.c.grant != nil && e.c.grant.cancel != nil {
			e.c.grant.cancel(context.Canceled) // ends its guard
		}
	}()
	if e.reconcile() {
		clear(e.c.observed) // the quiet window is not modelled
		e.p.memory, e.p.log, e.p.next, e.p.nextCommit = snapshotOf(e.c), nil, "", nil
	}
	return e.lastCall
}

func (e *execution) reconcile() (ended bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopAtCall); !ok {
				panic(r)
			}
		}
	}()
	_, _ = e.c.Reconcile(context.Background(), e.w.scenario.settings(e.p), e.w.scenario.system(e))
	e.skipNotices()
	return true
}

// restore returns a Coordinator with the memory of a process. Its guards receive no signals.
func (e *execution) restore() *Coordinator {
	m := e.p.memory
	c := &Coordinator{
		store: e, keys: e.w.scenario.keys, system: modelSystemName, name: e.w.scenario.participants[e.p.participant], duration: time.Minute,
		class: func(MemberID) string { return "" }, clock: e, actions: []Action{e.w.scenario.action}, metrics: e.w.scenario.metrics,
		settings: m.settings.clone(), leftAt: m.left, lockUncertain: m.doubtful, registered: m.registered, observed: maps.Clone(m.seen), stepState: m.doing,
		maxOperations: e.w.scenario.maxOperations, localFailures: map[Action]localFailure{}, lostSessions: map[string]bool{},
		retryAfter: func(int) time.Duration { return 0 }, // the backoff is not modelled
	}
	maps.Copy(c.lostSessions, m.former)
	maps.Copy(c.localFailures, m.givenUp)
	if m.session != "" {
		c.session = e.newSession(m.session)
		if m.lost {
			e.session.lose()
		}
	}
	if from := m.grant; from != nil {
		g := &lockGrant{
			Token: from.token, c: c, lock: from.lock, since: from.since, version: from.version, intentVersion: from.intentVersion,
		}
		if from.intent != nil {
			intent := *from.intent
			intent.Steps = slices.Clone(intent.Steps)
			g.intent = &intent
		}
		g.ctx, g.cancel = context.WithCancelCause(context.Background())
		g.releasing.Store(from.ending)
		if from.cause != nil {
			g.cancel(from.cause)
		}
		c.grant = g
		switch {
		case m.localIntent != nil:
			alone := *m.localIntent
			alone.Steps = slices.Clone(alone.Steps)
			c.currentRun = &localRun{g, alone}
		case m.isHolder:
			c.currentRun = &globalRun{g}
		}
	}
	return c
}

func (e *execution) newSession(id string) *modelSession {
	e.session = &modelSession{id: id, lost: make(chan struct{}), close: func() error {
		return e.call("close "+id, true, func(a *recordedCall) { e.w.store = e.w.store.end(id) }).err
	}}
	return e.session
}

// skipNotices marks the session as lost at the recorded points.
func (e *execution) skipNotices() {
	for e.at < len(e.p.log) && e.p.log[e.at] == sessionLostNotice {
		e.at++
		e.session.lose()
		if g := e.c.grant; g != nil {
			g.markLost()
		}
	}
}

// call returns the recorded response of a call, or makes an allowed call, or ends the run. A call that only reads the environment, with
// point unset, is always allowed.
func (e *execution) call(call string, point bool, do func(a *recordedCall)) *recordedCall {
	e.skipNotices()
	if e.at < len(e.p.log) {
		a := e.p.log[e.at]
		if a.call != call {
			panic(fmt.Sprintf("%s is not deterministic: %s, and before %s", e.p.name, call, a.call))
		}
		e.at++
		return a
	}
	if point && e.allowedCalls == 0 {
		e.p.next, e.p.nextCommit = call, e.commits
		panic(stopAtCall{})
	}
	if point {
		e.allowedCalls--
		e.lastCall = call
	}
	a := &recordedCall{call: call}
	do(a)
	e.p.log = append(e.p.log[:e.at:e.at], a)
	e.at++
	return a
}

var (
	errUnavailable = errors.New("the store is not available")
	errAnswerLost  = errors.New("the answer is lost")
)

// Read implements Store.
func (e *execution) Read(_ context.Context, paths ...string) (*kv.Snapshot, error) {
	a := e.call("read "+strings.Join(paths, " "), true, func(a *recordedCall) {
		if e.fault == refused {
			a.err = errUnavailable
			return
		}
		a.snapshot = e.w.store.read(paths...)
		a.text = describeEntries(a.snapshot.Entries) + strconv.FormatInt(a.snapshot.Revision, 10)
	})
	if a.err != nil {
		return nil, a.err
	}
	return &kv.Snapshot{Revision: a.snapshot.Revision, Entries: maps.Clone(a.snapshot.Entries)}, nil
}

// Commit implements Store.
func (e *execution) Commit(_ context.Context, t kv.Transaction) (int64, error) {
	e.commits = &t
	defer func() { e.commits = nil }()
	a := e.call("commit "+describeTransaction(t), true, func(a *recordedCall) {
		switch e.fault {
		case refused:
			a.err = errUnavailable
			return
		case delayed:
			e.w.delayedCommits = append(slices.Clone(e.w.delayedCommits), delayedCommit{t, e.p})
			a.err = errAnswerLost
			return
		}
		a.err = e.w.commit(e.p, t)
		a.revision = e.w.store.revision
		a.text = strconv.FormatInt(a.revision, 10)
		if e.fault == unanswered {
			a.err, a.text, a.revision = errAnswerLost, "", 0
		}
	})
	return a.revision, a.err
}

// Open implements Store.
func (e *execution) Open(context.Context, string, time.Duration) (kv.Session, error) {
	a := e.call("open", true, func(a *recordedCall) {
		if e.fault == refused {
			a.err = errUnavailable
			return
		}
		e.p.opened++
		a.session = fmt.Sprintf("%s.%d", e.p.name, e.p.opened)
		a.text = a.session
		e.w.store = e.w.store.open(a.session)
		e.p.session = a.session
	})
	if a.err != nil {
		return nil, a.err
	}
	return e.newSession(a.session), nil
}

func describeEntries(entries map[string]kv.Entry) string {
	var b strings.Builder
	for _, key := range sortedKeys(entries) {
		entry := entries[key]
		fmt.Fprintln(&b, key, entry.Value, entry.Version, entry.Session)
	}
	return b.String()
}

// describeTransaction returns the same text for every order of the conditions and operations.
func describeTransaction(t kv.Transaction) string {
	var all []string
	for _, condition := range t.If {
		all = append(all, fmt.Sprintf("if %s%s@%d", condition.Key, condition.Path, condition.Version+condition.Since))
	}
	for _, operation := range t.Then {
		switch {
		case operation.Delete:
			all = append(all, "delete "+operation.Key)
		default:
			all = append(all, fmt.Sprintf("put %s=%s", operation.Key, operation.Value))
		}
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}
