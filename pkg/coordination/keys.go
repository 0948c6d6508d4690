package coordination

import (
	"fmt"
	"strings"
)

// DefaultRoot is where the keys of all systems are.
const DefaultRoot = "/ringmaster.sharding.timebertt.dev/coordination"

// keys are those of one system.
type keys struct{ root string }

func newKeys(root, system string) keys { return keys{root + "/" + system} }

// ofSet is where the entries of a set are: of all instances, or of those with one prefix.
func (k keys) ofSet(set Set, prefix ...string) string { return k.join(string(set), prefix...) }

func (k keys) member(set Set, prefix string, id MemberID) string {
	return k.join(string(set), prefix, string(id))
}

// ownedBy are the paths of all that an instance with a prefix writes, but for the marker and the registration.
func (k keys) ownedBy(prefix string) []string {
	paths := []string{k.denied(prefix), k.answers(prefix)}
	for _, set := range Sets() {
		paths = append(paths, k.ofSet(set, prefix))
	}
	return paths
}

// changes has a marker for each prefix, which is written with every change to what is the prefix's own: a
// transaction can be bound to there being none, also no deletion.
func (k keys) changes(prefix ...string) string { return k.join("changes", prefix...) }

func (k keys) instances(more ...string) string { return k.join("instances", more...) }
func (k keys) denied(more ...string) string    { return k.join("denied", more...) }
func (k keys) answers(more ...string) string   { return k.join("answers", more...) }
func (k keys) done(more ...string) string      { return k.join("done", more...) }
func (k keys) lock() string                    { return k.join("lock") }
func (k keys) token() string                   { return k.join("token") }
func (k keys) intent() string                  { return k.join("intent") }

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

// checkSystem tells whether a system can have a name.
func checkSystem(name string) error {
	if strings.HasPrefix(name, ".") {
		return fmt.Errorf("the system's name %q begins with a dot, which is for what a store itself keeps", name)
	}
	return checkSegment("the system's name", name)
}

const maxSegment = 253

// checkSegment tells whether a name can be a part of a key: prefixes are compared as whole parts, so none may
// contain what separates them.
func checkSegment(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > maxSegment:
		return fmt.Errorf("%s %q is longer than %d characters", what, name, maxSegment)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r < ' ' || r == 0x7f }):
		return fmt.Errorf("%s %q contains a slash or a control character", what, name)
	}
	return nil
}
