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

// expectPreview compares the preview of a command with a file in testdata.
func (r *regions) expectPreview(name string, lines func(*coordinationstatus.System) []string) {
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
		r.t.Errorf("%s: if the new output is correct, run the test with -update:\n%s", name, diff)
	}
}

// TestUnansweredOrder reports an order to several participants, which may hang after some time.
func TestUnansweredOrder(t *testing.T) {
	r := joinRegions(t, "dc1", "dc2", "dc3")
	for prefix, r := range r.all {
		r.Need(coordinationtest.Upgrade, coordination.MemberID(prefix+"-1"), true)
	}
	r.all["dc1"].Begin(coordinationtest.Upgrade, coordination.Step{
		Do: "upgrade", Members: []coordination.MemberID{"dc1-1", "dc2-1", "dc3-1"}, Order: true, Together: true,
	})
	r.all["dc2"].Reconcile()
	r.after(time.Minute)
	r.expectOutput("accepted", status.Table)
	r.after(time.Second)
	r.expectOutput("hanging", status.Table)
	r.all["dc3"].Reconcile()
	r.must(r.all["dc3"].Close(t.Context()))
	r.expectOutput("accepted-and-gone", status.Table)
	r.expectPreview("abandon", (*coordinationstatus.System).AbandonPreview)
	r.expectPreview("break-lock", (*coordinationstatus.System).BreakLockPreview)
}

// TestLockOfLocalParticipant previews breaking the lock of a participant without an intent in the store.
func TestLockOfLocalParticipant(t *testing.T) {
	r := joinRegions(t, "dc1", "dc2")
	r.all["dc1"].Busy, r.all["dc1"].Settings.Mode = true, coordination.Local
	r.all["dc1"].Need(coordinationtest.Restart, "dc1-1", true)
	r.all["dc1"].Begin(coordinationtest.Restart, restart("dc1-1"))
	r.expectPreview("break-lock-alone", (*coordinationstatus.System).BreakLockPreview)
}

// TestAllLocal reports a system whose participants are all in local mode.
func TestAllLocal(t *testing.T) {
	r := joinRegions(t, "dc1")
	r.all["dc1"].Busy, r.all["dc1"].Settings.Mode = true, coordination.Local
	r.all["dc1"].Need(coordinationtest.Restart, "dc1-1", true)
	r.all["dc1"].Begin(coordinationtest.Restart, restart("dc1-1"))
	r.expectOutput("all-local", status.Table)
}

// TestPreviewOfHoldersOwnStep reports a step that the holder of the lock carries out itself.
func TestPreviewOfHoldersOwnStep(t *testing.T) {
	r := joinRegions(t, "dc1", "dc2")
	r.all["dc1"].Busy = true
	r.all["dc2"].Need(coordinationtest.Restart, "dc2-1", true)
	r.all["dc1"].Begin(coordinationtest.Restart, coordination.Step{Do: "drain", Members: []coordination.MemberID{"dc2-1"}})
	r.after(2 * time.Minute)
	r.expectOutput("own-step", status.Table)
	r.expectPreview("abandon-own-step", (*coordinationstatus.System).AbandonPreview)
	r.expectPreview("break-lock-own-step", (*coordinationstatus.System).BreakLockPreview)
}

// TestWarnings reports two processes with one name, a missing participant, an incomplete declaration and different policies.
func TestWarnings(t *testing.T) {
	r := joinRegions(t, "dc1", "dc2")
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
	r.expectOutput("warnings", status.Table)
}

// TestRetry reports an action during the backoff after it was given up, and after that backoff.
func TestRetry(t *testing.T) {
	r := joinRegions(t, "dc1")
	r.all["dc1"].Failure = "the disk is full"
	r.all["dc1"].Need(coordinationtest.Restart, "dc1-1", true)
	r.all["dc1"].Plans[coordinationtest.Restart] = []coordination.Step{restart("dc1-1")}
	for len(r.report().Systems[0].DoneRecords) < 3 {
		r.after(time.Second)
		r.all["dc1"].Reconcile()
	}
	r.expectOutput("retry", status.Table)
	r.after(4 * time.Second)
	r.expectOutput("retry-due", status.Table)
}
