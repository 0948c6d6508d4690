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

	// entries are as they were read, and keys what they are below.
	entries map[string]kv.Entry
	keys    keys
	// asking are the prefixes of all participants that have an entry of a member in a set.
	asking map[Set]map[MemberID][]string
	// answersBelow are the prefixes below which the answers are.
	answersBelow map[MemberID]string
	// processes are all that are alive, the newest of a participant first.
	processes []Instance
	// incomplete are the prefixes of which entries are missing.
	incomplete []string
}

// view reads all of it.
func (c *Coordinator) view(ctx context.Context) (*View, error) {
	view, err := look(ctx, c.store, c.keys, c.system)
	if err == nil {
		c.verify(view)
		c.verifyLock(view)
	}
	return view, err
}

// snapshot is what the view was made of.
func (v *View) snapshot() *kv.Snapshot { return &kv.Snapshot{Revision: v.Revision, Entries: v.entries} }

// ReadView reads the state of a system, for a program that is not a participant. An empty root means DefaultRoot.
func ReadView(ctx context.Context, store kv.Store, root, system string) (*View, error) {
	if err := checkSystem(system); err != nil {
		return nil, err
	}
	if root == "" {
		root = DefaultRoot
	}
	return look(ctx, store, newKeys(root, system), system)
}

func look(ctx context.Context, store kv.Store, k keys, system string) (*View, error) {
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
		entries: found.Entries, keys: k, answersBelow: map[MemberID]string{},
	}
	v.asking = k.asking(found)
	for set := range v.asking {
		v.Sets[set] = k.members(found, set)
	}
	v.processes = k.processes(found)
	for _, process := range v.processes {
		if !slices.ContainsFunc(v.processes, func(other Instance) bool { return other.Name == process.Name && other.newer(process) }) {
			v.Instances = append(v.Instances, process)
		}
	}
	for key, entry := range found.Entries {
		if err := v.add(k.split(key), entry.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	slices.Sort(v.incomplete)
	slices.SortFunc(v.Participants, func(a, b Participant) int { return strings.Compare(a.Prefix, b.Prefix) })
	slices.SortFunc(v.DoneRecords, func(a, b DoneRecord) int { return int(b.Token - a.Token) })
	for _, by := range v.Denied {
		slices.Sort(by)
	}
	return v, nil
}

// add decodes an entry. It ignores unknown entries, which a newer version has written.
func (v *View) add(at []string, value string) (err error) {
	read := func(into any) error { return json.Unmarshal([]byte(value), into) }
	switch {
	case len(at) == 1 && at[0] == kindLock:
		v.Lock = &Lock{}
		return read(v.Lock)
	case len(at) == 1 && at[0] == kindToken:
		v.Token, err = parseToken(value)
		return err
	case len(at) == 1 && at[0] == kindIntent:
		v.Intent = &Intent{}
		return read(v.Intent)
	case len(at) == 2 && at[0] == kindDone:
		var done DoneRecord
		err = read(&done)
		v.DoneRecords = append(v.DoneRecords, done)
	case len(at) == 2 && at[0] == kindParticipants:
		var participant Participant
		err = read(&participant)
		participant.Prefix = at[1]
		v.Participants = append(v.Participants, participant)
	case len(at) == 2 && at[0] == kindChanges:
		if understoodMarker(value).Incomplete {
			v.incomplete = append(v.incomplete, at[1])
		}
	case len(at) == 3 && at[0] == kindDenied:
		v.Denied[at[2]] = append(v.Denied[at[2]], at[1])
	case len(at) == 3 && at[0] == kindAnswers:
		var answer Answer
		err = read(&answer)
		v.addAnswer(at[1], MemberID(at[2]), answer)
	}
	return err
}

// addAnswer keeps the answer to the latest step. If two participants have answered it, because the first one has died, the answer
// that was written last counts.
func (v *View) addAnswer(prefix string, id MemberID, answer Answer) {
	version := func(prefix string) int64 { return v.entries[v.keys.answers(prefix, string(id))].Version }
	other, given := v.Answers[id]
	if !given || other.before(answer) || !answer.before(other) && version(v.answersBelow[id]) < version(prefix) {
		v.Answers[id], v.answersBelow[id] = answer, prefix
	}
}

// Present reports whether the participant with a prefix is alive and takes part.
func (v *View) Present(prefix string) bool {
	return slices.ContainsFunc(v.Instances, func(i Instance) bool { return i.Prefix == prefix })
}

// knows tells whether a participant with a prefix has joined and not left, whether it is alive or not.
func (v *View) knows(prefix string) bool {
	return slices.ContainsFunc(v.Participants, func(p Participant) bool { return p.Prefix == prefix })
}

// nameOf is that of the participant with a prefix.
func (v *View) nameOf(prefix string) string {
	for _, participant := range v.Participants {
		if participant.Prefix == prefix {
			return participant.Name
		}
	}
	return ""
}

// needed are all actions that members need and that were not done.
func (v *View) needed() needed {
	all := needed{}
	for set, members := range v.Sets {
		if pending, _ := set.action().Sets(); set != pending {
			continue
		}
		for id, member := range members {
			if !v.acted(set, id) {
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
// leaving. Leaving are the actions that remove a member from the system: their entries count even after they are done. The result may
// be empty.
func (v *View) Candidates(of []MemberID, leaving ...Action) []MemberID {
	return slices.DeleteFunc(slices.Clone(of), func(id MemberID) bool {
		for set, members := range v.Sets {
			action := set.action()
			pending, _ := action.Sets()
			_, needed := members[id]
			if set == pending && needed && (slices.Contains(leaving, action) || !v.acted(set, id)) {
				return true
			}
		}
		return false
	})
}

// acted tells whether what an entry asks for was done, and its instance has not yet seen it.
func (v *View) acted(pending Set, id MemberID) bool {
	member, exists := v.Sets[pending][id]
	return exists && v.actedAt(pending, id, member.Version)
}

// actedAt tells whether what was asked for a member at a version, or at a later one, was done.
func (v *View) actedAt(pending Set, id MemberID, version int64) bool {
	return slices.ContainsFunc(v.DoneRecords, func(done DoneRecord) bool {
		set, _ := done.Action.Sets()
		return set == pending && done.Failure == "" && done.Members[id] >= version
	})
}

// acted returns the versions of those entries that were acted upon, by their keys, and the keys of what says that the
// members are ready which are being acted upon.
func (k keys) acted(found *kv.Snapshot) (done map[string]int64, acting map[string]bool) {
	done, acting = map[string]int64{}, map[string]bool{}
	v, err := k.view(found)
	if err != nil {
		return done, acting // a record of a newer version; nothing is known to be done
	}
	for set, members := range v.asking {
		for id, prefixes := range members {
			for _, prefix := range prefixes {
				key := k.member(set, prefix, id)
				if version := v.entries[key].Version; v.actedAt(set, id, version) {
					done[key] = version
				}
			}
		}
	}
	if v.Intent != nil {
		pending, ready := v.Intent.Action.Sets()
		for id, version := range v.Intent.Members {
			for _, prefix := range v.asking[pending][id] {
				if v.entries[k.member(pending, prefix, id)].Version <= version {
					acting[k.member(ready, prefix, id)] = true
				}
			}
		}
	}
	return done, acting
}
