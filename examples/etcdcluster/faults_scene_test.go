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

// scene is a world in which things go wrong, one after the other, while a client writes.
type scene struct {
	*world
	system *system.System
	met    kv.Store // where the operators meet
	writer *writer
	arg    int

	mu    sync.Mutex
	last  *view
	hooks map[*hook]struct{}
	// grants are as they were seen, and wrong is what should not have been.
	grants grants
	wrong  []string
}

// hook does something at the moment that the operators say something.
type hook struct {
	at    func(*view) bool
	do    func(*view)
	fired chan *view
}

// faulty are the options of a world in which things go wrong: dead operators are missed soon.
func faulty() options {
	return options{
		mode: etcdclusterv1alpha1.SynchronizationGlobal, quiet: time.Second, args: []string{"--session-duration=2s"},
	}
}

// play lets things go wrong in a world.
func play(t *testing.T, w *world, acts []act) {
	t.Helper()
	s := &scene{world: w, hooks: map[*hook]struct{}{}, grants: grants{}, arg: 10_000}
	connection, err := system.Dial(w.endpoints())
	w.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = connection.Close() })
	s.system = connection
	s.follow(t)
	s.writer = w.write()
	probes := w.probe(t)
	outer := w.WithT
	for _, a := range acts {
		if !t.Run(a.name, func(t *testing.T) {
			w.WithT = NewWithT(t)
			w.SetDefaultEventuallyTimeout(patience)
			w.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
			defer func(begin time.Time) { t.Logf("it took %s", time.Since(begin).Round(time.Millisecond)) }(time.Now())
			a.do(s)
		}) {
			w.WithT = outer
			t.FailNow() // the world is not what the others expect
		}
	}
	w.WithT = outer
	s.writer.check()
	s.checkOrders()
	if !w.accidents {
		probes.mu.Lock()
		defer probes.mu.Unlock()
		t.Logf("members were asked %d times whether they serve, and were down %d times", probes.asked, len(probes.downs))
		w.Expect(probes.downs).NotTo(BeEmpty())
		w.Expect(besides(w.allOrders(), probes.downs)).To(BeEmpty())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Expect(s.wrong).To(BeEmpty())
	w.Expect(w.lines("DATA RACE")).To(BeEmpty())
}

// act is something that goes wrong. It leaves a world in which all is well.
type act struct {
	name string
	do   func(*scene)
}

// follow looks at what the operators say as soon as they have said it.
func (s *scene) follow(t *testing.T) {
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
	s.met = store
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		// Not all that a hook looks at is said by the operators.
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		changed := store.Watch(ctx, coordination.DefaultRoot+"/"+clusterName)
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
				s.see(nil)
			case <-changed:
				if view, err := coordination.ReadView(ctx, store, "", clusterName); err == nil {
					s.see(view)
				}
			}
		}
	})
	t.Cleanup(func() { stop(); ended.Wait() })
	s.Eventually(s.now).ShouldNot(BeNil())
}

// see notes a view, if there is a new one, and does what was to be done at this moment.
func (s *scene) see(view *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if view != nil && (s.last == nil || view.Revision >= s.last.Revision) {
		if lock := view.Lock; lock != nil {
			s.wrong = append(s.wrong, s.grants.note(lock)...)
		}
		s.last = view
	}
	for h := range s.hooks {
		if s.last != nil && h.at(s.last) {
			delete(s.hooks, h)
			h.do(s.last)
			h.fired <- s.last
		}
	}
}

