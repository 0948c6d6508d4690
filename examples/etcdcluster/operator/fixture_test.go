package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// memory is a store that is there for one test.
type memory struct {
	mu       sync.Mutex
	revision int64
	entries  map[string]coordination.Entry
	// broken is returned instead of writing.
	broken error
}

type session struct {
	id    string
	store *memory
	lost  chan struct{}
}

func (s *session) ID() string            { return s.id }
func (s *session) Lost() <-chan struct{} { return s.lost }
func (s *session) Close(context.Context) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	maps.DeleteFunc(s.store.entries, func(_ string, e coordination.Entry) bool { return e.Session == s.id })
	return nil
}

func within(key, path string) bool { return key == path || strings.HasPrefix(key, path+"/") }

func (m *memory) Read(_ context.Context, paths ...string) (*coordination.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := &coordination.Snapshot{Revision: m.revision, Entries: map[string]coordination.Entry{}}
	for key, entry := range m.entries {
		if slices.ContainsFunc(paths, func(path string) bool { return within(key, path) }) {
			found.Entries[key] = entry
		}
	}
	return found, nil
}

func (m *memory) Commit(_ context.Context, t coordination.Transaction) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return 0, m.broken
	}
	for _, c := range t.If {
		if c.Path == "" && m.entries[c.Key].Version != c.Version {
			return 0, coordination.ErrConflict
		}
		for key, entry := range m.entries {
			if c.Path != "" && within(key, c.Path) && entry.Version > c.Since {
				return 0, coordination.ErrConflict
			}
		}
	}
	m.revision++
	for _, o := range t.Then {
		switch {
		case o.Delete:
			maps.DeleteFunc(m.entries, func(key string, _ coordination.Entry) bool { return key == o.Key || o.Below && within(key, o.Key) })
		default:
			m.entries[o.Key] = coordination.Entry{Value: o.Value, Version: m.revision, Session: o.Session}
		}
	}
	return m.revision, nil
}

func (m *memory) Watch(ctx context.Context, _ string) <-chan struct{} {
	changed := make(chan struct{})
	context.AfterFunc(ctx, func() { close(changed) })
	return changed
}

func (m *memory) Open(_ context.Context, name string, _ time.Duration) (coordination.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	return &session{id: fmt.Sprint(name, m.revision), store: m, lost: make(chan struct{})}, nil
}

// calls are what was asked of an agent or a system, one a line.
type calls struct{ made []string }

func (c *calls) note(format string, args ...any) {
	c.made = append(c.made, fmt.Sprintf(format, args...))
}

// fakeAgent notes what it is told, and may refuse it.
type fakeAgent struct {
	calls
	members []agent.Member
	refuses error
}

func (f *fakeAgent) Members(context.Context) ([]agent.Member, error) { return f.members, nil }

func (f *fakeAgent) Prepare(_ context.Context, id, _ string) (agent.Member, error) {
	f.note("prepare %s", id)
	return agent.Member{ID: id}, f.refuses
}

func (f *fakeAgent) SetArgs(_ context.Context, id string, args map[string]string) (agent.Member, error) {
	f.note("args %s %v", id, args)
	return agent.Member{ID: id}, f.refuses
}

func (f *fakeAgent) SetVersion(_ context.Context, id, version string) (agent.Member, error) {
	f.note("version %s %s", id, version)
	return agent.Member{ID: id}, f.refuses
}

func (f *fakeAgent) Start(_ context.Context, id string, _ agent.Order, launch agent.Launch) (agent.Member, error) {
	f.note("start %s %s", id, launch.State)
	return agent.Member{ID: id}, f.refuses
}

func (f *fakeAgent) Restart(_ context.Context, id string, _ agent.Order) (agent.Member, error) {
	f.note("restart %s", id)
	return agent.Member{ID: id}, f.refuses
}

func (f *fakeAgent) Delete(_ context.Context, id string, _ agent.Order) error {
	f.note("delete %s", id)
	return f.refuses
}

// fakeSystem notes what is done to it.
type fakeSystem struct {
	calls
	state *system.State
	fails error
}

func (f *fakeSystem) State(context.Context) (*system.State, error) {
	if f.state == nil {
		return nil, system.ErrUnreachable
	}
	return f.state, nil
}

func (f *fakeSystem) AddLearner(_ context.Context, peerURL string) (system.ID, error) {
	f.note("add %s", peerURL)
	return 0, f.fails
}

func (f *fakeSystem) Promote(_ context.Context, id system.ID) error {
	f.note("promote %s", id)
	return f.fails
}

func (f *fakeSystem) MoveLeader(_ context.Context, from, to system.ID) error {
	f.note("move %s to %s", from, to)
	return f.fails
}

func (f *fakeSystem) Remove(_ context.Context, id system.ID) error {
	f.note("remove %s", id)
	return f.fails
}

func (f *fakeSystem) SetSeeds([]string)    {}
func (f *fakeSystem) SetCluster(system.ID) {}
func (f *fakeSystem) Endpoints() []string  { return nil }
func (f *fakeSystem) Close() error         { return nil }

