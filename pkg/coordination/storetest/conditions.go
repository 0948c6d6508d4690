package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func (s *suite) conditions() {
	s.commit(s.first, kv.Put(s.key("deleted"), ""))
	s.commit(s.first, kv.Delete(s.key("deleted")))
	old := s.commit(s.first, kv.Put(s.key("old"), ""), kv.Put(s.key("a/dc1/old"), ""), kv.Put(s.key("at"), ""))
	changed := s.commit(s.first, kv.Put(s.key("a/dc10/x"), ""), kv.Put(s.key("at"), ""))
	one := func(condition kv.Condition) []kv.Condition {
		return []kv.Condition{condition}
	}
	for name, test := range map[string]struct {
		conditions []kv.Condition
		met        bool
	}{
		"none":                             {nil, true},
		"absent":                           {one(kv.IsAbsent(s.key("never"))), true},
		"absent after it was deleted":      {one(kv.IsAbsent(s.key("deleted"))), true},
		"absent, but something is below":   {one(kv.IsAbsent(s.key("a/dc1"))), true},
		"not absent":                       {one(kv.IsAbsent(s.key("old"))), false},
		"at its version":                   {one(kv.IsAt(s.key("at"), changed)), true},
		"at an older version":              {one(kv.IsAt(s.key("at"), old)), false},
		"at a version, but not there":      {one(kv.IsAt(s.key("never"), old)), false},
		"not written":                      {one(kv.NotWritten(s.key("a/dc1"), old)), true},
		"not written, nothing is there":    {one(kv.NotWritten(s.key("never"), 0)), true},
		"not written since the last write": {one(kv.NotWritten(s.root, changed)), true},
		"written below":                    {one(kv.NotWritten(s.key("a"), old)), false},
		"written far below":                {one(kv.NotWritten(s.root, old)), false},
		"written at the key itself":        {one(kv.NotWritten(s.key("at"), old)), false},
		"written just before":              {one(kv.NotWritten(s.key("a/dc1"), old-1)), false},
		"two that are met":                 {[]kv.Condition{kv.IsAt(s.key("old"), old), kv.NotWritten(s.key("a/dc1"), old)}, true},
		"only the first is met":            {[]kv.Condition{kv.IsAt(s.key("old"), old), kv.NotWritten(s.key("a"), old)}, false},
		"only the second is met":           {[]kv.Condition{kv.NotWritten(s.key("a"), old), kv.IsAt(s.key("old"), old)}, false},
	} {
		s.Run(name, func(t *testing.T) {
			_, err := s.second.Store.Commit(t.Context(), kv.Transaction{
				If: test.conditions, Then: []kv.Operation{kv.Put(newRoot(), "")},
			})
			if test.met && err != nil || !test.met && !errors.Is(err, kv.ErrConflict) {
				t.Errorf("met is %t, and the transaction ended with: %v", test.met, err)
			}
		})
	}
}

func (s *suite) allOrNothing() {
	s.commit(s.first, kv.Put(s.key("a"), "a"), kv.Put(s.key("b/c"), "c"))
	before := s.read(s.first)
	session := s.open(s.first)
	_, err := s.second.Store.Commit(s.Context(), kv.Transaction{
		If: []kv.Condition{kv.IsAt(s.key("a"), before.Entries[s.key("a")].Version), kv.IsAbsent(s.key("b/c"))},
		Then: []kv.Operation{
			kv.Put(s.key("a"), "changed"), kv.Put(s.key("new"), ""),
			kv.DeleteBelow(s.key("b")), kv.PutFor(session, s.key("session"), ""),
		},
	})
	s.Expect(err).To(gomega.MatchError(kv.ErrConflict))
	if diff := cmp.Diff(before.Entries, s.read(s.second).Entries); diff != "" {
		s.Errorf("after a transaction that was refused (-want +got):\n%s", diff)
	}
	s.commit(s.first,
		kv.Put(s.key("a"), "changed"), kv.Put(s.key("new"), ""),
		kv.DeleteBelow(s.key("b")), kv.PutFor(session, s.key("session"), "s"))
	if diff := cmp.Diff(map[string]string{"a": "changed", "new": "", "session": "s"}, s.values(s.second)); diff != "" {
		s.Errorf("after a transaction that was done (-want +got):\n%s", diff)
	}
}