// now is what was seen last.
func (s *scene) now() *view {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// look is what the operators say now.
func (s *scene) look() *view {
	s.t.Helper()
	var view *view
	s.Eventually(func() (err error) {
		view, err = coordination.ReadView(context.Background(), s.met, "", clusterName)
		return err
	}).Should(Succeed())
	return view
}

// seen is how the system is, or nil if it does not say.
func (s *scene) seen() *system.State {
	state, err := s.system.State(context.Background())
	if err != nil {
		return nil
	}
	return state
}

// led is how the system is when somebody leads it.
func (s *scene) led() *system.State {
	s.t.Helper()
	var state *system.State
	s.Eventually(func() bool {
		if state = s.seen(); state == nil {
			return false
		}
		leader, known := state.Member(state.Leader)
		return known && leader.Name != ""
	}).Should(BeTrue(), "nobody leads")
	return state
}

// leader is the name of the member that leads.
func (s *scene) leader() string {
	s.t.Helper()
	state := s.led()
	leader, _ := state.Member(state.Leader)
	return leader.Name
}

// when does something at a moment, at once if it is one now. What is done must not look at the scene.
func (s *scene) when(at func(*view) bool, do func(*view)) *hook {
	h := &hook{at: at, do: do, fired: make(chan *view, 1)}
	s.mu.Lock()
	s.hooks[h] = struct{}{}
	s.mu.Unlock()
	s.see(nil)
	return h
}

// wait returns the view of the moment.
func (s *scene) wait(h *hook) *view {
	s.t.Helper()
	var view *view
	s.Eventually(h.fired).Should(Receive(&view), func() string { return "what was seen last: " + describe(s.now()) })
	return view
}

// until waits for a moment.
func (s *scene) until(at func(*view) bool) *view {
	s.t.Helper()
	return s.wait(s.when(at, func(*view) {}))
}

func describe(view *view) string {
	content, err := json.Marshal(view)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// held tells whether somebody goes on with an intent.
func held(v *view) bool {
	return v.Intent != nil && v.Lock != nil && v.Lock.Token == v.Intent.Token
}

// present is the step that is to be done, if any.
func present(v *view) *coordination.Step {
	if v.Intent == nil || v.Intent.StepIndex >= len(v.Intent.Steps) {
		return nil
	}
	return &v.Intent.Steps[v.Intent.StepIndex]
}

// answered tells whether the present step was answered.
func answered(v *view) bool {
	step := present(v)
	if step == nil {
		return false
	}
	answer, given := v.Answers[step.Member()]
	return given && answer.Done && answer.Intent == v.Intent.ID && answer.Step == v.Intent.StepIndex
}

// of is the region of an operator.
func (s *scene) of(operator string) *region {
	for _, r := range s.regions {
		if r.prefix+"-operator" == operator {
			return r
		}
	}
	return nil
}

// owner is the region of a member.
func (s *scene) owner(id coordination.MemberID) *region {
	for _, r := range s.regions {
		if strings.HasPrefix(string(id), r.prefix+"-") {
			return r
		}
	}
	return nil
}

// others are the regions but for some.
func (s *scene) others(but ...*region) []*region {
	return slices.DeleteFunc(slices.Clone(s.regions), func(r *region) bool { return slices.Contains(but, r) })
}

// change gives all members an argument that they have to be restarted for.
func (s *scene) change() {
	s.t.Helper()
	s.editAll(s.next())
}

// next is an argument that no member has had.
func (s *scene) next() func(*spec) {
	s.arg++
	return setArg(strconv.Itoa(s.arg))
}

// members asks the agent of a region.
func (r *region) members() []agent.Member {
	r.w.t.Helper()
	client, err := agent.NewClient("http://" + r.address)
	r.w.Expect(err).NotTo(HaveOccurred())
	members, err := client.Members(r.w.t.Context())
	r.w.Expect(err).NotTo(HaveOccurred())
	return members
}

// member asks the agent of a region about one.
func (r *region) member(id coordination.MemberID) agent.Member {
	r.w.t.Helper()
	for _, m := range r.members() {
		if m.ID == string(id) {
			return m
		}
	}
	return agent.Member{}
}

// again starts another process of a region's operator, after the end of the one before.
func (r *region) again() {
	r.w.t.Helper()
	r.w.Expect(r.operator.Kill()).To(Succeed())
	r.startOperator()
}

// order is one that an agent has carried out.
type order struct {
	TS     time.Time
	Msg    string
	Member string
	System string
	Order  string
	Token  int64
	// Until is when it had been carried out. It is not set of one that failed, or that its agent has not survived.
	Until time.Time `json:"-"`
}

// does tells what an order was about. The others are <system>/<intent>/<step>/<what>.
func (o order) does() string { return o.Order[strings.LastIndex(o.Order, "/")+1:] }

// orders are all that the agent of a region has carried out.
func (r *region) orders() []order {
	r.w.t.Helper()
	content, err := os.ReadFile(r.agent.Log)
	r.w.Expect(err).NotTo(HaveOccurred())
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

// disturbed counts how often members were restarted on order.
func (w *world) disturbed() map[string]int {
	w.t.Helper()
	times := map[string]int{}
	for _, r := range w.regions {
		for _, o := range r.orders() {
			if o.does() == "restart" && o.System == w.cluster {
				times[o.Member]++
			}
		}
	}
	return times
}

// since is what was disturbed in addition.
func (w *world) since(before map[string]int) map[string]int {
	w.t.Helper()
	now := w.disturbed()
	for id, times := range before {
		if now[id] -= times; now[id] == 0 {
			delete(now, id)
		}
	}
	return now
}

// once is when members were restarted once each.
func once(ids ...string) map[string]int {
	times := map[string]int{}
	for _, id := range ids {
		times[id] = 1
	}
	return times
}

// checkOrders looks at all that agents have done.
func (s *scene) checkOrders() {
	s.t.Helper()
	for _, r := range s.regions {
		s.Expect(wrongOrders(r.orders())).To(BeEmpty(), r.prefix)
	}
	s.Expect(overlaps(s.allOrders())).To(BeEmpty())
}

// allOrders are those of all agents.
func (w *world) allOrders() (all []order) {
	w.t.Helper()
	for _, r := range w.regions {
		all = append(all, r.orders()...)
	}
	return all
}
