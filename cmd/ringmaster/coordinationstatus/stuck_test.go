package coordinationstatus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/coordinationstatus/coordinationtest"
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/internal/status"
	"github.com/ringmaster-project/ringmaster/pkg/coordination"
	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// previews compares what a person sees before they do something with what they should.
func (r *regions) previews(name string, lines func(*coordinationstatus.System) []string) {
	r.t.Helper()
	var got bytes.Buffer
	coordinationstatus.WriteLines(&got, lines(&r.report().Systems[0]))
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
	for prefix, r := range r.all {
		r.Need(coordinationtest.Upgrade, coordination.MemberID(prefix+"-1"), true)
	}
	r.all["dc1"].Begin(coordinationtest.Upgrade, coordination.Step{
		Do: "upgrade", Members: []coordination.MemberID{"dc1-1", "dc2-1", "dc3-1"}, Order: true, Together: true,
	})
	r.all["dc2"].Reconcile()
	r.shows("accepted", status.Table)
	r.all["dc3"].Reconcile()
	r.must(r.all["dc3"].Close(t.Context()))
	r.shows("accepted-and-gone", status.Table)
	r.previews("abandon", (*coordinationstatus.System).Abandoned)
	r.previews("break-lock", (*coordinationstatus.System).LockBroken)
}

// TestLockOfLocalParticipant looks at a holder that has told nobody what it does.
func TestLockOfLocalParticipant(t *testing.T) {
	r := meet(t, "dc1", "dc2")
	r.all["dc1"].Busy, r.all["dc1"].Settings.Mode = true, coordination.Local
	r.all["dc1"].Need(coordinationtest.Restart, "dc1-1", true)
	r.all["dc1"].Begin(coordinationtest.Restart, restart("dc1-1"))
	r.previews("break-lock-alone", (*coordinationstatus.System).LockBroken)
}

// TestAllLocal looks at a system whose operators are all in local mode.
func TestAllLocal(t *testing.T) {
	r := meet(t, "dc1")
	r.all["dc1"].Busy, r.all["dc1"].Settings.Mode = true, coordination.Local
	r.all["dc1"].Need(coordinationtest.Restart, "dc1-1", true)
	r.all["dc1"].Begin(coordinationtest.Restart, restart("dc1-1"))
	r.shows("all-local", status.Table)
}

// TestOwnStep looks at a holder that carries out a step itself.
func TestOwnStep(t *testing.T) {
	r := meet(t, "dc1", "dc2")
	r.all["dc1"].Busy = true
	r.all["dc2"].Need(coordinationtest.Restart, "dc2-1", true)
	r.all["dc1"].Begin(coordinationtest.Restart, coordination.Step{Do: "drain", Members: []coordination.MemberID{"dc2-1"}})
	r.after(time.Minute)
	r.shows("own-step", status.Table)
	r.previews("abandon-own-step", (*coordinationstatus.System).Abandoned)
	r.previews("break-lock-own-step", (*coordinationstatus.System).LockBroken)
}

// TestConcerns looks at participants that do not agree with each other about who and what they are.
func TestConcerns(t *testing.T) {
	r := meet(t, "dc1", "dc2")
	r.all["dc1"].Settings = coordination.Settings{
		Mode: coordination.Global, Prefix: "dc1", Expected: []string{"dc1", "dc2", "dc4"}, Policy: coordination.Policy{Quiet: time.Minute},
		Policies: map[coordination.Action]coordination.Policy{coordinationtest.Upgrade: {Failing: coordination.Continue}},
	}
	r.all["dc1"].Reconcile()
	newer := coordinationtest.Join(t, r.store, coordinationtest.System, "dc1", r.clock)
	newer.Settings = r.all["dc1"].Settings
	newer.Reconcile()
	_, err := r.store.Commit(t.Context(), kv.Transaction{Then: []kv.Operation{
		kv.Put(coordination.DefaultRoot+"/"+coordinationtest.System+"/changes/dc2", `{"by":"dc2-operator","incomplete":true}`),
	}})
	r.must(err)
	r.shows("concerns", status.Table)
}
