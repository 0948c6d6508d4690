package coordination_test

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

	show "github.com/ringmaster-project/ringmaster/cmd/ringmaster/app/coordination"
	"github.com/ringmaster-project/ringmaster/internal/demo/view"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/etcdstore"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Options{}) }

var update = flag.Bool("update", false, "write testdata anew")

const system = "store"

// regions are instances that meet in a real etcd.
type regions struct {
	t     *testing.T
	store coordination.Store
	clock *clocktesting.FakePassiveClock
	all   map[string]*coordination.Coordinator
}

func meet(t *testing.T, prefixes ...string) *regions {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{rig.Etcd(t, 1)[0].Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its etcd may be gone
	r := &regions{
		t: t, store: etcdstore.New(client, etcdstore.Options{}), all: map[string]*coordination.Coordinator{},
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)),
	}
	for _, prefix := range prefixes {
		c, err := coordination.New(coordination.Options{Store: r.store, System: system, Name: prefix + "-operator", Session: time.Hour, Clock: r.clock})
		r.must(err)
		r.all[prefix] = c
		r.configure(prefix)
	}
	return r
}

func (r *regions) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *regions) configure(prefix string, denied ...string) {
	r.t.Helper()
	settings := coordination.Settings{Mode: coordination.Global, Prefix: prefix, Generation: 3, Denied: denied}
	r.must(r.all[prefix].Configure(r.t.Context(), settings))
}

// say enters a member into sets.
func (r *regions) say(prefix, id string, sets ...coordination.Set) {
	r.t.Helper()
	changes := map[coordination.Set]coordination.Updates{}
	for _, set := range sets {
		update := coordination.Add()
		if set == coordination.ReadyForInclusion || set == coordination.ReadyForExclusion {
			update = coordination.Add("http://" + id + ":2380")
		}
		changes[set] = coordination.Updates{coordination.MemberID(id): update}
	}
	r.must(r.all[prefix].Update(r.t.Context(), changes))
}

// begin lets an instance act.
func (r *regions) begin(prefix string, action coordination.Action, steps ...coordination.Step) *coordination.Grant {
	r.t.Helper()
	verdict, err := r.all[prefix].Check(r.t.Context(), action, "")
	r.must(err)
	grant, err := r.all[prefix].Begin(r.t.Context(), verdict, steps)
	r.must(err)
	return grant
}

func (r *regions) report() *show.Report {
	r.t.Helper()
	view, err := coordination.Look(r.t.Context(), r.store, "", system)
	r.must(err)
	return show.Of(r.clock.Now(), "etcd", view)
}

var (
	revision = regexp.MustCompile(`revision \d+`)
	versions = regexp.MustCompile(`(?m)( {3,})\d+$`)
)

// shows compares what a person sees with what they should.
func (r *regions) shows(name string, format status.Format) {
	r.t.Helper()
	var got bytes.Buffer
	r.must(r.report().Write(&got, format, false))
	shown := got.String()
	if format == status.Wide { // what the store counts is its own business
		shown = versions.ReplaceAllString(revision.ReplaceAllString(shown, "revision N"), "${1}N")
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		r.must(os.WriteFile(path, []byte(shown), 0o600))
	}
	want, err := os.ReadFile(path)
	r.must(err)
	if diff := cmp.Diff(string(want), shown); diff != "" {
		r.t.Errorf("%s: run the test with -update if that is right:\n%s", name, diff)
	}
}

// agrees compares what the live view shows with what it should.
func (r *regions) agrees(want *view.Agreement) {
	r.t.Helper()
	got := r.report().Systems[0].Agreement()
	if diff := cmp.Diff(want, &got); diff != "" {
		r.t.Error(diff)
	}
}

func (r *regions) after(d time.Duration) { r.clock.SetTime(r.clock.Now().Add(d)) }

func restart(id string) coordination.Step {
	return coordination.Step{Do: "restart", Members: []coordination.MemberID{coordination.MemberID(id)}, Order: true}
}

