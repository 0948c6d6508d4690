package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

func (s *suite) entriesAreReadAsWritten() {
	want := map[string]string{
		"plain":           "value",
		"empty":           "",
		"json":            `{"a": ["<b>", "c & d"]}`,
		"lines":           "one\ntwo\n",
		"text":            "Größe – 大きさ",
		"with space":      " x ",
		"upper/Lower.-_~": "key",
	}
	var operations []kv.Operation
	for key, value := range want {
		operations = append(operations, kv.Put(s.key(key), value))
	}
	s.commit(s.first, operations...)
	for name, process := range map[string]Process{"its own process": s.first, "another process": s.second} {
		if diff := cmp.Diff(want, s.values(process)); diff != "" {
			s.Errorf("read by %s (-want +got):\n%s", name, diff)
		}
	}
}

func (s *suite) readsReturnEntriesAtAndBelow() {
	s.commit(s.first,
		kv.Put(s.key("a/dc1"), "at"), kv.Put(s.key("a/dc1/x"), "below"), kv.Put(s.key("a/dc1/x/y"), "far below"),
		kv.Put(s.key("a/dc10"), ""), kv.Put(s.key("a/dc10/x"), ""),
		kv.Put(s.key("a/dc1-x"), ""), kv.Put(s.key("a/dc1.x/y"), ""), kv.Put(s.key("a/dc"), ""),
		kv.Put(s.key("b"), "b"))
	for name, test := range map[string]struct {
		paths []string
		want  map[string]string
	}{
		"a path":           {[]string{"a/dc1"}, map[string]string{"a/dc1": "at", "a/dc1/x": "below", "a/dc1/x/y": "far below"}},
		"a leaf":           {[]string{"a/dc1/x/y"}, map[string]string{"a/dc1/x/y": "far below"}},
		"nothing":          {[]string{"a/d", "c"}, map[string]string{}},
		"several":          {[]string{"b", "a/dc1/x/y"}, map[string]string{"b": "b", "a/dc1/x/y": "far below"}},
		"one in the other": {[]string{"a/dc1/x", "a/dc1/x/y"}, map[string]string{"a/dc1/x": "below", "a/dc1/x/y": "far below"}},
	} {
		if diff := cmp.Diff(test.want, s.values(s.second, test.paths...)); diff != "" {
			s.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// readsAreAtOneRevision writes two entries in the same transactions. A read of both must never see different values.
func (s *suite) readsAreAtOneRevision() {
	ctx, stop := context.WithCancel(s.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			value := strconv.Itoa(i)
			_, err := s.first.Store.Commit(ctx, kv.Transaction{Then: []kv.Operation{
				kv.Put(s.key("a"), value), kv.Put(s.key("b/c"), value),
			}})
			if err != nil && ctx.Err() == nil {
				s.Errorf("committing: %v", err)
				return
			}
		}
	})
	const reads = 100
	last := int64(0)
	for range reads {
		snapshot := s.read(s.second, "b", "a")
		a, b := snapshot.Entries[s.key("a")], snapshot.Entries[s.key("b/c")]
		if a != b || a.Version > snapshot.Revision || snapshot.Revision < last {
			s.Errorf("read %+v and %+v at revision %d, after revision %d", a, b, snapshot.Revision, last)
		}
		last = snapshot.Revision
	}
	stop()
	writing.Wait()
}

func (s *suite) versionsAreRevisions() {
	version := func(key string) int64 { return s.read(s.second).Entries[s.key(key)].Version }
	first := s.commit(s.first, kv.Put(s.key("a"), "1"), kv.Put(s.key("b"), "1"))
	s.Expect(version("a")).To(gomega.Equal(first))
	s.Expect(version("b")).To(gomega.Equal(first), "one transaction is one revision")

	second := s.commit(s.first, kv.Put(s.key("b"), "1"))
	s.Expect(second).To(gomega.BeNumerically(">", first))
	s.Expect(version("a")).To(gomega.Equal(first), "what is not written keeps its version")
	s.Expect(version("b")).To(gomega.Equal(second), "the same value is written too")
	s.Expect(s.read(s.second).Revision).To(gomega.BeNumerically(">=", second))

	nothing, err := s.first.Store.Commit(s.Context(), kv.Transaction{
		If: []kv.Condition{kv.IsAt(s.key("a"), first)},
	})
	s.Expect(err).NotTo(gomega.HaveOccurred(), "conditions alone are a transaction")
	s.Expect(nothing).To(gomega.BeNumerically(">=", second))
}

func (s *suite) deletes() {
	siblings := []string{"a", "a/dc1-x", "a/dc1.x/y", "a/dc10", "a/dc10/x"}
	below := []string{"a/dc1/x", "a/dc1/x/y"}
	all := slices.Concat(siblings, below, []string{"a/dc1"})
	for name, test := range map[string]struct {
		operation kv.Operation
		want      []string
	}{
		"nothing":       {kv.Delete(s.key("a/dc")), all},
		"a key":         {kv.Delete(s.key("a/dc1")), slices.Concat(siblings, below)},
		"below":         {kv.DeleteBelow(s.key("a/dc1")), siblings},
		"nothing below": {kv.DeleteBelow(s.key("a/dc")), all},
		"all":           {kv.DeleteBelow(s.key("a")), nil},
	} {
		for _, key := range all {
			s.commit(s.first, kv.Put(s.key(key), ""))
		}
		s.commit(s.first, test.operation)
		want := map[string]string{}
		for _, key := range test.want {
			want[key] = ""
		}
		if diff := cmp.Diff(want, s.values(s.second)); diff != "" {
			s.Errorf("left after deleting %s (-want +got):\n%s", name, diff)
		}
	}
}

func (s *suite) invalidTransactionsAreRefused() {
	s.commit(s.first, kv.Put(s.key("a"), "there"))
	for name, transaction := range map[string]kv.Transaction{
		"a slash at the end":  {Then: []kv.Operation{kv.Put(s.key("b/"), "")}},
		"no key":              {Then: []kv.Operation{kv.Put("", "")}},
		"written twice":       {Then: []kv.Operation{kv.Put(s.key("b"), "1"), kv.Put(s.key("b"), "2")}},
		"written and deleted": {Then: []kv.Operation{kv.Put(s.key("a/b"), "1"), kv.DeleteBelow(s.key("a"))}},
		"not UTF-8":           {Then: []kv.Operation{kv.Put(s.key("b"), "\xff")}},
		"an empty condition":  {If: []kv.Condition{{}}, Then: []kv.Operation{kv.Put(s.key("b"), "")}},
		"no such session":     {Then: []kv.Operation{{Key: s.key("b"), Session: "none"}}},
	} {
		if _, err := s.first.Store.Commit(s.Context(), transaction); err == nil || errors.Is(err, kv.ErrConflict) {
			s.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "there"}, s.values(s.second)); diff != "" {
		s.Errorf("remaining (-want +got):\n%s", diff)
	}
	if _, err := s.first.Store.Read(s.Context(), s.root+"/"); err == nil {
		s.Error("a path with a slash at its end was read")
	}
}

func (s *suite) tooLarge() {
	for _, kilobytes := range []int{1_700, 2_100, 8_000} { // different layers of the backends refuse them
		_, err := s.first.Store.Commit(s.Context(), kv.Transaction{Then: []kv.Operation{
			kv.Put(s.key("small"), ""), kv.Put(s.key("large"), strings.Repeat("x", kilobytes<<10)),
		}})
		s.Expect(err).To(gomega.MatchError(kv.ErrTooLarge))
	}
	s.Expect(s.values(s.second)).To(gomega.BeEmpty())
	s.commit(s.first, kv.Put(s.key("small"), ""))
}

// manyWriters increments a counter concurrently, with conditions. No increment may be lost.
func (s *suite) manyWriters() {
	const writers, each = 6, 10
	var counting sync.WaitGroup
	for i := range writers {
		process := []Process{s.first, s.second}[i%2]
		counting.Go(func() {
			for range each {
				if err := s.increment(process, s.key("count")); err != nil {
					s.Errorf("counting: %v", err)
					return
				}
			}
		})
	}
	counting.Wait()
	s.Expect(s.values(s.second)).To(gomega.Equal(map[string]string{"count": strconv.Itoa(writers * each)}))
}

func (s *suite) increment(process Process, key string) error {
	for {
		snapshot, err := process.Store.Read(s.Context(), key)
		if err != nil {
			return err
		}
		entry := snapshot.Entries[key]
		count, err := strconv.Atoi("0" + entry.Value) // the counter may not exist yet
		if err != nil {
			return err
		}
		_, err = process.Store.Commit(s.Context(), kv.Transaction{
			If:   []kv.Condition{kv.IsAt(key, entry.Version)},
			Then: []kv.Operation{kv.Put(key, strconv.Itoa(count+1))},
		})
		if !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
}
