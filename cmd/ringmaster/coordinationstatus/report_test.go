package coordinationstatus_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus/coordinationtest"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

var update = flag.Bool("update", false, "rewrite testdata")

// regions are participants that share a real etcd.
type regions struct {
	t     *testing.T
	store kv.Store
	clock *clocktesting.FakePassiveClock
	all   map[string]*coordinationtest.Region
}

func joinRegions(t *testing.T, prefixes ...string) *regions {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{rig.Etcd(t, 1)[0].Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its etcd may be gone
	r := &regions{
		t: t, store: etcdstore.New(client, etcdstore.Options{}), all: map[string]*coordinationtest.Region{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
	}
	for _, prefix := range prefixes {
		r.all[prefix] = coordinationtest.Join(t, r.store, coordinationtest.System, prefix, r.clock)
		r.all[prefix].Settings.Generation = 3
		r.all[prefix].Reconcile()
	}
	return r
}

func (r *regions) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *regions) report() *coordinationstatus.Report {
	r.t.Helper()
	view, err := coordination.ReadView(r.t.Context(), r.store, "", coordinationtest.System)
	r.must(err)
	return coordinationstatus.Of(r.clock.Now(), "etcd", view)
}

var (
	revision = regexp.MustCompile(`revision \d+`)
	versions = regexp.MustCompile(`(?m)( {3,})\d+$`)
)

// expectOutput compares the output with a file in testdata.
func (r *regions) expectOutput(name string, format status.Format) {
	r.t.Helper()
	var got bytes.Buffer
	r.must(r.report().Write(&got, format, false))
	shown := got.String()
	if format == status.Wide { // revisions differ between runs
		shown = versions.ReplaceAllString(revision.ReplaceAllString(shown, "revision N"), "${1}N")
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		r.must(os.WriteFile(path, []byte(shown), 0o600))
	}
	want, err := os.ReadFile(path)
	r.must(err)
	if diff := cmp.Diff(string(want), shown); diff != "" {
		r.t.Errorf("%s: if the new output is correct, run the test with -update:\n%s", name, diff)
	}
}

// expectSummary compares the summary, which the demo shows.
func (r *regions) expectSummary(want *coordinationstatus.Summary) {
	r.t.Helper()
	got := r.report().Systems[0].Summary()
	if diff := cmp.Diff(want, &got); diff != "" {
		r.t.Error(diff)
	}
}

func (r *regions) after(d time.Duration) { r.clock.SetTime(r.clock.Now().Add(d)) }

func restart(id string) coordination.Step {
	return coordination.Step{Do: "restart", Members: []coordination.MemberID{coordination.MemberID(id)}, Order: true}
}

// TestRestartFromBeginningToEnd reports a restart in several regions, from before its beginning until its end.
func TestRestartFromBeginningToEnd(t *testing.T) {
	r := joinRegions(t, "dc1", "dc2", "dc3")
	r.expectOutput("idle", status.Table)
	r.all["dc1"].Need(coordinationtest.Restart, "dc1-1", true)
	r.all["dc2"].Need(coordinationtest.Restart, "dc2-1", false)
	r.expectOutput("waiting", status.Table)
	r.all["dc2"].Need(coordinationtest.Restart, "dc2-1", true)
	r.expectOutput("ready", status.Table)

	moveLeader := coordination.Step{Do: "move-leader", Members: []coordination.MemberID{"dc1-1"}}
	r.all["dc3"].Begin(coordinationtest.Restart, restart("dc1-1"), moveLeader, restart("dc2-1"))
	r.after(12 * time.Second)
	r.expectOutput("ordered", status.Table)
	r.all["dc1"].Reconcile()
	r.expectOutput("answered", status.Table)
	r.all["dc3"].Need(coordinationtest.Inclusion, "dc3-1", true, "http://dc3-1:2380")
	r.expectOutput("new-need", status.Wide)
	since := r.clock.Now().Add(-12 * time.Second)
	r.expectSummary(&coordinationstatus.Summary{
		Roles: map[string]string{
			"dc1-operator": "", "dc2-operator": "waits for step 3, restart dc2-1",
			"dc3-operator": "carries out the Restart, step 2 of 3; waits for the Inclusion of dc3-1",
		},
		Holder: "dc3-operator", Token: 1, Since: since,
		Plan: &coordinationstatus.PlanSummary{
			Action: "Restart of dc1-1, dc2-1", By: "dc3-operator", Since: since, At: 1,
			Steps: []coordinationstatus.StepSummary{{What: "restart dc1-1"}, {What: "move-leader dc1-1"}, {What: "restart dc2-1"}},
		},
		Pending: []coordinationstatus.PendingSummary{
			{Member: "dc3-1", Action: "Inclusion", State: "ready"},
			{Member: "dc1-1", Action: "Restart", State: "being done"},
			{Member: "dc2-1", Action: "Restart", State: "being done"},
		},
		Waits: []string{"Inclusion waits for dc3-operator: its Restart is not done yet.", "Restart is being done."},
	})

	r.all["dc3"].Reconcile()
	r.all["dc2"].Reconcile()
	r.all["dc3"].Reconcile()
	r.after(time.Minute)
	r.expectOutput("done", status.Table)
	if got, want := r.report().Systems[0].Summary().Done, "Restart of dc1-1, dc2-1, by dc3-operator with token 1, done after 12s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDeadParticipants reports the entries of participants that have died: the holder of the lock, and one with a need.
func TestDeadParticipants(t *testing.T) {
	r := joinRegions(t, "dc1", "dc2", "dc3")
	r.all["dc2"].Need(coordinationtest.Exclusion, "dc2-1", true, "http://dc2-1:2380")
	r.all["dc2"].Need(coordinationtest.Removal, "dc2-1", false)
	r.all["dc3"].Need(coordinationtest.Restart, "dc3-1", false)
	const attack = "stop\n\x1b[2J"
	r.all["dc1"].Begin(coordinationtest.Exclusion, coordination.Step{Do: attack, Members: []coordination.MemberID{"dc2-1"}, Order: true})
	r.all["dc3"].Settings.Denied = []string{"dc2-operator"}
	r.all["dc3"].Reconcile()
	r.must(r.all["dc1"].Close(t.Context()))
	r.must(r.all["dc3"].Close(t.Context()))
	r.expectOutput("dead", status.Table)
}

// TestJSONAndYAMLAreEqual decodes both formats.
func TestJSONAndYAMLAreEqual(t *testing.T) {
	r := joinRegions(t, "dc1")
	r.all["dc1"].Need(coordinationtest.Restart, "dc1-1", false)
	var text bytes.Buffer
	r.must(r.report().Write(&text, status.JSON, false))
	var got struct {
		Store   string
		Systems []struct {
			System    string
			Instances []coordination.Instance
			Sets      map[coordination.Set]coordination.Members
			Roles     []coordinationstatus.Role
			Actions   []coordinationstatus.Action
		}
	}
	r.must(json.Unmarshal(text.Bytes(), &got))
	one := got.Systems[0]
	if got.Store != "etcd" || one.System != coordinationtest.System || one.Instances[0].Name != "dc1-operator" || one.Sets["pendingForRestart"]["dc1-1"].Prefix != "dc1" {
		t.Errorf("got %s", text.String())
	}
	if diff := cmp.Diff([]coordination.WaitReason{{For: "dc1-1", Reason: "it is not ready"}}, one.Actions[0].Waits); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]coordinationstatus.Role{{Participant: "dc1-operator", Does: "makes dc1-1 ready for the Restart"}}, one.Roles); diff != "" {
		t.Error(diff)
	}
	var asYAML bytes.Buffer
	r.must(r.report().Write(&asYAML, status.YAML, false))
	converted, err := yaml.YAMLToJSON(asYAML.Bytes())
	r.must(err)
	if !jsonEqual(t, text.Bytes(), converted) {
		t.Errorf("JSON:\n%s\nYAML:\n%s", text.String(), asYAML.String())
	}
}

func jsonEqual(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		t.Fatal("invalid JSON")
	}
	return cmp.Equal(x, y)
}
