package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/agent"
	etcdclusterv1alpha1 "github.com/ringmaster-project/ringmaster/examples/etcdcluster/api/v1alpha1"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/operator"
	"github.com/ringmaster-project/ringmaster/examples/etcdcluster/system"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

type (
	spec = etcdclusterv1alpha1.EtcdClusterSpec
	view = coordination.View
)

var pendingForRestart, readyForRestart = operator.Restart.Sets()

// faultTest is a fixture in which faults are injected, one after the other, while a client writes.
type faultTest struct {
	*fixture
	system            *system.System
	coordinationStore kv.Store // the store that the operators share
	writer            *writer
	lastArg           int

	mu     sync.Mutex
	latest *view
	hooks  map[*hook]struct{}
	// grants are the observed grants of the lock, violations what must not happen.
	grants     grants
	violations []string
}

// hook runs a function as soon as a view matches.
type hook struct {
	matches func(*view) bool
	run     func(*view)
	fired   chan *view
}

// faultOptions are the options of a fixture with faults: dead operators are noticed soon.
func faultOptions() options {
	return options{
		mode: etcdclusterv1alpha1.SynchronizationGlobal, quiet: time.Second, args: []string{"--session-duration=2s"},
	}
}

// runFaults injects faults into a fixture.
func runFaults(t *testing.T, w *fixture, acts []faultCase) {
	t.Helper()
	s := &faultTest{fixture: w, hooks: map[*hook]struct{}{}, grants: grants{}, lastArg: 10_000}
	connection, err := system.Dial(w.endpoints())
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = connection.Close() })
	s.system = connection
	s.watchStore(t)
	s.writer = w.startWriter()
	probes := w.startProbes(t)
	outer := w.WithT
	for _, a := range acts {
		if !t.Run(a.name, func(t *testing.T) {
			w.WithT = NewWithT(t)
			w.SetDefaultEventuallyTimeout(timeout)
			w.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
			defer func(begin time.Time) { t.Logf("duration: %s", time.Since(begin).Round(time.Millisecond)) }(time.Now())
			a.run(s)
		}) {
			w.WithT = outer
			t.FailNow() // the fixture is not in the state that the other cases expect
		}
	}
	w.WithT = outer
	s.writer.check()
	s.checkOrders()
	if !w.membersMayFail {
		probes.mu.Lock()
		defer probes.mu.Unlock()
		t.Logf("%d probes of members, %d downtimes", probes.asked, len(probes.downs))
		w.Expect(probes.downs).NotTo(BeEmpty())
		w.Expect(restartsWhileDown(w.allOrders(), probes.downs)).To(BeEmpty())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Expect(s.violations).To(BeEmpty())
	w.Expect(w.logLines("DATA RACE")).To(BeEmpty())
}

// faultCase is a fault. It leaves a healthy fixture.
type faultCase struct {
	name string
	run  func(*faultTest)
}

// watchStore observes each change of the coordination.
func (s *faultTest) watchStore(t *testing.T) {
	t.Helper()
	store := s.store
	if store == nil {
		client, err := clientv3.New(clientv3.Config{
			Endpoints: s.endpoints(), Logger: zap.NewNop(), AutoSyncInterval: time.Second,
			DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		})
		s.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = client.Close() })
		store = etcdstore.New(client, etcdstore.Options{Timeout: time.Second})
	}
	s.coordinationStore = store
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		// Some conditions of hooks are not about the store.
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		changed := store.Watch(ctx, coordination.DefaultRoot+"/"+clusterName)
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				s.observe(nil)
			case <-changed:
				if view, err := coordination.ReadView(ctx, store, "", clusterName); err == nil {
					s.observe(view)
				}
			}
		}
	})
	t.Cleanup(func() { stop(); ended.Wait() })
	s.Eventually(s.latestView).ShouldNot(BeNil())
}

// observe records a view, if it is new, and runs the matching hooks.
func (s *faultTest) observe(view *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if view != nil && (s.latest == nil || view.Revision >= s.latest.Revision) {
		if lock := view.Lock; lock != nil {
			s.violations = append(s.violations, s.grants.record(lock)...)
		}
		s.latest = view
	}
	for h := range s.hooks {
		if s.latest != nil && h.matches(s.latest) {
			delete(s.hooks, h)
			h.run(s.latest)
			h.fired <- s.latest
		}
	}
}

// latestView returns the latest observed view.
func (s *faultTest) latestView() *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// readView reads the state of the coordination.
func (s *faultTest) readView() *view {
	s.t.Helper()
	var view *view
	s.Eventually(func() (err error) {
		view, err = coordination.ReadView(context.Background(), s.coordinationStore, "", clusterName)
		return err
	}).Should(Succeed())
	return view
}

// trySystemState returns the state of the system, or nil if it does not answer.
func (s *faultTest) trySystemState() *system.State {
	state, err := s.system.State(context.Background())
	if err != nil {
		return nil
	}
	return state
}

// awaitLeader waits until the system has a leader, and returns the state.
func (s *faultTest) awaitLeader() *system.State {
	s.t.Helper()
	var state *system.State
	s.Eventually(func() bool {
		if state = s.trySystemState(); state == nil {
			return false
		}
		leader, known := state.Member(state.Leader)
		return known && leader.Name != ""
	}).Should(BeTrue(), "no leader")
	return state
}

// leaderName returns the name of the leader.
func (s *faultTest) leaderName() string {
	s.t.Helper()
	state := s.awaitLeader()
	leader, _ := state.Member(state.Leader)
	return leader.Name
}

// onView runs a function as soon as a view matches, which may be now. The function must not call the faultTest.
func (s *faultTest) onView(at func(*view) bool, do func(*view)) *hook {
	h := &hook{matches: at, run: do, fired: make(chan *view, 1)}
	s.mu.Lock()
	s.hooks[h] = struct{}{}
	s.mu.Unlock()
	s.observe(nil)
	return h
}