// play is a place where operators meet without processes.
type play struct {
	*testing.T
	store *memory
	clock *clocktesting.FakePassiveClock
	// rounds are the present ones of the regions.
	rounds map[string]*round
}

// setting begins with operators of regions that take part, and what the system looks like.
func setting(t *testing.T, state *system.State, regions ...string) *play {
	t.Helper()
	p := &play{T: t, store: &memory{entries: map[string]coordination.Entry{}}, rounds: map[string]*round{}}
	p.clock = clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	for _, region := range regions {
		c, err := coordination.New(coordination.Options{Store: p.store, System: "orders", Name: region + "-operator", Clock: p.clock})
		p.must(err)
		cluster := &etcdclusterv1alpha1.EtcdCluster{}
		cluster.Name, cluster.Namespace, cluster.Generation = "orders", region, 1
		cluster.Spec.ProcessGroupIDPrefix, cluster.Spec.Members = etcdclusterv1alpha1.Prefix(region), 1
		cluster.Spec.AutomationOptions.SynchronizationMode = etcdclusterv1alpha1.SynchronizationGlobal
		p.rounds[region] = &round{part: &part{c: c, store: p.store, clock: p.clock}, cluster: cluster}
		p.must(c.Configure(t.Context(), coordination.Settings{Mode: coordination.Global, Prefix: region}))
	}
	for _, region := range regions {
		p.next(region, state)
	}
	return p
}

func (p *play) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// next is the next round of a region, which has seen the system and these processes. It has said nothing yet.
func (p *play) next(region string, state *system.State, own ...agent.Member) *round {
	p.Helper()
	last := p.rounds[region]
	r := &round{
		part: last.part, cluster: last.cluster, agent: &fakeAgent{members: own}, processes: processes(own...), state: state,
	}
	r.system = &fakeSystem{state: state}
	r.note = func(reason, message string) { p.Log(region, reason, message) }
	p.must(r.look(p.Context()))
	r.needs = decide(&r.cluster.Spec, r.processes, r.state, r.heard())
	p.rounds[region] = r
	return r
}

// says makes a region say what its members need, and nothing else.
func (p *play) says(region string, wants coordination.Wants) {
	p.Helper()
	r := p.rounds[region]
	view, err := r.c.View(p.Context())
	p.must(err)
	p.must(r.c.Declare(p.Context(), view, wants))
}

// wants are entries: a set and the members in it, by turns.
func wants(pairs ...any) coordination.Wants {
	all := coordination.Wants{}
	for i := 0; i < len(pairs); i += 2 {
		for id := range strings.FieldsSeq(pairs[i+1].(string)) {
			var addresses []string
			if set := pairs[i].(coordination.Set); set == coordination.ReadyForInclusion || set == coordination.ReadyForExclusion {
				addresses = append(addresses, "http://"+id)
			}
			all.Want(pairs[i].(coordination.Set), coordination.MemberID(id), addresses...)
		}
	}
	return all
}

// acts lets a region begin an action with steps, as it has planned them.
func (p *play) acts(region string, action coordination.Action, steps ...coordination.Step) {
	p.Helper()
	r := p.rounds[region]
	view, err := r.c.View(p.Context())
	p.must(err)
	grant, err := r.c.Begin(p.Context(), r.c.Judge(view, action, ""), steps)
	p.must(err)
	r.task = &task{grant: grant}
}

// told are the steps that are still to be done, the present one first.
func (p *play) told() string {
	p.Helper()
	view, err := coordination.Look(p.Context(), p.store, "", "orders")
	p.must(err)
	if view.Intent == nil {
		if len(view.Done) > 0 && view.Done[0].Failure != "" {
			return "given up: " + view.Done[0].Failure
		}
		return "done"
	}
	return brief(view.Intent.Steps[view.Intent.At:])
}

func brief(steps []coordination.Step) string {
	var words []string
	for _, step := range steps {
		words = append(words, step.Do+" "+string(step.Member))
	}
	return strings.Join(words, ", ")
}

func order(do string, id coordination.MemberID) coordination.Step {
	return coordination.Step{Do: do, Member: id, Order: true}
}

// answers lets a region say that it has carried out its order.
func (p *play) answers(region string, id coordination.MemberID, failure string) {
	p.Helper()
	r := p.rounds[region]
	view, err := r.c.View(p.Context())
	p.must(err)
	given := r.c.Order(view, id)
	if given == nil {
		p.Fatalf("%s has no order about %s: %s", region, id, p.told())
	}
	p.must(r.c.Answer(p.Context(), given, failure))
}

// goOnAfter is a policy that does not wait for ever.
func goOnAfter(r *round, after time.Duration) {
	r.cluster.Spec.AutomationOptions.Missing = etcdclusterv1alpha1.MissingGoOn
	r.cluster.Spec.AutomationOptions.GoOnAfter = &metav1.Duration{Duration: after}
}

// wait lets time pass.
func (p *play) wait(d time.Duration) { p.clock.SetTime(p.clock.Now().Add(d)) }

// three are members that are well, led by the first.
func three() *system.State { return agreed(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1")) }
