package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringmaster-project/ringmaster/pkg/coordination"
)

// storeEntries are entries below the root.
type storeEntries map[string]string

// with returns the entries with changes. An empty value deletes an entry.
func (s storeEntries) with(others storeEntries) storeEntries {
	all := maps.Clone(s)
	maps.Copy(all, others)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

func written(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Each checker is given histories with the violations that it has to find.
func TestHistoryCheckerFindsViolations(t *testing.T) {
	lock := func(token int64, holder string) string {
		return written(t, coordination.Lock{Holder: holder, Token: token, Session: holder + "'s"})
	}
	doing := func(id, token int64, by string, at int) coordination.Intent {
		return coordination.Intent{ID: id, Token: token, Holder: by, StepIndex: at}
	}
	intent := func(id, token int64, by string, at int) string { return written(t, doing(id, token, by, at)) }
	done := func(id, token int64, by string) string {
		return written(t, coordination.DoneRecord{Intent: doing(id, token, by, 2)})
	}

	begun := storeEntries{"lock": lock(1, "a"), "token": "1", "intent": intent(1, 1, "a", 0)}
	further := begun.with(storeEntries{"intent": intent(1, 1, "a", 1)})
	left := further.with(storeEntries{"lock": ""})
	taken := left.with(storeEntries{"lock": lock(2, "b"), "token": "2", "intent": intent(1, 2, "b", 1)})
	ended := taken.with(storeEntries{"lock": "", "intent": "", "done/1": done(1, 2, "b")})
	again := ended.with(storeEntries{"lock": lock(3, "a"), "token": "3", "intent": intent(3, 3, "a", 0)})

	// Orders are accepted and answered.
	answer := func(of coordination.Answer) string { return written(t, of) }
	accepted := begun.with(storeEntries{"answers/a/a-1": answer(coordination.Answer{Intent: 1, Token: 1})})
	answered := accepted.with(storeEntries{"answers/a/a-1": answer(coordination.Answer{Intent: 1, Token: 1, Done: true})})
	fenced := accepted.with(storeEntries{"answers/a/a-1": answer(coordination.Answer{Intent: 1, Token: 1, Fenced: 5})})
	onward := storeEntries{"intent": intent(1, 1, "a", 1)}
	second := func(of coordination.Answer) storeEntries { return storeEntries{"answers/b/b-1": answer(of)} }

	for name, test := range map[string]struct {
		history []storeEntries
		// over are the sessions that have ended.
		over []string
		want string
	}{
		"all is well":                     {history: []storeEntries{{}, begun, further, left, taken, ended, again}},
		"a denied one loses its lock":     {history: []storeEntries{begun.with(storeEntries{"denied/b/a": ""}), begun.with(storeEntries{"denied/b/a": "x"}), taken.with(storeEntries{"denied/b/a": "x"})}},
		"a lock goes with its session":    {history: []storeEntries{begun, taken}, over: []string{"a's"}},
		"a lock is taken from its holder": {history: []storeEntries{begun, taken}, want: "b takes the lock of a"},
		"a denied one is another one": {
			history: []storeEntries{begun.with(storeEntries{"denied/b/c": "x"}), taken.with(storeEntries{"denied/b/c": "x"})}, want: "b takes the lock of a",
		},
		"a token is used again": {
			history: []storeEntries{begun, left, left.with(storeEntries{"lock": lock(1, "b")})}, want: "b gets the lock with the token 1 after 1",
		},
		"a token shrinks":  {history: []storeEntries{begun, taken, again, again.with(storeEntries{"token": "2"})}, over: []string{"a's", "b's"}, want: "the token 3 is followed by 2"},
		"a token vanishes": {history: []storeEntries{begun, begun.with(storeEntries{"token": ""})}, want: "the token 1 is followed by 0"},
		"a token without a lock": {
			history: []storeEntries{begun, left.with(storeEntries{"token": "2"})}, want: "the token 2 is written without its lock",
		},
		"a lock without its token":      {history: []storeEntries{{}, {"lock": lock(1, "a")}}, want: "the newest is 0"},
		"an intent of one that is late": {history: []storeEntries{begun, left, taken, taken.with(storeEntries{"intent": intent(1, 1, "a", 2)})}, want: "a writes the intent 1 under the token 1"},
		"an intent without a lock":      {history: []storeEntries{begun, left, left.with(storeEntries{"intent": intent(1, 1, "a", 2)})}, want: "the lock is <nil>"},
		"an intent of another one":      {history: []storeEntries{begun, begun.with(storeEntries{"intent": intent(1, 1, "b", 0)})}, want: "b writes the intent 1"},
		"a step is done again":          {history: []storeEntries{begun, further, begun}, want: "the intent 1 is at step 0 after step 1"},
		"an intent is forgotten":        {history: []storeEntries{begun, begun.with(storeEntries{"intent": ""})}, want: "the intent 1 is gone"},
		"an intent replaces another":    {history: []storeEntries{begun, begun.with(storeEntries{"intent": intent(2, 1, "a", 0)})}, want: "the intent 1 is gone"},
		"what is done is begun again": {
			history: []storeEntries{begun, left, taken, ended, ended.with(storeEntries{"lock": lock(3, "a"), "token": "3", "intent": intent(1, 3, "a", 2)})},
			want:    "the intent 1 is written again after it was done",
		},
		"it is done twice": {
			history: []storeEntries{begun, left, taken, ended, again, again.with(storeEntries{"lock": "", "intent": "", "done/3": done(1, 3, "a")})}, want: "1 is done twice",
		},
		"it is done under an old token": {
			history: []storeEntries{begun, left, taken, taken.with(storeEntries{"lock": "", "intent": "", "done/1": done(1, 1, "a")})}, want: "1 is done under the token 1",
		},
		"it is done without a lock": {history: []storeEntries{begun, left, left.with(storeEntries{"intent": "", "done/1": done(1, 1, "a")})}, want: "1 is done under the token 1"},
		"an order is answered": {history: []storeEntries{
			begun, accepted, answered, answered.with(onward), answered.with(onward).with(second(coordination.Answer{Intent: 1, Step: 1, Token: 1})),
			answered.with(onward).with(second(coordination.Answer{Intent: 1, Step: 1, Token: 1, Done: true})),
		}},
		"an order is fenced":                {history: []storeEntries{begun, accepted, fenced, fenced.with(onward)}},
		"two are accepted together":         {history: []storeEntries{begun, accepted, accepted.with(second(coordination.Answer{Intent: 1, Token: 1})), answered.with(second(coordination.Answer{Intent: 1, Token: 1, Done: true}))}},
		"an answer moves to another prefix": {history: []storeEntries{begun, accepted, accepted.with(storeEntries{"answers/a/a-1": "", "answers/x/a-1": accepted["answers/a/a-1"]}), answered.with(storeEntries{"answers/a/a-1": "", "answers/x/a-1": answered["answers/a/a-1"]})}},
		"an order is never answered":        {history: []storeEntries{begun, accepted}, want: "nobody has answered step 0 of 1 for a-1"},
		"a step does not wait":              {history: []storeEntries{begun, accepted, accepted.with(onward)}, want: "nobody has answered step 0 of 1 for a-1, and it is gone on from there"},
		"an end does not wait":              {history: []storeEntries{taken, taken.with(storeEntries{"answers/a/a-1": answer(coordination.Answer{Intent: 1, Step: 1, Token: 2})}), ended.with(storeEntries{"answers/a/a-1": answer(coordination.Answer{Intent: 1, Step: 1, Token: 2})})}, want: "nobody has answered step 1 of 1 for a-1, and it is gone on"},
		"an order is forgotten":             {history: []storeEntries{begun, accepted, begun}, want: "step 0 of 1 for a-1 was accepted and is forgotten"},
		"an answer comes first":             {history: []storeEntries{begun, answered}, want: "step 0 of 1 for a-1 is answered and was never accepted"},
		"an old step is accepted":           {history: []storeEntries{begun, further, further.with(storeEntries{"answers/a/a-1": accepted["answers/a/a-1"]})}, want: "step 0 of 1 for a-1 is accepted under the token 1, and is not what is ordered"},
		"an order is accepted too late":     {history: []storeEntries{ended, ended.with(storeEntries{"answers/a/a-1": accepted["answers/a/a-1"]})}, want: "is not what is ordered"},
		"an old token is accepted":          {history: []storeEntries{taken, taken.with(storeEntries{"answers/a/a-1": answer(coordination.Answer{Intent: 1, Step: 1, Token: 1})})}, want: "is accepted under the token 1, and is not what is ordered"},
		"two of different steps are accepted": {
			history: []storeEntries{begun, accepted, accepted.with(onward).with(second(coordination.Answer{Intent: 1, Step: 1, Token: 1}))},
			want:    "step 1 of 1 for b-1 is accepted while nobody has answered step 0 of 1 for a-1",
		},
		"what was done is rewritten": {
			history: []storeEntries{begun, left, taken, ended, ended.with(storeEntries{"done/1": done(1, 2, "a")})}, want: "what was said of 1 is changed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory()
			for _, entries := range test.history {
				now, err := decodeState(entries)
				if err != nil {
					t.Fatal(err)
				}
				now.ended = func(session string) bool { return slices.Contains(test.over, session) }
				h.advance(now)
			}
			h.checkEnd()
			expectViolation(t, h.violations, test.want)
		})
	}
}

// expectViolation checks that a checker has found the expected violation, or none.
func expectViolation(t *testing.T, wrong []string, want string) {
	t.Helper()
	all := strings.Join(wrong, "\n")
	if want == "" && all != "" || !strings.Contains(all, want) {
		t.Errorf("it found %q, want %q", wrong, want)
	}
}

func TestOrderCheckerFindsViolations(t *testing.T) {
	for name, test := range map[string]struct {
		orders []order
		want   string
	}{
		"all is well":         {orders: []order{{Member: "a-1", Order: "1/0/restart", Token: 1}, {Member: "a-2", Order: "1/0/restart", Token: 1}, {Member: "a-1", Order: "1/1/stop", Token: 3}}},
		"one is repeated":     {orders: []order{{Member: "a-1", Order: "1/0/restart", Token: 1}, {Member: "a-1", Order: "1/0/restart", Token: 2}}, want: "1/0/restart of a-1 was carried out twice"},
		"one has an old one":  {orders: []order{{Member: "a-1", Order: "2/0/restart", Token: 2}, {Member: "a-2", Order: "1/0/restart", Token: 1}}, want: "under the token 1 after 2"},
		"systems count alone": {orders: []order{{System: "a", Member: "a-1", Order: "a/7/0/restart", Token: 7}, {System: "b", Member: "b-1", Order: "b/1/0/restart", Token: 1}}},
		"one is for a stranger": {
			orders: []order{{System: "a", Member: "a-1", Order: "a/1/0/start", Token: 1}, {System: "b", Member: "a-1", Order: "b/1/0/restart", Token: 1}},
			want:   `b/1/0/restart of a-1 was carried out for "b", and the member is one of "a"`,
		},
		"an old one is later": {orders: []order{{Order: "3", Token: 3}, {Order: "1", Token: 1}, {Order: "2", Token: 2}}, want: "under the token 2 after 3"},
	} {
		t.Run(name, func(t *testing.T) { expectViolation(t, invalidOrders(test.orders), test.want) })
	}
}

// Orders are compared with the history of the coordination.
func TestUnjustifiedOrdersAreFound(t *testing.T) {
	h := newHistory()
	for _, entries := range []storeEntries{
		{"lock": written(t, coordination.Lock{Holder: "a", Token: 1}), "token": "1", "intent": written(t, coordination.Intent{ID: 1, Token: 1, Holder: "a"})},
		{
			"lock": written(t, coordination.Lock{Holder: "a", Token: 1}), "token": "1", "intent": written(t, coordination.Intent{ID: 1, Token: 1, Holder: "a"}),
			"answers/a/a-1": written(t, coordination.Answer{Intent: 1, Token: 1}),
		},
		{"lock": written(t, coordination.Lock{Holder: "b", Token: 3}), "token": "3"}, // in local mode
	} {
		now, err := decodeState(entries)
		if err != nil {
			t.Fatal(err)
		}
		h.advance(now)
	}
	for name, test := range map[string]struct {
		order order
		want  string
	}{
		"it was accepted":         {order{System: "s", Member: "a-1", Order: "s/1/0/restart", Token: 1}, ""},
		"it is one's own":         {order{System: "s", Member: "b-1", Order: "s/3/0/restart", Token: 3}, ""},
		"of another system":       {order{System: "t", Member: "a-1", Order: "t/7/0/restart", Token: 7}, ""},
		"the first member":        {order{System: "s", Member: "a-1", Order: "bootstrap", Token: 1}, ""},
		"under another token":     {order{System: "s", Member: "a-1", Order: "s/1/0/restart", Token: 2}, "under the token 2, and was not accepted under it"},
		"another step":            {order{System: "s", Member: "a-1", Order: "s/1/1/restart", Token: 1}, "s/1/1/restart of a-1 was carried out under the token 1"},
		"for another member":      {order{System: "s", Member: "a-2", Order: "s/1/0/restart", Token: 1}, "was not accepted under it"},
		"nobody had the token":    {order{System: "s", Member: "b-1", Order: "s/2/0/restart", Token: 2}, "under the token 2, and nobody had it"},
		"it has another form":     {order{System: "s", Member: "a-1", Order: "1/0/restart", Token: 1}, "is not an order of the library"},
		"it has hardly any":       {order{System: "s", Member: "a-1", Order: "late", Token: 1}, "is not an order of the library"},
		"its numbers are nothing": {order{System: "s", Member: "a-1", Order: "s/a/b/restart", Token: 1}, "is not an order of the library"},
	} {
		t.Run(name, func(t *testing.T) { expectViolation(t, h.unjustifiedOrders("s", []order{test.order}), test.want) })
	}
}

func TestOverlapsAreChecked(t *testing.T) {
	at := func(name, system, member string, from, until int) order {
		start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		o := order{System: system, Member: member, Order: system + "/" + name, TS: start.Add(time.Duration(from) * time.Second)}
		if until > 0 {
			o.Until = start.Add(time.Duration(until) * time.Second)
		}
		return o
	}
	for name, test := range map[string]struct {
		orders []order
		want   string
	}{
		"one after the other":    {orders: []order{at("1/0/restart", "s", "a-1", 1, 2), at("1/1/restart", "s", "b-1", 2, 3)}},
		"all of one step":        {orders: []order{at("1/0/restart", "s", "a-1", 1, 3), at("1/0/restart", "s", "b-1", 2, 4)}},
		"of different systems":   {orders: []order{at("1/0/restart", "s", "a-1", 1, 3), at("1/1/restart", "t", "b-1", 2, 4)}},
		"one has failed":         {orders: []order{at("1/0/restart", "s", "a-1", 1, 0), at("1/1/restart", "s", "b-1", 2, 4)}},
		"different steps":        {orders: []order{at("1/0/restart", "s", "a-1", 1, 3), at("1/1/restart", "s", "b-1", 2, 4)}, want: "s/1/0/restart of a-1 and s/1/1/restart of b-1"},
		"one within the other":   {orders: []order{at("1/1/restart", "s", "b-1", 2, 3), at("1/0/restart", "s", "a-1", 1, 4)}, want: "at the same time"},
		"of different intents":   {orders: []order{at("1/0/restart", "s", "a-1", 1, 3), at("2/0/restart", "s", "b-1", 2, 4)}, want: "at the same time"},
		"those that share a bit": {orders: []order{at("1/1/restart", "s", "a-1", 1, 3), at("1/10/restart", "s", "b-1", 2, 4)}, want: "at the same time"},
	} {
		t.Run(name, func(t *testing.T) { expectViolation(t, overlappingOrders(test.orders), test.want) })
	}
}

func TestRestartsDuringDowntimeAreFound(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 12, 0, second, 0, time.UTC) }
	restart := order{System: "s", Member: "a-1", Order: "s/1/0/restart", TS: at(5)}
	for name, test := range map[string]struct {
		order order
		down  downtime
		want  string
	}{
		"its own member":   {restart, downtime{"s", "a-1", at(1), at(9)}, ""},
		"before":           {restart, downtime{"s", "b-1", at(1), at(4)}, ""},
		"after":            {restart, downtime{"s", "b-1", at(6), at(9)}, ""},
		"a start":          {order{System: "s", Member: "a-1", Order: "s/1/0/start", TS: at(5)}, downtime{"s", "b-1", at(1), at(9)}, ""},
		"another system":   {restart, downtime{"t", "b-1", at(1), at(9)}, ""},
		"at the same time": {restart, downtime{"s", "b-1", at(4), at(7)}, "s/1/0/restart of a-1 began while b-1 was down, from 1s before until 2s after"},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, restartsWhileDown([]order{test.order}, []downtime{test.down}), test.want)
		})
	}
}

func TestGrantsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		locks []coordination.Lock
		want  string
	}{
		"all is well":        {locks: []coordination.Lock{{Holder: "a", Token: 1}, {Holder: "a", Token: 1}, {Holder: "b", Token: 2}, {Holder: "a", Token: 4}}},
		"two have one token": {locks: []coordination.Lock{{Holder: "a", Token: 1}, {Holder: "b", Token: 1}}, want: "a and b both have the token 1"},
		"an old one is back": {locks: []coordination.Lock{{Holder: "a", Token: 1}, {Holder: "b", Token: 2}, {Holder: "a", Token: 1}}, want: "a has the token 1 after 2"},
		"one has an old one": {locks: []coordination.Lock{{Holder: "a", Token: 2}, {Holder: "b", Token: 1}}, want: "b has the token 1 after 2"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := grants{}
			var wrong []string
			for _, lock := range test.locks {
				wrong = append(wrong, seen.record(&lock)...)
			}
			expectViolation(t, wrong, test.want)
		})
	}
}

func TestLedgerIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		read []string
		end  map[string]string
		// wrong is found by reads, lost at the end.
		wrong string
		lost  []string
	}{
		"all is well":            {read: []string{"2"}, end: map[string]string{"a": "1", "b": "2", "c": "not acknowledged"}},
		"a read does not see it": {end: map[string]string{"a": "1", "b": "2"}, wrong: "b was acknowledged as 2, and [] was read"},
		"a read sees another":    {read: []string{"1"}, end: map[string]string{"a": "1", "b": "2"}, wrong: "and [1] was read"},
		"one is lost":            {read: []string{"2"}, end: map[string]string{"b": "2"}, lost: []string{"a"}},
		"one is another":         {read: []string{"2"}, end: map[string]string{"a": "1", "b": "1"}, lost: []string{"b"}},
		"all are lost":           {read: []string{"2"}, lost: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.recordWrite("a", "1")
			l.recordWrite("b", "2")
			l.recordRead(l.last, test.read...)
			expectViolation(t, l.violations, test.wrong)
			if diff := cmp.Diff(test.lost, l.lostKeys(test.end), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("lost: (-want +got)\n%s", diff)
			}
		})
	}
}
