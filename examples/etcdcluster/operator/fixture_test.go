package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

var pendingForRestart, readyForRestart = Restart.Sets()

// memory is a store for one test.
type memory struct {
	mu       sync.Mutex
	revision int64
	entries  map[string]kv.Entry
	// broken is returned by Commit if it is set.
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
	maps.DeleteFunc(s.store.entries, func(_ string, e kv.Entry) bool { return e.Session == s.id })
	return nil
}

func within(key, path string) bool { return key == path || strings.HasPrefix(key, path+"/") }

func (m *memory) Read(_ context.Context, paths ...string) (*kv.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := &kv.Snapshot{Revision: m.revision, Entries: map[string]kv.Entry{}}
	for key, entry := range m.entries {
		if slices.ContainsFunc(paths, func(path string) bool { return within(key, path) }) {
			found.Entries[key] = entry
		}
	}
	return found, nil
}

func (m *memory) Commit(_ context.Context, t kv.Transaction) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return 0, m.broken
	}
	for _, c := range t.If {
		if c.Path == "" && m.entries[c.Key].Version != c.Version {
			return 0, kv.ErrConflict
		}
		for key, entry := range m.entries {
			if c.Path != "" && within(key, c.Path) && entry.Version > c.Since {
				return 0, kv.ErrConflict
			}
		}
	}
	m.revision++
	for _, o := range t.Then {
		switch {
		case o.Delete:
			maps.DeleteFunc(m.entries, func(key string, _ kv.Entry) bool { return key == o.Key || o.Below && within(key, o.Key) })
		default:
			m.entries[o.Key] = kv.Entry{Value: o.Value, Version: m.revision, Session: o.Session}
		}
	}
	return m.revision, nil
}

func (m *memory) Watch(ctx context.Context, _ string) <-chan struct{} {
	changed := make(chan struct{})
	context.AfterFunc(ctx, func() { close(changed) })
	return changed
}

func (m *memory) Open(_ context.Context, name string, _ time.Duration) (kv.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.revision++
	return &session{id: fmt.Sprint(name, m.revision), store: m, lost: make(chan struct{})}, nil
}

// calls are the calls of an agent or a system, one on each line.
type calls struct{ made []string }

func (c *calls) note(format string, args ...any) {
	c.made = append(c.made, fmt.Sprintf(format, args...))
}

// fakeAgent records the calls of an agent's client, and can refuse them.
type fakeAgent struct {
	*agent.Client
	calls
	members []agent.Member
	// refuses is the error for all calls. away is set when the agent does not answer.
	refuses, away error
	// seen is the highest token.
	seen int64
}

