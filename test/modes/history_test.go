package modes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

// line is what counts of a line in an instance's log.
type line struct {
	Time      time.Time `json:"ts"`
	Message   string    `json:"msg"`
	Instance  string    `json:"instance"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	ID        string    `json:"id"`
}

// reconciles are those that an instance has written of, in its order.
func (m *instance) reconciles() ([]history.Event, error) {
	content, err := os.ReadFile(m.Log)
	if err != nil {
		return nil, err
	}
	var events []history.Event
	numbers := map[string]int64{}
	for text := range bytes.Lines(content) {
		if text[0] != '{' || text[len(text)-1] != '\n' { // somebody else's, or cut off by its death
			continue
		}
		var read line
		if err := json.Unmarshal(text, &read); err != nil {
			return nil, fmt.Errorf("reading a line of %s: %w: %s", m.name, err, text)
		}
		what, known := map[string]history.What{"Reconcile begins": history.Started, "Reconcile ends": history.Ended}[read.Message]
		if !known {
			continue
		}
		if read.Instance != m.name || read.ID == "" || read.Name == "" {
			return nil, fmt.Errorf("%s has written a line that does not tell who did what: %s", m.name, text)
		}
		if numbers[read.ID] == 0 {
			numbers[read.ID] = int64(len(numbers) + 1)
		}
		events = append(events, history.Event{
			Time: read.Time, What: what, Process: m.id, Shard: m.name,
			Reconcile: &history.Reconcile{
				Number: numbers[read.ID],
				Object: history.Object{Group: website.Group, Kind: website.Kind, Namespace: read.Namespace, Name: read.Name},
			},
		})
	}
	return events, nil
}

// seen are the events that the test has recorded.
func (s *scene) seen() []history.Event {
	events, err := history.Read(s.writes())
	s.Expect(err).NotTo(HaveOccurred())
	return events
}

// worked are the reconciles of all instances, in the order of time.
func (s *scene) worked() []history.Event {
	s.mu.Lock()
	members := slices.Clone(s.members)
	s.mu.Unlock()
	var all []history.Event
	for _, m := range members {
		events, err := m.reconciles()
		s.Expect(err).NotTo(HaveOccurred())
		all = append(all, events...)
	}
	slices.SortStableFunc(all, byTime)
	return all
}

func byTime(a, b history.Event) int { return a.Time.Compare(b.Time) }

// resting waits until nobody has begun to work on anything for a while.
func (s *scene) resting() {
	s.t.Helper()
	const still = time.Second
	s.Eventually(func() bool {
		events := s.worked()
		return len(events) == 0 || time.Since(events[len(events)-1].Time) > still
	}).Should(BeTrue())
}

// written are the writes that were seen.
func (s *scene) written() []history.Event {
	return slices.DeleteFunc(s.seen(), func(e history.Event) bool { return e.What != history.Wrote })
}

// seenAll waits until all that was written is seen.
func (s *scene) seenAll() {
	s.t.Helper()
	const still = 2 * time.Second
	s.Eventually(func() bool {
		events := s.written()
		return len(events) == 0 || time.Since(events[len(events)-1].Time) > still
	}).Should(BeTrue())
}

// margin is what is added to the times that follow from Leases, for a machine that is busy.
const margin = 20 * time.Second

// judge lets everything come to rest and looks at what has happened. Some rules may not count.
func (s *scene) judge(except ...oracle.Rule) {
	s.t.Helper()
	s.works()
	s.settled()
	s.resting()
	s.seenAll()
	count := len(s.written())
	s.Consistently(func() int { return len(s.written()) }, "3s", "500ms").Should(Equal(count), "nothing is written when there is nothing to do")
	events := slices.Concat(s.seen(), s.worked())
	slices.SortStableFunc(events, byTime)
	report := oracle.Check(events, oracle.Options{
		Main: []schema.GroupKind{website.GroupKind()}, Controlled: controlled, Sharder: "sharder",
		Lag: margin / 2, Wake: margin / 2, Settle: margin,
		// An object whose name was generated can wait for the sharder's next look. A sharder in the process that
		// dies has to be replaced before it can be missed.
		Unowned: 3*leaseDuration + 2*margin, Apart: margin,
	})
	s.t.Log(report.Figures)
	violations := slices.DeleteFunc(report.Violations, func(v oracle.Violation) bool {
		// Where nothing has a label nothing has an owner. What counts is who worked when, and held the Lease.
		return slices.Contains(except, v.Rule) || !s.mode.spread() && v.Rule != oracle.Overlap && v.Rule != oracle.NoLease
	})
	if !s.mode.spread() {
		s.onlyLeadersWork(events)
	}
	s.tell(violations, events)
	for _, m := range s.members {
		if !m.ends && !m.Running.Running() {
			s.t.Errorf("%s ended although nobody asked it to", m.id)
		}
	}
}

// tell says what was violated, and what had happened around the first case.
func (s *scene) tell(violations []oracle.Violation, events []history.Event) {
	s.t.Helper()
	const most, around = 10, 5 * time.Second
	for i, v := range violations {
		if i == most {
			s.t.Errorf("%d violations in all", len(violations))
			return
		}
		s.t.Error(v)
		if i > 0 {
			continue
		}
		for _, event := range events {
			of := event.Reconcile != nil && event.Reconcile.Object.Name == v.Object.Name ||
				event.Write != nil && strings.HasPrefix(event.Write.Object.Name, v.Object.Name) ||
				event.Reconcile == nil && event.Write == nil
			if of && event.Time.After(v.From.Add(-around)) && event.Time.Before(v.To.Add(around)) {
				text, err := json.Marshal(event)
				s.Expect(err).NotTo(HaveOccurred())
				s.t.Log(string(text))
			}
		}
	}
}

// onlyLeadersWork looks whether everybody who worked was the leader by then.
func (s *scene) onlyLeadersWork(events []history.Event) {
	s.t.Helper()
	led := map[string]time.Time{}
	for _, event := range events {
		if _, known := led[event.Process]; event.What == history.Joined && !known {
			led[event.Process] = event.Time
		}
	}
	for _, event := range events {
		// What is seen is seen later.
		if since, known := led[event.Process]; event.What == history.Started && (!known || event.Time.Add(margin/2).Before(since)) {
			s.t.Errorf("%s worked on %s without leading", event.Process, event.Reconcile.Object)
		}
	}
}

// watchLeader records the Lease of the leader, as if it were one of each instance's own that it has while
// it leads.
func (s *stage) watchLeader(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(s.Clientset, 0, informers.WithNamespace(s.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + s.mode.election }))
	informer := factory.Coordination().V1().Leases().Informer()
	leader := ""
	note := func(object any) {
		lease, is := object.(*coordinationv1.Lease)
		if !is {
			return
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		name, _, _ := strings.Cut(holder, "_")
		if name == leader {
			return
		}
		version, _ := strconv.ParseUint(lease.ResourceVersion, 10, 64)
		if leader != "" {
			s.recorder.Record(history.Event{What: history.Leased, Lease: &history.Lease{Shard: leader, Holder: name, Version: version}})
		}
		leader = name
		if m := s.member(name); m != nil {
			s.recorder.Record(history.Event{What: history.Leased, Lease: &history.Lease{Shard: name, Holder: name, Instance: holder, Version: version}})
			s.recorder.Record(history.Event{What: history.Joined, Process: m.id, Shard: name, Instance: holder})
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, object any) { note(object) }})
	informer.RunWithContext(ctx)
}

// member is the last instance of a name, or nil.
func (s *stage) member(name string) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range slices.Backward(s.members) {
		if m.name == name {
			return m
		}
	}
	return nil
}