// TestRestart looks at a restart in all regions, from before its beginning until all have noticed its end.
func TestRestart(t *testing.T) {
	r := meet(t, "dc1", "dc2", "dc3")
	r.shows("calm", status.Table)
	r.say("dc1", "dc1-1", coordination.PendingForRestart, coordination.ReadyForRestart)
	r.say("dc2", "dc2-1", coordination.PendingForRestart)
	r.shows("waiting", status.Table)
	r.say("dc2", "dc2-1", coordination.ReadyForRestart)
	r.shows("ready", status.Table)

	grant := r.begin("dc3", coordination.Restart, restart("dc1-1"), coordination.Step{Do: "move-leader", Members: []coordination.MemberID{"dc1-1"}}, restart("dc2-1"))
	r.after(12 * time.Second)
	r.shows("ordered", status.Table)
	seen, err := r.all["dc1"].View(t.Context())
	r.must(err)
	order := r.all["dc1"].Order(seen, "dc1-1")
	r.must(r.all["dc1"].Accept(t.Context(), order))
	r.must(r.all["dc1"].Answer(t.Context(), order, ""))
	r.shows("answered", status.Table)
	r.must(grant.Advance(t.Context()))
	r.say("dc3", "dc3-1", coordination.PendingForInclusion, coordination.ReadyForInclusion)
	r.shows("late", status.Wide)
	since := r.clock.Now().Add(-12 * time.Second)
	r.agrees(&view.Agreement{
		Roles: map[string]string{
			"dc1-operator": "", "dc2-operator": "waits for step 3, restart dc2-1",
			"dc3-operator": "carries out the Restart, step 2 of 3; waits for the Inclusion of dc3-1",
		},
		Holder: "dc3-operator", Token: 1, Since: since,
		Plan: &view.Plan{
			Action: "Restart of dc1-1, dc2-1", By: "dc3-operator", Since: since, At: 1,
			Steps: []view.Step{{What: "restart dc1-1"}, {What: "move-leader dc1-1"}, {What: "restart dc2-1"}},
		},
		Pending: []view.Pending{
			{Member: "dc3-1", Action: "Inclusion", State: "ready"},
			{Member: "dc1-1", Action: "Restart", State: "being done"},
			{Member: "dc2-1", Action: "Restart", State: "being done"},
		},
		Waits: []string{"Inclusion waits for dc3-operator: the Restart that it does is not yet done.", "Restart is being done."},
	})

	r.must(grant.Done(t.Context(), ""))
	r.after(time.Minute)
	r.shows("done", status.Table)
	if got, want := r.report().Systems[0].Agreement().Done, "Restart of dc1-1, dc2-1, by dc3-operator with token 1, done after 12s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGone looks at what is left when instances die: one at work, one with something that it wanted.
func TestGone(t *testing.T) {
	r := meet(t, "dc1", "dc2", "dc3")
	r.say("dc2", "dc2-1", coordination.PendingForExclusion, coordination.ReadyForExclusion, coordination.PendingForRemoval)
	r.say("dc3", "dc3-1", coordination.PendingForRestart)
	const attack = "stop\n\x1b[2J"
	r.begin("dc1", coordination.Exclusion, coordination.Step{Do: attack, Members: []coordination.MemberID{"dc2-1"}, Order: true})
	r.configure("dc3", "dc2-operator")
	r.must(r.all["dc1"].Close(t.Context()))
	r.must(r.all["dc3"].Close(t.Context()))
	r.shows("gone", status.Table)
}

// TestPrograms read the same in JSON and YAML.
func TestPrograms(t *testing.T) {
	r := meet(t, "dc1")
	r.say("dc1", "dc1-1", coordination.PendingForRestart)
	var text bytes.Buffer
	r.must(r.report().Write(&text, status.JSON, false))
	var got struct {
		Store   string
		Systems []struct {
			System    string
			Instances []coordination.Instance
			Sets      map[coordination.Set]coordination.Members
			Roles     []show.Role
			Actions   []show.Action
		}
	}
	r.must(json.Unmarshal(text.Bytes(), &got))
	one := got.Systems[0]
	if got.Store != "etcd" || one.System != system || one.Instances[0].Name != "dc1-operator" || one.Sets[coordination.PendingForRestart]["dc1-1"].Prefix != "dc1" {
		t.Errorf("got %s", text.String())
	}
	if diff := cmp.Diff([]coordination.Waits{{For: "dc1-1", Reason: "it is not ready"}}, one.Actions[0].Waits); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]show.Role{{Instance: "dc1-operator", Does: "makes dc1-1 ready for the Restart"}}, one.Roles); diff != "" {
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
		t.Fatal("no JSON")
	}
	return cmp.Equal(x, y)
}
