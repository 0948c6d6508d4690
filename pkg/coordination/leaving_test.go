package coordination_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// The tests of this file are about a participant that leaves while the store does not show what it remembers.

// A process whose registration was written although it got an error does not take itself for another one.
func TestLeaveAfterALostRegistration(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(p *participant){
		"local mode": func(p *participant) {
			p.settings = coordination.Settings{}
			p.reconcile()
			p.w.Expect(p.last.Waits).To(BeEmpty())
		},
		"deleted": func(p *participant) { p.w.Expect(p.Leave(p.w.t.Context(), p.system)).To(Succeed()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, w *world) {
				store := &unsure{Store: w.Store}
				w.Store = store
				a := w.joins("a", coordination.Restart)
				store.done.Store(true)
				_, err := a.Reconcile(t.Context(), a.settings, a.system)
				w.Expect(err).To(MatchError(errLost))
				store.done.Store(false)
				w.Expect(w.view().Takes("a")).To(BeTrue(), "it was written")
				leave(a)
				w.Expect(w.view().Takes("a")).To(BeFalse())
				w.Expect(w.below("a")).To(BeEmpty())
			})
		})
	}
}

// Nor does it take itself for the newest one of its participant.
func TestLostRegistrationIsOlder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		store := &unsure{Store: w.Store}
		w.Store = store
		older := w.joins("a", coordination.Restart)
		store.done.Store(true)
		_, err := older.Reconcile(t.Context(), older.settings, older.system)
		w.Expect(err).To(MatchError(errLost))
		store.done.Store(false)
		newer := older.next(older.settings)
		newer.reconcile()
		w.Expect(older.reconcile().Superseded).To(BeTrue())
		w.Expect(newer.reconcile().Superseded).To(BeFalse())
		for _, p := range []*participant{newer, older, newer, older} {
			p.settings = coordination.Settings{}
			p.reconcile()
		}
		w.Expect(w.below("a")).To(BeEmpty())
	})
}