func newFakeAgent(t *testing.T, members ...agent.Member) *fakeAgent {
	t.Helper()
	f := &fakeAgent{members: members}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	var err error
	if f.Client, err = agent.NewClient(server.URL); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, operation, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/members"), "/"), "/")
	var in struct {
		agent.Order
		agent.Launch
		Version string            `json:"version"`
		Args    map[string]string `json:"args"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	var out any = agent.Member{ID: id}
	err := f.refuses
	switch r.Method + operation {
	case "GET":
		out, err = f.members, f.away
	case "PUT":
		f.note("prepare %s", id)
	case "PUTargs":
		f.note("args %s %v", id, in.Args)
	case "PUTversion":
		f.note("version %s %s", id, in.Version)
	case "POSTstart":
		f.note("start %s %s", id, in.State)
		err = f.carryOut(id, in.Order)
	case "POSTrestart":
		f.note("restart %s", id)
		err = f.carryOut(id, in.Order)
	case "DELETE":
		f.note("delete %s", id)
	}
	refused := &agent.RefusedError{}
	switch {
	case errors.As(err, &refused):
		w.WriteHeader(http.StatusConflict)
		out = refused
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

// carryOut carries out an order for a member, if the token is not older than the highest one.
func (f *fakeAgent) carryOut(id string, order agent.Order) error {
	if order.Token < f.seen {
		return &agent.RefusedError{Reason: agent.ReasonFenced, Seen: f.seen}
	}
	for i := range f.members {
		if m := &f.members[i]; m.ID == id && f.refuses == nil {
			m.LastOrder, m.Phase, m.Applied, m.AppliedVersion, m.Running = order.ID, agent.Running, m.Args, m.Version, true
		}
	}
	return f.refuses
}

// fakeSystem records the calls.
type fakeSystem struct {
	calls
	clientv3.Cluster
	state *system.State
	fails error
}

func (f *fakeSystem) State(context.Context, ...string) (*system.State, error) {
	if f.state == nil {
		return nil, system.ErrUnreachable
	}
	return f.state, nil
}

func (f *fakeSystem) MemberAddAsLearner(_ context.Context, peerURLs []string) (*clientv3.MemberAddResponse, error) {
	f.note("add %s", strings.Join(peerURLs, ","))
	return nil, f.fails
}

func (f *fakeSystem) MemberPromote(_ context.Context, id uint64) (*clientv3.MemberPromoteResponse, error) {
	f.note("promote %d", id)
	return nil, f.fails
}

func (f *fakeSystem) MoveLeader(_ context.Context, leader, to uint64) error {
	f.note("move %d to %d", leader, to)
	return f.fails
}

func (f *fakeSystem) MemberRemove(_ context.Context, id uint64) (*clientv3.MemberRemoveResponse, error) {
	f.note("remove %d", id)
	return nil, f.fails
}

func (f *fakeSystem) Close() error { return nil }

// process returns a member that the agent knows.
func process(id string, phase agent.Phase) agent.Member {
	return agent.Member{ID: id, Phase: phase, PeerURL: "http://" + id, Running: phase == agent.Running}
}

// changed returns a member that needs a restart and is ready for it.
func changed(id string) agent.Member {
	p := process(id, agent.Running)
	p.Applied = map[string]string{"old": "1"}
	return p
}

func processes(all ...agent.Member) map[string]agent.Member {
	found := map[string]agent.Member{}
	for _, p := range all {
		found[p.ID] = p
	}
	return found
}

// member returns a healthy member that the system knows.
func member(id uint64, name string) system.Member {
	return system.Member{ID: id, Name: name, PeerURLs: []string{"http://" + name}}
}

func learner(id uint64, name string) system.Member {
	m := member(id, name)
	m.Learner = true
	return m
}

func unhealthyMember(m system.Member) system.Member {
	m.Problem = "it does not answer"
	return m
}

func stateOf(members ...system.Member) *system.State {
	return &system.State{Leader: 1, Members: members}
}

// three returns healthy members; the first one is the leader.
func three() *system.State {
	return stateOf(member(1, "dc1-1"), member(2, "dc2-1"), member(3, "dc3-1"))
}

// fixture has operators without processes.
type fixture struct {
	*testing.T
	store *memory
	clock *clocktesting.FakeClock
	state *system.State
	// regions are the present regions, with the last result of each.
	regions map[string]*region
	agents  map[string]*fakeAgent
	results map[string]*coordination.Result
	notes   []string
}

// setting returns the operators of regions with one member each.
func setting(t *testing.T, state *system.State, regions ...string) *fixture {
	t.Helper()
	w := &fixture{
		T: t, store: &memory{entries: map[string]kv.Entry{}}, state: state, regions: map[string]*region{}, agents: map[string]*fakeAgent{}, results: map[string]*coordination.Result{},
		clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
	}
	for _, prefix := range regions {
		w.agents[prefix] = newFakeAgent(t, process(prefix+"-1", agent.Running))
		w.regions[prefix] = &region{participant: &participant{store: w.store}, agent: w.agents[prefix].Client}
		w.regions[prefix].cluster = &etcdclusterv1alpha1.EtcdCluster{}
		cluster := w.regions[prefix].cluster
		cluster.Name, cluster.Namespace, cluster.Generation = "orders", prefix, 1
		cluster.Spec.ProcessGroupIDPrefix, cluster.Spec.Members = etcdclusterv1alpha1.Prefix(prefix), 1
		cluster.Spec.AutomationOptions.SynchronizationMode = etcdclusterv1alpha1.SynchronizationGlobal
		cluster.Spec.AutomationOptions.QuietWindow = &metav1.Duration{}
		w.process(prefix)
	}
	return w
}

// process starts another process of an operator.
func (w *fixture) process(prefix string) {
	w.Helper()
	c, err := coordination.New(coordination.Options{Store: w.store, System: "orders", Name: prefix + "-operator", Actions: actions, Clock: w.clock})
	w.must(err)
	w.regions[prefix].Coordinator = c
}

func (w *fixture) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// next returns the next reconcile of a region, before it has observed anything.
func (w *fixture) next(prefix string) *region {
	last := w.regions[prefix]
	r := &region{participant: last.participant, cluster: last.cluster, agent: last.agent}
	r.system = &fakeSystem{state: w.state}
	r.reporter = func(_ bool, reason, message string) { w.notes = append(w.notes, prefix+" "+reason+": "+message) }
	w.regions[prefix] = r
	return r
}

// reconcile reconciles regions in turn, the given number of times.
func (w *fixture) reconcile(times int, prefixes ...string) {
	w.Helper()
	for range times {
		for _, prefix := range prefixes {
			r := w.next(prefix)
			result, err := r.Reconcile(w.Context(), r.settings(), r)
			w.must(err)
			for _, happened := range result.Events {
				r.reporter(happened.IsWarning(), happened.Reason, happened.Message)
			}
			w.results[prefix] = result
		}
	}
}

// observedRegion returns a region that has observed the system and the declared needs, and has done nothing.
func (w *fixture) observedRegion(prefix string) *region {
	w.Helper()
	r := w.next(prefix)
	if _, err := r.Needs(w.Context(), w.view()); w.state != nil {
		w.must(err)
	}
	return r
}

func (w *fixture) agent(prefix string) *fakeAgent { return w.agents[prefix] }

func (w *fixture) view() *coordination.View {
	w.Helper()
	view, err := coordination.ReadView(w.Context(), w.store, "", "orders")
	w.must(err)
	return view
}

// describeSteps returns steps as text.
func describeSteps(steps []coordination.Step) string {
	var words []string
	for _, step := range steps {
		words = append(words, step.String())
	}
	return strings.Join(words, ", ")
}

func found(r *region, kind string) metav1.Condition {
	for _, c := range r.cluster.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}
