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
	// Scenes wait for Leases most of the time, so there can be far more of them than cores.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	rig.Main(m, options)
}

// scene is a ring with its shards and a user who never rests. What happens is recorded.
type scene struct {
	*rig.Rig
	*WithT
	t      *testing.T
	ring   *shardingv1alpha1.ControllerRing
	seed   uint64
	random *rand.Rand
	// ringName is that of the namespace by default.
	ringName string
	// objectName makes the name of an object from a short one.
	objectName func(string) string
	// suffix is what this ring's operator appends to the names of children, suffixes are those of all operators that
	// work on the objects.
	suffix   string
	suffixes []string

	folder   string
	recorder *history.Recorder
	records  []string // the files of the shards
	members  []*member
	user     *user
	byHand   map[history.Object]bool
}

// member is a process that is a shard, or wants to be.
type member struct {
	*rig.Running
	name, id, record string
	// ends is whether it is meant to.
	ends bool
}

// setScene makes a ring and begins to record.
func setScene(t *testing.T, r *rig.Rig, change ...func(*scene)) *scene {
	t.Helper()
	s := &scene{
		Rig: r, WithT: patient(t), t: t, folder: rig.TempDir(t), byHand: map[history.Object]bool{},
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

// writes is the file with what the test records.
func (s *scene) writes() string { return filepath.Join(s.folder, "writes") }

// declare makes the ring.
func (s *scene) declare() {
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

func (s *scene) watch() {
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
func (s *scene) launch(name string, change ...func(*rig.Process)) *member {
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
	m := &member{Running: s.Start(s.t, process), name: name, record: record}
	m.id = processID(name, m.PID())
	s.members = append(s.members, m)
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

// join starts a shard and waits until it is one.
func (s *scene) join(name string, change ...func(*rig.Process)) *member {
	s.t.Helper()
	m := s.launch(name, change...)
	s.joined(m)
	return m
}

func (s *scene) joined(m *member) {
	s.t.Helper()
	s.Eventually(func() bool {
		events, err := history.Read(m.record)
		return err == nil && slices.ContainsFunc(events, func(e history.Event) bool { return e.What == history.Joined })
	}).Should(BeTrue(), "%s joins", m.name)
}

func (s *scene) record(what history.What, m *member) {
	s.recorder.Record(history.Event{What: what, Process: m.id, Shard: m.name})
}

func (s *scene) kill(m *member) {
	s.t.Helper()
	m.ends = true
	s.Expect(m.Kill()).To(Succeed())
}

// end waits for the end of a process, which is asked for or expected.
func (s *scene) end(m *member) error {
	s.t.Helper()
	m.ends = true
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	return m.Wait(ctx)
}

func (s *scene) pause(m *member) {
	s.t.Helper()
	s.Expect(m.Pause()).To(Succeed())
	s.record(history.Paused, m)
}

func (s *scene) resume(m *member) {
	s.t.Helper()
	s.record(history.Resumed, m)
	s.Expect(m.Resume()).To(Succeed())
}

// seen are the events that the test itself has recorded.
func (s *scene) seen() []history.Event {
	events, err := history.Read(s.writes())
	s.Expect(err).NotTo(HaveOccurred())
	return events
}

// holder is the holder of a shard's Lease, or "" if nobody holds it or it is gone.
func (s *scene) holder(name string) string {
	holder := ""
	for _, event := range s.seen() {
		if event.What == history.Leased && event.Lease.Shard == name {
			holder = event.Lease.Holder
			if event.Lease.Deleted {
				holder = ""
			}
		}
	}
	return holder
}

// owned counts the objects of a shard.
func (s *scene) owned(shard string) int {
	owners := map[history.Object]string{}
	for _, event := range s.seen() {
		if event.What == history.Wrote {
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

// drains counts the objects that shards have been asked to let go since a time.
func (s *scene) drains(since time.Time) int {
	n := 0
	for _, event := range s.seen() {
		if event.What == history.Wrote && event.Write.Draining && event.Time.After(since) {
			n++
		}
	}
	return n
}

// number is the content of an object or its child.
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

// children are what the operators make for an object.
func (s *scene) children(main *history.Write) map[history.Object]string {
	children := map[history.Object]string{}
	for _, suffix := range s.suffixes {
		children[history.Object{Kind: "Secret", Namespace: main.Object.Namespace, Name: main.Object.Name + suffix}] = main.Content
	}
	return children
}

// bounds are how long things may take in a scene. Those that are zero have the usual value.
type bounds struct{ unowned, apart, settle, delay time.Duration }

// webhookDelay is how long a request may wait for the webhook of one ring: its timeout of 1 s, and as much again for a
// busy machine.
const webhookDelay = 2 * time.Second

// How long things take that do not depend on Leases, at most twice what was measured: until an object is assigned whose
// name is generated, which no webhook can do, and until children follow their owner.
const assignGenerated, followOwner = 2 * time.Second, 2 * time.Second

// requestsPerMove is how many requests a change of owner needs after each other, from the list to the watch event. On a
// busy machine each can take as long as a reference request.
const requestsPerMove = 10

// tolerance is for what is not promised in time: how late processes may see what others have written.
const tolerance = 20 * time.Second

// expiry is how long an object is without owner when a shard dies: its Lease has to expire, and a tenth of it to go by.
const expiry = leaseDuration + leaseDuration/10

// usual is what is allowed when a shard dies.
func usual() bounds { return bounds{unowned: expiry + 10*time.Second, apart: followOwner} }

// undisturbed is what is allowed when none does.
func undisturbed() bounds { return bounds{unowned: assignGenerated, apart: followOwner} }

func (s *scene) judgement(b bounds) oracle.Options {
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

// judge lets everything come to rest and looks at what has happened. The members are those that are
// to be left.
func (s *scene) judge(b bounds, members ...string) oracle.Report {
	s.t.Helper()
	s.user.rest()
	s.rest(b, members)
	s.user.end()
	quiet := oracle.Window{From: time.Now()}
	const rest = 4 * time.Second
	time.Sleep(rest)
	quiet.To = time.Now()
	options := s.judgement(b)
	options.Quiet = quiet
	return s.verdict(options)
}

// verdict has the oracle read what was recorded.
func (s *scene) verdict(options oracle.Options) oracle.Report {
	s.t.Helper()
	events, err := history.Read(append(s.records, s.writes())...)
	s.Expect(err).NotTo(HaveOccurred())
	report := oracle.Check(events, options)
	s.t.Log(report.Figures)
	s.tell(report.Violations, events)
	for _, m := range s.members {
		if !m.ends && !m.Process.Running() {
			s.t.Errorf("%s ended although nobody asked it to", m.id)
		}
	}
	return report
}

// tell says what was violated, with a few cases of each rule and what had happened in the first.
func (s *scene) tell(violations []oracle.Violation, events []history.Event) {
	s.t.Helper()
	const most = 5
	told := map[oracle.Rule]int{}
	for _, violation := range violations {
		told[violation.Rule]++
		if told[violation.Rule] == 1 {
			s.t.Log(s.happened(violation, events))
		}
		if told[violation.Rule] <= most {
			s.t.Error(violation)
		}
	}
	for rule, n := range told {
		if n > most {
			s.t.Errorf("%s: %d in all", rule, n)
		}
	}
}

// happened is what is recorded of an object and its family around a violation, and of all processes
// and members.
func (s *scene) happened(violation oracle.Violation, events []history.Event) string {
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

// rest waits until the members are those that are left, all objects are where they belong, and nobody
// writes any more.
func (s *scene) rest(b bounds, members []string) {
	s.t.Helper()
	const still = 2 * time.Second
	s.Eventually(func() []string {
		now := time.Now() // reading the record can take longer than that
		events := s.seen()
		for _, event := range slices.Backward(events) {
			if event.What == history.Wrote && now.Sub(event.Time) < still && !event.Write.Renewal && event.Write.Object.Name != s.user.reference() {
				return []string{"writes, the last of " + event.Write.Object.String()}
			}
		}
		report := oracle.Check(events, s.judgement(b))
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
