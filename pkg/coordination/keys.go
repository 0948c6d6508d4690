package coordination

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ringmaster-project/ringmaster/pkg/coordination/kv"
)

// DefaultRoot is the default prefix of the keys of all systems.
const DefaultRoot = "/ringmaster.sharding.timebertt.dev/coordination"

// Kinds of keys below the root of a system, beside the sets. The first segment after a kind is a prefix, unless said otherwise.
const (
	kindParticipants = "participants" // the settings of a participant; stays when its processes end
	kindInstances    = "instances"    // with name and session: a process that is alive; ends with its session
	kindDenied       = "denied"       // with name: a participant that may not hold the lock
	kindAnswers      = "answers"      // with member: an order that was accepted, and its outcome
	kindChanges      = "changes"      // a marker, written with every change to what a prefix owns
	kindDone         = "done"         // with a token instead of a prefix
	kindLock         = "lock"
	kindToken        = "token"
	kindIntent       = "intent"
)

// keys builds the keys of one system.
type keys struct{ root string }

func newKeys(root, system string) keys { return keys{root + "/" + system} }

// ofSet returns the path of the entries of a set, of all participants or of one prefix.
func (k keys) ofSet(set Set, prefix ...string) string { return k.join(string(set), prefix...) }

func (k keys) member(set Set, prefix string, id MemberID) string {
	return k.join(string(set), prefix, string(id))
}

// pathsOwnedBy returns the paths with entries of the participant with a prefix, except its marker and its registrations. It leaves out
// empty paths, because stores limit the operations of a transaction.
func (k keys) pathsOwnedBy(from *kv.Snapshot, prefix string) []string {
	paths := map[string]bool{}
	for key := range from.Entries {
		segments := k.split(key)
		if len(segments) >= 2 && segments[1] == prefix && (segments[0] == kindParticipants || segments[0] == kindDenied || segments[0] == kindAnswers || Set(segments[0]).known()) {
			paths[k.join(segments[0], prefix)] = true
		}
	}
	return sortedKeys(paths)
}

// changes has a marker for each prefix. A transaction with the condition that the marker has a version fails after any change of the
// prefix, also after a deletion.
func (k keys) changes(prefix ...string) string      { return k.join(kindChanges, prefix...) }
func (k keys) participants(prefix ...string) string { return k.join(kindParticipants, prefix...) }
func (k keys) instances(more ...string) string      { return k.join(kindInstances, more...) }
func (k keys) denied(more ...string) string         { return k.join(kindDenied, more...) }
func (k keys) answers(more ...string) string        { return k.join(kindAnswers, more...) }
func (k keys) done(more ...string) string           { return k.join(kindDone, more...) }
func (k keys) lock() string                         { return k.join(kindLock) }
func (k keys) token() string                        { return k.join(kindToken) }
func (k keys) intent() string                       { return k.join(kindIntent) }

func (k keys) join(kind string, more ...string) string {
	return strings.Join(append([]string{k.root, kind}, more...), "/")
}

// split returns the segments of a key below the root.
func (k keys) split(key string) []string {
	below, found := strings.CutPrefix(key, k.root+"/")
	if !found {
		return nil
	}
	return strings.Split(below, "/")
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// checkSystem returns an error if the name of a system is invalid.
func checkSystem(name string) error {
	if strings.HasPrefix(name, ".") {
		return fmt.Errorf("the system's name %q begins with a dot, which is reserved for the store: choose another one", name)
	}
	return checkSegment("the system's name", name)
}

const maxSegment = 253

// checkSegment returns an error if a name cannot be a segment of a key.
func checkSegment(field, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty: set it", field)
	case len(name) > maxSegment:
		return fmt.Errorf("%s %q has %d characters: choose one of at most %d", field, name, len(name), maxSegment)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f }):
		return fmt.Errorf("%s %q contains a slash or a control character: choose another one", field, name)
	}
	return nil
}
