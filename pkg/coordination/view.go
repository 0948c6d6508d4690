package coordination

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// View is the state of the coordination, read at one revision.
type View struct {
	System   string `json:"system"`
	Revision int64  `json:"revision"`
	// Participants are all participants that have joined and not left, alive or not, sorted by prefix.
	Participants []Participant `json:"participants,omitempty"`
	// Instances are the processes of the live participants, sorted by prefix and name: if there are several, the newest one.
	Instances []Instance `json:"instances"`
	// Sets are the sets that are not empty.
	Sets map[Set]Members `json:"sets"`
	// Denied are the participants that may not hold the lock, with the prefixes of the participants that deny them.
	Denied map[string][]string `json:"denied,omitempty"`
	Lock   *Lock               `json:"lock,omitempty"`
	// Token is the newest fencing token.
	Token  int64   `json:"token"`
	Intent *Intent `json:"intent,omitempty"`
	// DoneRecords are the latest done records, the newest first.
	DoneRecords []DoneRecord        `json:"done,omitempty"`
	Answers     map[MemberID]Answer `json:"answers,omitempty"`

	// entries are the entries as read, below the root of keys.
	entries map[string]kv.Entry
	keys    keys
	// declaredBy are the prefixes of the participants with an entry of a member in a set.
	declaredBy map[Set]map[MemberID][]string
	// answerPrefixes are the prefixes of the answers.
	answerPrefixes map[MemberID]string
	// processes are all live processes, the newest of each participant first.
	processes []Instance
	// incomplete are the prefixes with an incomplete declaration.
	incomplete []string
}

// view reads the state of the system.
func (c *Coordinator) view(ctx context.Context) (*View, error) {
	view, err := readView(ctx, c.store, c.keys, c.system)
	if err == nil {
		c.verifyRegistration(view)
		c.verifyLock(view)
	}
	return view, err
}

// snapshot returns the snapshot from which the view was decoded.
func (v *View) snapshot() *kv.Snapshot { return &kv.Snapshot{Revision: v.Revision, Entries: v.entries} }

// ReadView reads the state of a system, for a program that is not a participant. An empty root means DefaultRoot.
func ReadView(ctx context.Context, store kv.Store, root, system string) (*View, error) {
	if err := checkSystem(system); err != nil {
		return nil, err
	}
	if root == "" {
		root = DefaultRoot
	}
	return readView(ctx, store, newKeys(root, system), system)
}

func readView(ctx context.Context, store kv.Store, k keys, system string) (*View, error) {
	found, err := store.Read(ctx, k.root)
	if err != nil {
		return nil, fmt.Errorf("reading the state of %s: %w", system, err)
	}
	view, err := k.view(found)
	if err != nil {
		return nil, fmt.Errorf("decoding the state of %s: %w", system, err)
	}
	view.System = system
	return view, nil
}

