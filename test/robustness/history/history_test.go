package history_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/test/robustness/history"
)

func TestMain(m *testing.M) {
	rig.Main(m, rig.Options{Programs: map[string]rig.Program{"scribe": scribe}})
}

const testTimeout = rig.Timeout

// scribe records events as fast as possible, and prints their number after each one.
func scribe(ctx context.Context) error {
	recorder, err := history.NewRecorder(os.Getenv("RECORD"), time.Now)
	if err != nil {
		return err
	}
	for n := int64(1); ctx.Err() == nil; n++ {
		recorder.Record(history.Event{Type: history.Started, Reconcile: &history.Reconcile{Number: n}})
		fmt.Println(n)
	}
	return recorder.Close()
}

// TestKilledProcessLosesNoEvents that it has printed.
func TestKilledProcessLosesNoEvents(t *testing.T) {
	g := NewWithT(t)
	r := rig.Shared(t)
	path := filepath.Join(rig.TempDir(t), "record")
	p := r.Start(t, rig.Process{Name: "scribe", Program: "scribe", Env: []string{"RECORD=" + path}})
	g.Eventually(func() string { return p.Tail(1) }, testTimeout).ShouldNot(BeEmpty())
	g.Expect(p.Kill()).To(Succeed())
	log, err := os.ReadFile(p.Log)
	g.Expect(err).NotTo(HaveOccurred())
	// The last line may be incomplete. The one before it was printed.
	lines := strings.Split(string(log), "\n")
	g.Expect(len(lines)).To(BeNumerically(">", 1))
	parsed, err := strconv.Atoi(lines[len(lines)-2])
	g.Expect(err).NotTo(HaveOccurred())

	events, err := history.Read(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(events)).To(BeNumerically(">=", parsed))
	for i, event := range events {
		if event.Reconcile.Number != int64(i+1) {
			t.Fatalf("event %d is %+v", i, event)
		}
	}
}

