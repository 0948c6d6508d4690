package robustness_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/seed"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
	"github.com/ringmaster-project/ringmaster/test/robustness/oracle"
)

var options = rig.Options{
	CRDs:     []string{"config/crds"},
	Programs: map[string]rig.Program{"operator": operator},
}

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	// Scenarios mostly wait for Leases, so more can run than there are cores.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	rig.Main(m, options)
}

// scenario is a ring with its shards and a user. It records a history.
type scenario struct {
	*rig.Rig
	*WithT
	t      *testing.T
	ring   *shardingv1alpha1.ControllerRing
	seed   uint64
	random *rand.Rand
	// ringName is the name of the namespace by default.
	ringName string
	// objectName returns the full name of an object for a short one.
	objectName func(string) string
	// suffix is what this ring's operator appends to the names of children, and suffixes are those of all operators that
	// reconcile the objects.
	suffix   string
	suffixes []string

	folder    string
	recorder  *history.Recorder
	records   []string // the files of the shards
	processes []*shardProcess
	user      *user
	byHand    map[history.Object]bool
}

// shardProcess is a process that joins the ring.
type shardProcess struct {
	*rig.Running
	name, id, record string
	// endExpected is whether the test ends it.
	endExpected bool
}

// newScenario creates a ring and starts to record.
func newScenario(t *testing.T, r *rig.Rig, change ...func(*scenario)) *scenario {
	t.Helper()
	s := &scenario{
		Rig: r, WithT: newGomega(t), t: t, folder: rig.TempDir(t), byHand: map[history.Object]bool{},
		seed: seed.ForRun(t), random: seed.Rand(t),
		ringName: r.Namespace, objectName: func(name string) string { return name }, suffixes: []string{""},
	}
	for _, c := range change {
		c(s)
	}
	var err error
	s.recorder, err = history.NewRecorder(s.writes(), time.Now)
	s.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = s.recorder.Close() })
	s.watch()
	s.declare()
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), s.ring) })
	s.user = newUser(s)
	return s
}

// writes returns the path of the test's record.
func (s *scenario) writes() string { return filepath.Join(s.folder, "writes") }

