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

// line has the relevant fields of a line in an instance's log.
type line struct {
	Time      time.Time `json:"ts"`
	Message   string    `json:"msg"`
	Instance  string    `json:"instance"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	ID        string    `json:"id"`
}

// reconciles returns the reconciles that an instance has logged, in order.
func (m *instance) reconciles() ([]history.Event, error) {
	content, err := os.ReadFile(m.Log)
	if err != nil {
		return nil, err
	}
	var events []history.Event
	numbers := map[string]int64{}
	for text := range bytes.Lines(content) {
		if text[0] != '{' || text[len(text)-1] != '\n' { // of another library, or incomplete because the process was killed
			continue
		}
		var read line
		if err := json.Unmarshal(text, &read); err != nil {
			return nil, fmt.Errorf("reading a line of %s: %w: %s", m.name, err, text)
		}
		eventType, known := map[string]history.EventType{"Reconcile begins": history.Started, "Reconcile ends": history.Ended}[read.Message]
		if !known {
			continue
		}
		if read.Instance != m.name || read.ID == "" || read.Name == "" {
			return nil, fmt.Errorf("%s logged a line without the required fields: %s", m.name, text)
		}
		if numbers[read.ID] == 0 {
			numbers[read.ID] = int64(len(numbers) + 1)
		}
		events = append(events, history.Event{
			Time: read.Time, Type: eventType, Process: m.id, Shard: m.name,
			Reconcile: &history.Reconcile{
				Number: numbers[read.ID],
				Object: history.Object{Group: website.Group, Kind: website.Kind, Namespace: read.Namespace, Name: read.Name},
			},
		})
	}
	return events, nil
}

// recordedEvents returns the events that the test has recorded.
func (s *scenario) recordedEvents() []history.Event {
	events, err := history.Read(s.writes())
	s.Expect(err).NotTo(HaveOccurred())
	return events
}

// allReconciles returns the reconciles of all instances, ordered by time.
func (s *scenario) allReconciles() []history.Event {
	s.mu.Lock()
	members := slices.Clone(s.launched)
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

// waitUntilIdle waits until no reconcile has started for a while.
func (s *scenario) waitUntilIdle() {
	s.t.Helper()
	const still = time.Second
	s.Eventually(func() bool {
		events := s.allReconciles()
		return len(events) == 0 || time.Since(events[len(events)-1].Time) > still
	}).Should(BeTrue())
}

// recordedWrites returns the recorded writes.
func (s *scenario) recordedWrites() []history.Event {
	return slices.DeleteFunc(s.recordedEvents(), func(e history.Event) bool { return e.Type != history.Wrote })
}

// waitForRecord waits until all writes are recorded.
func (s *scenario) waitForRecord() {
	s.t.Helper()
	const still = 2 * time.Second
	s.Eventually(func() bool {
		events := s.recordedWrites()
		return len(events) == 0 || time.Since(events[len(events)-1].Time) > still
	}).Should(BeTrue())
}

// margin is added to the times that follow from Leases, for a busy machine.
const margin = 20 * time.Second

// checkHistory waits until the scenario is idle, and checks its history except for some rules.
func (s *scenario) checkHistory(except ...oracle.Rule) {
	s.t.Helper()
	s.waitForReconciles()
	s.waitForOwners()
	s.waitUntilIdle()
	s.waitForRecord()
	count := len(s.recordedWrites())
	s.Consistently(func() int { return len(s.recordedWrites()) }, "3s", "500ms").Should(Equal(count), "nothing is written when there is nothing to do")
	events := slices.Concat(s.recordedEvents(), s.allReconciles())
	slices.SortStableFunc(events, byTime)
	report := oracle.Check(events, oracle.Options{
		Main: []schema.GroupKind{website.GroupKind()}, Controlled: controlled, Sharder: "sharder",
		Lag: margin / 2, Wake: margin / 2, Settle: margin,
		// An object with a generated name can wait for the next rescue, and a dead in-process sharder has to be
		// replaced first.
		Unowned: 3*leaseDuration + 2*margin, Apart: margin,
	})
	s.t.Log(report.Figures)
	violations := slices.DeleteFunc(report.Violations, func(v oracle.Violation) bool {
		// Objects without labels have no owners: check only the reconciles and the Leases.
		return slices.Contains(except, v.Rule) || !s.mode.sharded() && v.Rule != oracle.Overlap && v.Rule != oracle.NoLease
	})
	if !s.mode.sharded() {
		s.onlyLeadersWork(events)
	}
	s.reportViolations(violations, events)
	for _, m := range s.launched {
		if !m.endExpected && !m.Running.Running() {
			s.t.Errorf("%s ended unexpectedly", m.id)
		}
	}
}

// reportViolations reports violations, with the events around the first one.
func (s *scenario) reportViolations(violations []oracle.Violation, events []history.Event) {
	s.t.Helper()
	const maxEvents, around = 10, 5 * time.Second
	for i, v := range violations {
		if i == maxEvents {
			s.t.Errorf("%d violations in total", len(violations))
			return
		}
		s.t.Error(v)
		if i > 0 {
			continue
		}
		for _, event := range events {
			concerns := event.Reconcile != nil && event.Reconcile.Object.Name == v.Object.Name ||
				event.Write != nil && strings.HasPrefix(event.Write.Object.Name, v.Object.Name) ||
				event.Reconcile == nil && event.Write == nil
			if concerns && event.Time.After(v.From.Add(-around)) && event.Time.Before(v.To.Add(around)) {
				text, err := json.Marshal(event)
				s.Expect(err).NotTo(HaveOccurred())
				s.t.Log(string(text))
			}
		}
	}
}

// onlyLeadersWork checks that only the leader reconciled.
func (s *scenario) onlyLeadersWork(events []history.Event) {
	s.t.Helper()
	led := map[string]time.Time{}
	for _, event := range events {
		if _, known := led[event.Process]; event.Type == history.Joined && !known {
			led[event.Process] = event.Time
		}
	}
	for _, event := range events {
		// The record of the Lease can be late.
		if since, known := led[event.Process]; event.Type == history.Started && (!known || event.Time.Add(margin/2).Before(since)) {
			s.t.Errorf("%s reconciled %s without leading", event.Process, event.Reconcile.Object)
		}
	}
}

// watchLeader records the Lease of the leader as if each instance had its own Lease while it leads.
func (s *environment) watchLeader(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(s.Clientset, 0, informers.WithNamespace(s.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + s.mode.election }))
	informer := factory.Coordination().V1().Leases().Informer()
	leader := ""
	note := func(object any) {
		lease, ok := object.(*coordinationv1.Lease)
		if !ok {
			return
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		name, _, _ := strings.Cut(holder, "_")
		if name == leader {
			return
		}
		version, _ := strconv.ParseUint(lease.ResourceVersion, 10, 64)
		if leader != "" {
			s.recorder.Record(history.Event{Type: history.Leased, Lease: &history.Lease{Shard: leader, Holder: name, Version: version}})
		}
		leader = name
		if m := s.instance(name); m != nil {
			s.recorder.Record(history.Event{Type: history.Leased, Lease: &history.Lease{Shard: name, Holder: name, Instance: holder, Version: version}})
			s.recorder.Record(history.Event{Type: history.Joined, Process: m.id, Shard: name, Instance: holder})
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, object any) { note(object) }})
	informer.RunWithContext(ctx)
}

// instance returns the last instance of a name, or nil.
func (s *environment) instance(name string) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range slices.Backward(s.launched) {
		if m.name == name {
			return m
		}
	}
	return nil
}