// await waits until a hook has run, and returns the matching view.
func (s *faultTest) await(h *hook) *view {
	s.t.Helper()
	var view *view
	s.Eventually(h.fired).Should(Receive(&view), func() string { return "latest view: " + describe(s.latestView()) })
	return view
}

// awaitView waits for a matching view.
func (s *faultTest) awaitView(at func(*view) bool) *view {
	s.t.Helper()
	return s.await(s.onView(at, func(*view) {}))
}

func describe(view *view) string {
	content, err := json.Marshal(view)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// isHeld reports whether a participant carries out the intent.
func isHeld(v *view) bool {
	return v.Intent != nil && v.Lock != nil && v.Lock.Token == v.Intent.Token
}

// currentStep returns the current step, or nil.
func currentStep(v *view) *coordination.Step {
	if v.Intent == nil || v.Intent.StepIndex >= len(v.Intent.Steps) {
		return nil
	}
	return &v.Intent.Steps[v.Intent.StepIndex]
}

// isAnswered reports whether the current step was answered.
func isAnswered(v *view) bool {
	step := currentStep(v)
	if step == nil {
		return false
	}
	answer, given := v.Answers[step.Member()]
	return given && answer.Done && answer.Intent == v.Intent.ID && answer.Step == v.Intent.StepIndex
}

// operatorRegion returns the region of an operator.
func (s *faultTest) operatorRegion(operator string) *region {
	for _, r := range s.regions {
		if r.prefix+"-operator" == operator {
			return r
		}
	}
	return nil
}

// memberRegion returns the region of a member.
func (s *faultTest) memberRegion(id coordination.MemberID) *region {
	for _, r := range s.regions {
		if strings.HasPrefix(string(id), r.prefix+"-") {
			return r
		}
	}
	return nil
}

// otherRegions returns all regions except some.
func (s *faultTest) otherRegions(but ...*region) []*region {
	return slices.DeleteFunc(slices.Clone(s.regions), func(r *region) bool { return slices.Contains(but, r) })
}

// changeArgs changes an argument for which all members have to be restarted.
func (s *faultTest) changeArgs() {
	s.t.Helper()
	s.editAll(s.newArg())
}

// newArg returns a change to a value that no member has had.
func (s *faultTest) newArg() func(*spec) {
	s.lastArg++
	return setArg(strconv.Itoa(s.lastArg))
}

// members returns the members from the agent of a region.
func (r *region) members() []agent.Member {
	r.f.t.Helper()
	client, err := agent.NewClient("http://" + r.address)
	r.f.Expect(err).NotTo(HaveOccurred())
	members, err := client.Members(r.f.t.Context())
	r.f.Expect(err).NotTo(HaveOccurred())
	return members
}

// member returns a member from the agent of a region.
func (r *region) member(id coordination.MemberID) agent.Member {
	r.f.t.Helper()
	for _, m := range r.members() {
		if m.ID == string(id) {
			return m
		}
	}
	return agent.Member{}
}

// restartOperator kills the operator of a region and starts another process of it.
func (r *region) restartOperator() {
	r.f.t.Helper()
	r.f.Expect(r.operator.Kill()).To(Succeed())
	r.startOperator()
}

// order is an order that an agent has carried out.
type order struct {
	TS     time.Time
	Msg    string
	Member string
	System string
	Order  string
	Token  int64
	// Until is when the order was done. It is not set if the order failed, or if the agent died.
	Until time.Time `json:"-"`
}

// operation returns the operation of an order, whose ID is <system>/<intent>/<step>/<operation>.
func (o order) operation() string { return o.Order[strings.LastIndex(o.Order, "/")+1:] }

// orders returns all orders that the agent of a region has carried out.
func (r *region) orders() []order {
	r.f.t.Helper()
	content, err := os.ReadFile(r.agent.Log)
	r.f.Expect(err).NotTo(HaveOccurred())
	var all []order
	for line := range strings.Lines(string(content)) {
		var o order
		if json.Unmarshal([]byte(line), &o) != nil {
			continue
		}
		switch o.Msg {
		case "Carrying out an order":
			all = append(all, o)
		case "Carried out an order": // an agent carries out one at a time
			all[len(all)-1].Until = o.TS
		}
	}
	return all
}

// restartCounts returns how often each member was restarted by an order.
func (w *fixture) restartCounts() map[string]int {
	w.t.Helper()
	times := map[string]int{}
	for _, r := range w.regions {
		for _, o := range r.orders() {
			if o.operation() == "restart" && o.System == w.cluster {
				times[o.Member]++
			}
		}
	}
	return times
}

// restartsSince returns the difference to former counts.
func (w *fixture) restartsSince(before map[string]int) map[string]int {
	w.t.Helper()
	now := w.restartCounts()
	for id, times := range before {
		if now[id] -= times; now[id] == 0 {
			delete(now, id)
		}
	}
	return now
}

// onceEach returns the counts of members that were restarted once each.
func onceEach(ids ...string) map[string]int {
	times := map[string]int{}
	for _, id := range ids {
		times[id] = 1
	}
	return times
}

// checkOrders checks all orders that the agents have carried out.
func (s *faultTest) checkOrders() {
	s.t.Helper()
	for _, r := range s.regions {
		s.Expect(invalidOrders(r.orders())).To(BeEmpty(), r.prefix)
	}
	s.Expect(overlappingOrders(s.allOrders())).To(BeEmpty())
}

// allOrders returns the orders of all agents.
func (w *fixture) allOrders() (all []order) {
	w.t.Helper()
	for _, r := range w.regions {
		all = append(all, r.orders()...)
	}
	return all
}