// declare creates the ring.
func (s *scenario) declare() {
	s.t.Helper()
	s.ring = &shardingv1alpha1.ControllerRing{
		ObjectMeta: metav1.ObjectMeta{Name: s.ringName},
		Spec: shardingv1alpha1.ControllerRingSpec{
			Resources: []shardingv1alpha1.RingResource{{
				GroupResource:       shardingv1alpha1.GroupResource{Resource: "configmaps"},
				ControlledResources: []shardingv1alpha1.GroupResource{{Resource: "secrets"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.Namespace}},
			ShardNamespaces:   []string{s.Namespace},
		},
	}
	s.Expect(s.Client.Create(s.t.Context(), s.ring)).To(Succeed())
}

func (s *scenario) watch() {
	s.t.Helper()
	client, err := dynamic.NewForConfig(s.Config)
	s.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	s.t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	objects := &history.Watcher{Client: client, Recorder: s.recorder, Ring: s.ringName, Namespace: s.Namespace, Content: number}
	ring := &history.Watcher{Client: client, Recorder: s.recorder, Ring: s.ringName}
	for resource, watcher := range map[schema.GroupVersionResource]*history.Watcher{
		corev1.SchemeGroupVersion.WithResource("configmaps"): objects,
		corev1.SchemeGroupVersion.WithResource("secrets"):    objects,
		history.Leases: objects,
		shardingv1alpha1.SchemeGroupVersion.WithResource("controllerrings"): ring,
	} {
		s.Expect(watcher.Watch(ctx, resource, &done)).To(Succeed())
	}
}

// launch starts a shard and does not wait for it.
func (s *scenario) launch(name string, change ...func(*rig.Process)) *shardProcess {
	s.t.Helper()
	record := filepath.Join(s.folder, fmt.Sprint("shard-", len(s.records)))
	s.records = append(s.records, record)
	process := rig.Process{
		Name: name, ServiceAccount: "operator", Program: "operator",
		Roles: []string{"test/robustness/testdata/operator-role.yaml"},
		Env: []string{
			variableRing + "=" + s.ring.Name, variableRecord + "=" + record, variableSuffix + "=" + s.suffix,
			fmt.Sprint(seed.Variable, "=", s.seed),
		},
	}
	for _, c := range change {
		c(&process)
	}
	m := &shardProcess{Running: s.Start(s.t, process), name: name, record: record}
	m.id = processID(name, m.PID())
	s.processes = append(s.processes, m)
	var noted sync.WaitGroup
	noted.Go(func() {
		<-m.Done()
		s.record(history.Gone, m)
	})
	s.t.Cleanup(func() {
		_ = m.Kill()
		noted.Wait()
	})
	return m
}

// join starts a shard and waits until it has joined.
func (s *scenario) join(name string, change ...func(*rig.Process)) *shardProcess {
	s.t.Helper()
	m := s.launch(name, change...)
	s.waitForJoin(m)
	return m
}

func (s *scenario) waitForJoin(m *shardProcess) {
	s.t.Helper()
	s.Eventually(func() bool {
		events, err := history.Read(m.record)
		return err == nil && slices.ContainsFunc(events, func(e history.Event) bool { return e.Type == history.Joined })
	}).Should(BeTrue(), "%s joins", m.name)
}

func (s *scenario) record(eventType history.EventType, m *shardProcess) {
	s.recorder.Record(history.Event{Type: eventType, Process: m.id, Shard: m.name})
}

func (s *scenario) kill(m *shardProcess) {
	s.t.Helper()
	m.endExpected = true
	s.Expect(m.Kill()).To(Succeed())
}

// end waits for a process to end, and returns its exit error.
func (s *scenario) end(m *shardProcess) error {
	s.t.Helper()
	m.endExpected = true
	ctx, cancel := context.WithTimeout(s.t.Context(), testTimeout)
	defer cancel()
	return m.Wait(ctx)
}

func (s *scenario) pause(m *shardProcess) {
	s.t.Helper()
	s.Expect(m.Pause()).To(Succeed())
	s.record(history.Paused, m)
}

func (s *scenario) resume(m *shardProcess) {
	s.t.Helper()
	s.record(history.Resumed, m)
	s.Expect(m.Resume()).To(Succeed())
}

// recordedEvents returns the events that the test itself has recorded.
func (s *scenario) recordedEvents() []history.Event {
	events, err := history.Read(s.writes())
	s.Expect(err).NotTo(HaveOccurred())
	return events
}

// holder returns the holder of a shard's Lease, or "" if there is none.
func (s *scenario) holder(name string) string {
	holder := ""
	for _, event := range s.recordedEvents() {
		if event.Type == history.Leased && event.Lease.Shard == name {
			holder = event.Lease.Holder
			if event.Lease.Deleted {
				holder = ""
			}
		}
	}
	return holder
}

// owned counts the objects of a shard.
func (s *scenario) owned(shard string) int {
	owners := map[history.Object]string{}
	for _, event := range s.recordedEvents() {
		if event.Type == history.Wrote {
			owners[event.Write.Object] = event.Write.Shard
			if event.Write.Deleted {
				delete(owners, event.Write.Object)
			}
		}
	}
	n := 0
	for _, owner := range owners {
		if owner == shard {
			n++
		}
	}
	return n
}

// drains counts the objects that have been drained since a time.
func (s *scenario) drains(since time.Time) int {
	n := 0
	for _, event := range s.recordedEvents() {
		if event.Type == history.Wrote && event.Write.Draining && event.Time.After(since) {
			n++
		}
	}
	return n
}

// number returns the content of an object or its child.
func number(object *unstructured.Unstructured) string {
	content, _, _ := unstructured.NestedString(object.Object, "data", "number")
	if object.GetKind() == "Secret" {
		decoded, err := base64.StdEncoding.DecodeString(content)
		if err != nil {
			return err.Error()
		}
		return string(decoded)
	}
	return content
}

// children returns the expected children of an object.
func (s *scenario) children(main *history.Write) map[history.Object]string {
	children := map[history.Object]string{}
	for _, suffix := range s.suffixes {
		children[history.Object{Kind: "Secret", Namespace: main.Object.Namespace, Name: main.Object.Name + suffix}] = main.Content
	}
	return children
}

// bounds are the maximum durations in a scenario. Zero values mean the defaults.
type bounds struct{ unowned, apart, settle, delay time.Duration }

// webhookDelay is the maximum time that a request waits for the webhook of one ring: its timeout of 1 s, doubled for a
// busy machine.
const webhookDelay = 2 * time.Second

// The maximum durations that do not depend on Leases, at most twice the measured ones: until an object with a generated
// name is assigned, and until children follow their controller.
const assignGenerated, followOwner = 2 * time.Second, 2 * time.Second

// requestsPerMove is the number of sequential requests of a move, from the list to the watch event. On a busy machine,
// each can take as long as a reference request.
const requestsPerMove = 10

// tolerance is the maximum delay with which processes observe writes, which is not promised.
const tolerance = 20 * time.Second

// expiry is the time without owner after the death of a shard: until its Lease expires, and the grace period of a tenth.
const expiry = leaseDuration + leaseDuration/10

// afterDeath returns the bounds when a shard dies.
func afterDeath() bounds { return bounds{unowned: expiry + 10*time.Second, apart: followOwner} }

// withoutDeath returns the bounds when no shard dies.
func withoutDeath() bounds { return bounds{unowned: assignGenerated, apart: followOwner} }

func (s *scenario) oracleOptions(b bounds) oracle.Options {
	return oracle.Options{
		Main:       []schema.GroupKind{{Kind: "ConfigMap"}},
		Controlled: []schema.GroupKind{{Kind: "Secret"}},
		Namespace:  s.Namespace,
		Sharder:    "sharder",
		Staleness:  tolerance, ByHand: s.byHand,
		Lag: tolerance / 2, Wake: tolerance / 2, Settle: cmp.Or(b.settle, tolerance),
		Unowned: b.unowned, Apart: b.apart, Steps: requestsPerMove, Delay: cmp.Or(b.delay, webhookDelay), Children: s.children,
	}
}

// checkHistory waits until the scenario is idle with the given members, and checks its history.
func (s *scenario) checkHistory(b bounds, members ...string) oracle.Report {
	s.t.Helper()
	s.user.stopWork()
	s.waitUntilIdle(b, members)
	s.user.close()
	quiet := oracle.Window{From: time.Now()}
	const rest = 4 * time.Second
	time.Sleep(rest)
	quiet.To = time.Now()
	options := s.oracleOptions(b)
	options.Quiet = quiet
	return s.check(options)
}

// check checks the recorded history with the oracle.
func (s *scenario) check(options oracle.Options) oracle.Report {
	s.t.Helper()
	events, err := history.Read(append(s.records, s.writes())...)
	s.Expect(err).NotTo(HaveOccurred())
	report := oracle.Check(events, options)
	s.t.Log(report.Figures)
	s.reportViolations(report.Violations, events)
	for _, m := range s.processes {
		if !m.endExpected && !m.Process.Running() {
			s.t.Errorf("%s ended unexpectedly", m.id)
		}
	}
	return report
}

// reportViolations reports a few violations of each rule, with the events around the first one.
func (s *scenario) reportViolations(violations []oracle.Violation, events []history.Event) {
	s.t.Helper()
	const maxReported = 5
	reported := map[oracle.Rule]int{}
	for _, violation := range violations {
		reported[violation.Rule]++
		if reported[violation.Rule] == 1 {
			s.t.Log(s.eventsAround(violation, events))
		}
		if reported[violation.Rule] <= maxReported {
			s.t.Error(violation)
		}
	}
	for rule, n := range reported {
		if n > maxReported {
			s.t.Errorf("%s: %d in total", rule, n)
		}
	}
}

// eventsAround returns the events of an object and its children around a violation, and those of all processes and
// members.
func (s *scenario) eventsAround(violation oracle.Violation, events []history.Event) string {
	const around = 5 * time.Second
	var lines []string
	for _, event := range events {
		if event.Time.Before(violation.From.Add(-around)) || event.Time.After(violation.To.Add(around)) {
			continue
		}
		switch {
		case event.Reconcile != nil && event.Reconcile.Object.Name == violation.Object.Name,
			event.Write != nil && event.Write.Object.Name == violation.Object.Name,
			event.Lease != nil,
			event.Reconcile == nil && event.Write == nil && event.Request == nil:
			line, err := json.Marshal(event)
			s.Expect(err).NotTo(HaveOccurred())
			lines = append(lines, string(line))
		}
	}
	return strings.Join(lines, "\n")
}

// waitUntilIdle waits until the ring has the given members, all objects have the right owners, and nothing is written
// any more.
func (s *scenario) waitUntilIdle(b bounds, members []string) {
	s.t.Helper()
	const still = 2 * time.Second
	s.Eventually(func() []string {
		now := time.Now() // before the record is read, which can take long
		events := s.recordedEvents()
		for _, event := range slices.Backward(events) {
			if event.Type == history.Wrote && now.Sub(event.Time) < still && !event.Write.Renewal && event.Write.Object.Name != s.user.reference() {
				return []string{"writes, the last of " + event.Write.Object.String()}
			}
		}
		report := oracle.Check(events, s.oracleOptions(b))
		var reasons []string
		if last := report.Figures.Changes[len(report.Figures.Changes)-1]; !slices.Equal(last.After, members) {
			reasons = append(reasons, "the change "+last.String())
		}
		for _, violation := range report.Violations {
			if violation.Rule == oracle.EndState || violation.Rule == oracle.Content {
				reasons = append(reasons, violation.String())
			}
		}
		return reasons
	}).WithPolling(time.Second / 2).Should(BeEmpty())
}
