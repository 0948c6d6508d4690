package coordination_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	show "github.com/ringmaster-project/ringmaster/cmd/ringmaster/app/coordination"
	"github.com/ringmaster-project/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

const upgrade coordination.Action = "Upgrade"

func (r *regions) accept(prefix string, members ...coordination.MemberID) {
	r.t.Helper()
	seen, err := r.all[prefix].View(r.t.Context())
	r.must(err)
	r.must(r.all[prefix].Accept(r.t.Context(), r.all[prefix].Order(seen, members...)))
}

// previews compares what a person sees before they do something with what they should.
func (r *regions) previews(name string, lines func(*show.System) []string) {
	r.t.Helper()
	var got bytes.Buffer
	show.WriteLines(&got, lines(&r.report().Systems[0]))
	path := filepath.Join("testdata", name+".txt")
	if *update {
		r.must(os.WriteFile(path, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(path)
	r.must(err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		r.t.Errorf("%s: run the test with -update if that is right:\n%s", name, diff)
	}
}

// TestUnanswered looks at an order for members of several participants, and at what a person can do about it.
func TestUnanswered(t *testing.T) {
	r := meet(t, "dc1", "dc2", "dc3")
	for prefix, id := range map[string]string{"dc1": "dc1-1", "dc2": "dc2-1", "dc3": "dc3-1"} {
		r.say(prefix, id, "pendingForUpgrade", "readyForUpgrade")
	}
	r.begin("dc1", upgrade, coordination.Step{Do: "upgrade", Members: []coordination.MemberID{"dc1-1", "dc2-1", "dc3-1"}, Order: true, Together: true})
	r.accept("dc2", "dc2-1")
	r.shows("accepted", status.Table)
	r.accept("dc3", "dc3-1")
	r.must(r.all["dc3"].Close(t.Context()))
	r.shows("accepted-and-gone", status.Table)
	r.previews("abandon", (*show.System).Abandoned)
	r.previews("break-lock", (*show.System).LockBroken)
}

// TestOwnStep looks at a holder that carries out a step itself, and at one that has only the lock.
func TestOwnStep(t *testing.T) {
	r := meet(t, "dc1", "dc2")
	lock, err := r.all["dc1"].Lock(t.Context())
	r.must(err)
	r.previews("break-lock-alone", (*show.System).LockBroken)
	r.must(lock.Release(t.Context()))
	r.say("dc2", "dc2-1", coordination.PendingForRestart, coordination.ReadyForRestart)
	r.begin("dc1", coordination.Restart, coordination.Step{Do: "drain", Members: []coordination.MemberID{"dc2-1"}})
	r.after(time.Minute)
	r.shows("own-step", status.Table)
	r.previews("abandon-own-step", (*show.System).Abandoned)
	r.previews("break-lock-own-step", (*show.System).LockBroken)
}

// TestConcerns looks at participants that do not agree with each other about who and what they are.
func TestConcerns(t *testing.T) {
	r := meet(t, "dc1", "dc2")
	settings := coordination.Settings{
		Mode: coordination.Global, Prefix: "dc1", Expected: []string{"dc1", "dc2", "dc4"}, Policy: coordination.Policy{Quiet: time.Minute},
		Policies: map[coordination.Action]coordination.Policy{upgrade: {Failing: coordination.Continue}},
	}
	r.must(r.all["dc1"].Configure(t.Context(), settings))
	newer, err := coordination.New(coordination.Options{Store: r.store, System: system, Name: "dc1-operator", Session: time.Hour, Clock: r.clock})
	r.must(err)
	r.must(newer.Configure(t.Context(), settings))
	_, err = r.store.Commit(t.Context(), coordination.Transaction{Then: []coordination.Operation{
		coordination.Put(coordination.DefaultRoot+"/"+system+"/changes/dc2", `{"by":"dc2-operator","incomplete":true}`),
	}})
	r.must(err)
	r.shows("concerns", status.Table)
}
