package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

func (s *suite) conditions() {
	s.commit(s.first, coordination.Put(s.key("deleted"), ""))
	s.commit(s.first, coordination.Delete(s.key("deleted")))
	old := s.commit(s.first, coordination.Put(s.key("old"), ""), coordination.Put(s.key("a/dc1/old"), ""), coordination.Put(s.key("at"), ""))
	changed := s.commit(s.first, coordination.Put(s.key("a/dc10/x"), ""), coordination.Put(s.key("at"), ""))
	one := func(condition coordination.Condition) []coordination.Condition {
		return []coordination.Condition{condition}
	}
	for name, test := range map[string]struct {
		conditions []coordination.Condition
		met        bool
	}{
		"none":                             {nil, true},
		"absent":                           {one(coordination.IsAbsent(s.key("never"))), true},
		"absent after it was deleted":      {one(coordination.IsAbsent(s.key("deleted"))), true},
		"absent, but something is below":   {one(coordination.IsAbsent(s.key("a/dc1"))), true},
		"not absent":                       {one(coordination.IsAbsent(s.key("old"))), false},
		"at its version":                   {one(coordination.IsAt(s.key("at"), changed)), true},
		"at an older version":              {one(coordination.IsAt(s.key("at"), old)), false},
		"at a version, but not there":      {one(coordination.IsAt(s.key("never"), old)), false},
		"not written":                      {one(coordination.NotWritten(s.key("a/dc1"), old)), true},
		"not written, nothing is there":    {one(coordination.NotWritten(s.key("never"), 0)), true},
		"not written since the last write": {one(coordination.NotWritten(s.root, changed)), true},
		"written below":                    {one(coordination.NotWritten(s.key("a"), old)), false},
		"written far below":                {one(coordination.NotWritten(s.root, old)), false},
		"written at the key itself":        {one(coordination.NotWritten(s.key("at"), old)), false},
		"written just before":              {one(coordination.NotWritten(s.key("a/dc1"), old-1)), false},
		"two that are met":                 {[]coordination.Condition{coordination.IsAt(s.key("old"), old), coordination.NotWritten(s.key("a/dc1"), old)}, true},
		"only the first is met":            {[]coordination.Condition{coordination.IsAt(s.key("old"), old), coordination.NotWritten(s.key("a"), old)}, false},
		"only the second is met":           {[]coordination.Condition{coordination.NotWritten(s.key("a"), old), coordination.IsAt(s.key("old"), old)}, false},
	} {
		s.Run(name, func(t *testing.T) {
			_, err := s.second.Store.Commit(t.Context(), coordination.Transaction{
				If: test.conditions, Then: []coordination.Operation{coordination.Put(newRoot(), "")},
			})
			if test.met && err != nil || !test.met && !errors.Is(err, coordination.ErrConflict) {
				t.Errorf("met is %t, and the transaction ended with: %v", test.met, err)
			}
		})
	}
}

func (s *suite) allOrNothing() {
	s.commit(s.first, coordination.Put(s.key("a"), "a"), coordination.Put(s.key("b/c"), "c"))
	before := s.read(s.first)
	session := s.open(s.first)
	_, err := s.second.Store.Commit(s.Context(), coordination.Transaction{
		If: []coordination.Condition{coordination.IsAt(s.key("a"), before.Entries[s.key("a")].Version), coordination.IsAbsent(s.key("b/c"))},
		Then: []coordination.Operation{
			coordination.Put(s.key("a"), "changed"), coordination.Put(s.key("new"), ""),
			coordination.DeleteBelow(s.key("b")), coordination.PutFor(session, s.key("session"), ""),
		},
	})
	s.Expect(err).To(gomega.MatchError(coordination.ErrConflict))
	if diff := cmp.Diff(before.Entries, s.read(s.second).Entries); diff != "" {
		s.Errorf("after a transaction that was refused (-want +got):\n%s", diff)
	}
	s.commit(s.first,
		coordination.Put(s.key("a"), "changed"), coordination.Put(s.key("new"), ""),
		coordination.DeleteBelow(s.key("b")), coordination.PutFor(session, s.key("session"), "s"))
	if diff := cmp.Diff(map[string]string{"a": "changed", "new": "", "session": "s"}, s.values(s.second)); diff != "" {
		s.Errorf("after a transaction that was done (-want +got):\n%s", diff)
	}
}