func TestRead(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	path := filepath.Join(folder, "recorded")
	now := at.Add(time.Second)
	recorder, err := history.NewRecorder(path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	recorder.Record(history.Event{Type: history.Joined, Process: "a/1", Shard: "a"})
	now = at.Add(3 * time.Second)
	recorder.Record(history.Event{Type: history.Left, Process: "a/1", Shard: "a"})
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	torn := write("torn", `{"time":"2026-01-01T00:00:02Z","what":"gone","process":"b/2"}`+"\n"+`{"time":"2026-01-`)

	events, err := history.Read(torn, path)
	if err != nil {
		t.Fatal(err)
	}
	want := []history.Event{
		{Time: at.Add(time.Second), Type: history.Joined, Process: "a/1", Shard: "a"},
		{Time: at.Add(2 * time.Second), Type: history.Gone, Process: "b/2"},
		{Time: at.Add(3 * time.Second), Type: history.Left, Process: "a/1", Shard: "a"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	if _, err := history.Read(write("wrong", "{}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("an invalid line: %v", err)
	}
	if _, err := history.Read(filepath.Join(folder, "missing")); err == nil {
		t.Error("a missing record was read")
	}
}

// TestWatcherRecordsWrites of an API server, also after its restart.
func TestWatcherRecordsWrites(t *testing.T) {
	g := NewWithT(t)
	r := rig.Private(t, rig.Options{})
	path := filepath.Join(rig.TempDir(t), "record")
	recorder, err := history.NewRecorder(path, time.Now)
	g.Expect(err).NotTo(HaveOccurred())
	dynamicClient, err := dynamic.NewForConfig(r.Config)
	g.Expect(err).NotTo(HaveOccurred())
	watcher := &history.Watcher{Client: dynamicClient, Recorder: recorder, Ring: "ring", Namespace: r.Namespace}

	// An object that is created without fields has no field managers.
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: "owner"}, Data: map[string]string{"some": "thing"}}
	g.Expect(r.Client.Create(t.Context(), owner)).To(Succeed())

	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	g.Expect(watcher.Watch(ctx, corev1.SchemeGroupVersion.WithResource("configmaps"), &done)).To(Succeed())
	g.Expect(watcher.Watch(ctx, history.Leases, &done)).To(Succeed())
	events := func() []history.Event {
		events, err := history.Read(path)
		g.Expect(err).NotTo(HaveOccurred())
		return events
	}

	const shardLabel, drainLabel = "shard.alpha.sharding.timebertt.dev/ring", "drain.alpha.sharding.timebertt.dev/ring"
	label := func(content string) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":`+content+`}}`))
		g.Expect(r.Client.Patch(t.Context(), owner, patch, client.FieldOwner("somebody"))).To(Succeed())
	}
	label(`{"` + shardLabel + `":"a"}`)
	label(`{"` + drainLabel + `":"b"}`)
	yes := true
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.Namespace, Name: "child",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: &yes}},
	}}
	g.Expect(r.Client.Create(t.Context(), child)).To(Succeed())
	holder, renewed := "a", metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: "a", Labels: map[string]string{"alpha.sharding.timebertt.dev/controllerring": "ring"},
			Annotations: map[string]string{"ringmaster.sharding.timebertt.dev/instance": "x", "ringmaster.sharding.timebertt.dev/leaving": "true"},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
	}
	g.Expect(r.Client.Create(t.Context(), lease)).To(Succeed())
	other := lease.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Namespace: r.Namespace, Name: "of-another-ring"}
	g.Expect(r.Client.Create(t.Context(), other)).To(Succeed())
	g.Eventually(events, testTimeout).Should(HaveLen(5))

	g.Expect(r.APIServer.Kill()).To(Succeed())
	g.Expect(r.APIServer.Start(t.Context())).To(Succeed())
	g.Expect(r.Client.Delete(t.Context(), child)).To(Succeed())
	g.Expect(r.Client.Delete(t.Context(), lease)).To(Succeed())
	g.Eventually(events, testTimeout).Should(HaveLen(7))
	cancel()
	done.Wait()

	object := func(name string) history.Object {
		return history.Object{Kind: "ConfigMap", Namespace: r.Namespace, Name: name}
	}
	ownerObject := object("owner")
	writes := []history.Write{
		{Object: ownerObject},
		{Object: ownerObject, Shard: "a", Manager: "somebody"},
		{Object: ownerObject, Shard: "a", Manager: "somebody", Draining: true, Destination: "b"},
		{Object: object("child"), Controller: &ownerObject},
		{Object: object("child"), Controller: &ownerObject, Deleted: true},
	}
	var recorded []history.Write
	var leases []history.Lease
	last := map[history.Object]uint64{}
	for _, event := range events() {
		switch event.Type {
		case history.Wrote:
			g.Expect(event.Write.UID).NotTo(BeEmpty())
			g.Expect(event.Write.Version).To(BeNumerically(">", last[event.Write.Object]))
			last[event.Write.Object] = event.Write.Version
			recorded = append(recorded, *event.Write)
		case history.Leased:
			leases = append(leases, *event.Lease)
		}
	}
	if diff := cmp.Diff(writes, recorded, cmpopts.IgnoreFields(history.Write{}, "UID", "Version", "Listed")); diff != "" {
		t.Error(diff)
	}
	g.Expect(recorded[0].Listed).To(BeTrue())
	g.Expect(leases).To(HaveLen(2))
	want := history.Lease{Shard: "a", Holder: "a", Instance: "x", Leaving: true, Renewed: renewed.UTC()}
	if diff := cmp.Diff(want, leases[0], cmpopts.IgnoreFields(history.Lease{}, "Version"), cmpopts.EquateApproxTime(time.Microsecond)); diff != "" {
		t.Error(diff)
	}
	g.Expect(leases[0].Held()).To(BeTrue())
	g.Expect(leases[1].Held()).To(BeFalse())
}