func (k keys) view(found *kv.Snapshot) (*View, error) {
	v := &View{
		Revision: found.Revision, Sets: map[Set]Members{}, Denied: map[string][]string{}, Answers: map[MemberID]Answer{},
		entries: found.Entries, keys: k, answerPrefixes: map[MemberID]string{},
	}
	v.declaredBy = k.declaredBy(found)
	for set := range v.declaredBy {
		v.Sets[set] = k.members(found, set)
	}
	v.processes = k.processes(found)
	for _, process := range v.processes {
		if !slices.ContainsFunc(v.processes, func(other Instance) bool { return other.Name == process.Name && other.newer(process) }) {
			v.Instances = append(v.Instances, process)
		}
	}
	for key, entry := range found.Entries {
		if err := v.decodeEntry(k.split(key), entry.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	slices.Sort(v.incomplete)
	slices.SortFunc(v.Participants, func(a, b Participant) int { return strings.Compare(a.Prefix, b.Prefix) })
	slices.SortFunc(v.DoneRecords, func(a, b DoneRecord) int { return int(b.Token - a.Token) })
	for _, prefixes := range v.Denied {
		slices.Sort(prefixes)
	}
	return v, nil
}

// decodeEntry decodes an entry, given the segments of its key. It ignores unknown entries, which a newer version has written.
func (v *View) decodeEntry(segments []string, value string) (err error) {
	read := func(into any) error { return json.Unmarshal([]byte(value), into) }
	switch {
	case len(segments) == 1 && segments[0] == kindLock:
		v.Lock = &Lock{}
		return read(v.Lock)
	case len(segments) == 1 && segments[0] == kindToken:
		v.Token, err = parseToken(value)
		return err
	case len(segments) == 1 && segments[0] == kindIntent:
		v.Intent = &Intent{}
		return read(v.Intent)
	case len(segments) == 2 && segments[0] == kindDone:
		var done DoneRecord
		err = read(&done)
		v.DoneRecords = append(v.DoneRecords, done)
	case len(segments) == 2 && segments[0] == kindParticipants:
		var participant Participant
		err = read(&participant)
		participant.Prefix = segments[1]
		v.Participants = append(v.Participants, participant)
	case len(segments) == 2 && segments[0] == kindChanges:
		if decodeMarker(value).Incomplete {
			v.incomplete = append(v.incomplete, segments[1])
		}
	case len(segments) == 3 && segments[0] == kindDenied:
		v.Denied[segments[2]] = append(v.Denied[segments[2]], segments[1])
	case len(segments) == 3 && segments[0] == kindAnswers:
		var answer Answer
		err = read(&answer)
		v.addAnswer(segments[1], MemberID(segments[2]), answer)
	}
	return err
}

// addAnswer keeps the answer to the latest step. If two participants have answered it, because the first one has died, the answer
// that was written last counts.
func (v *View) addAnswer(prefix string, id MemberID, answer Answer) {
	version := func(prefix string) int64 { return v.entries[v.keys.answers(prefix, string(id))].Version }
	other, ok := v.Answers[id]
	if !ok || other.before(answer) || !answer.before(other) && version(v.answerPrefixes[id]) < version(prefix) {
		v.Answers[id], v.answerPrefixes[id] = answer, prefix
	}
}

// Present reports whether the participant with a prefix is alive and takes part.
func (v *View) Present(prefix string) bool {
	return slices.ContainsFunc(v.Instances, func(i Instance) bool { return i.Prefix == prefix })
}

// hasJoined reports whether a participant with a prefix has joined and not left. It may be dead.
func (v *View) hasJoined(prefix string) bool {
	return slices.ContainsFunc(v.Participants, func(p Participant) bool { return p.Prefix == prefix })
}

// participantName returns the name of the participant with a prefix, or "".
func (v *View) participantName(prefix string) string {
	for _, participant := range v.Participants {
		if participant.Prefix == prefix {
			return participant.Name
		}
	}
	return ""
}

// needed returns all needs that are not done.
func (v *View) needed() needed {
	all := needed{}
	for set, members := range v.Sets {
		if pending, _ := set.action().Sets(); set != pending {
			continue
		}
		for id, member := range members {
			if !v.isDone(set, id) {
				all.add(id, set.action(), member.Version)
			}
		}
	}
	return all
}

// Absent returns those of the given prefixes whose participants do not take part: they are in local mode, not started or gone.
func (v *View) Absent(all ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), v.Present)
}

// Candidates returns those of the given members that may become the leader of the system: members that need no action, and are not
// leaving. leaving has the actions that remove a member from the system: their entries count even after they are done. The result may
// be empty.
func (v *View) Candidates(ids []MemberID, leaving ...Action) []MemberID {
	return slices.DeleteFunc(slices.Clone(ids), func(id MemberID) bool {
		for set, members := range v.Sets {
			action := set.action()
			pending, _ := action.Sets()
			_, needed := members[id]
			if set == pending && needed && (slices.Contains(leaving, action) || !v.isDone(set, id)) {
				return true
			}
		}
		return false
	})
}

// isDone reports whether the need of an entry is done. The participant has not withdrawn it yet.
func (v *View) isDone(pending Set, id MemberID) bool {
	member, exists := v.Sets[pending][id]
	return exists && v.isDoneAt(pending, id, member.Version)
}

// isDoneAt reports whether the need of an entry with this version, or a later one, is done.
func (v *View) isDoneAt(pending Set, id MemberID, version int64) bool {
	return slices.ContainsFunc(v.DoneRecords, func(done DoneRecord) bool {
		set, _ := done.Action.Sets()
		return set == pending && done.Failure == "" && done.Members[id] >= version
	})
}

// doneAndRunning returns the versions of the entries whose need is done, by key, and the keys of the ready entries whose action is in
// progress.
func (k keys) doneAndRunning(found *kv.Snapshot) (done map[string]int64, running map[string]bool) {
	done, running = map[string]int64{}, map[string]bool{}
	v, err := k.view(found)
	if err != nil {
		return done, running // a record of a newer version
	}
	for set, members := range v.declaredBy {
		for id, prefixes := range members {
			for _, prefix := range prefixes {
				key := k.member(set, prefix, id)
				if version := v.entries[key].Version; v.isDoneAt(set, id, version) {
					done[key] = version
				}
			}
		}
	}
	if v.Intent != nil {
		pending, ready := v.Intent.Action.Sets()
		for id, version := range v.Intent.Members {
			for _, prefix := range v.declaredBy[pending][id] {
				if v.entries[k.member(pending, prefix, id)].Version <= version {
					running[k.member(ready, prefix, id)] = true
				}
			}
		}
	}
	return done, running
}
