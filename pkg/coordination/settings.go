package coordination

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Mode is whether a participant takes part in the coordination.
type Mode string

const (
	// Local is the default: the participant does not register and declares no needs. It acts on its own members under the lock.
	Local Mode = "local"
	// Global means that the participant takes part in the coordination.
	Global Mode = "global"
)

// Settings are the options that may change while a participant runs, usually set in its custom resource.
type Settings struct {
	// Mode defaults to Local.
	Mode Mode `json:"mode,omitempty"`
	// Prefix is the unique prefix of this participant, below which its members are stored.
	Prefix string `json:"prefix,omitempty"`
	// Generation is the generation of the spec that the participant works on. It is informational.
	Generation int64 `json:"generation,omitempty"`
	// Denied are the names of participants that may not hold the lock. If one of them holds it, the next participant takes it over.
	Denied []string `json:"denied,omitempty"`
	// Expected are the prefixes of participants that have to be present before an action begins, also if they have never joined.
	Expected []string `json:"expected,omitempty"`
	// Policy is the policy of all actions, except those in Policies, which have their own.
	Policy   Policy            `json:"policy,omitzero"`
	Policies map[Action]Policy `json:"policies,omitempty"`
}

func (s Settings) check() error {
	if err := s.Policy.check("Settings.Policy"); err != nil {
		return err
	}
	for action, policy := range s.Policies {
		where := fmt.Sprintf("Settings.Policies[%s]", action)
		if err := action.check(); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		if err := policy.check(where); err != nil {
			return err
		}
	}
	switch s.Mode {
	case "", Local:
		return nil
	case Global:
	default:
		return fmt.Errorf("Settings.Mode %q is unknown: use %s or %s", s.Mode, Local, Global)
	}
	if err := checkSegment("Settings.Prefix", s.Prefix); err != nil {
		return err
	}
	for _, name := range s.Denied {
		if err := checkSegment("a name in Settings.Denied", name); err != nil {
			return err
		}
	}
	for _, prefix := range s.Expected {
		if err := checkSegment("a prefix in Settings.Expected", prefix); err != nil {
			return err
		}
	}
	return nil
}

// clone returns a copy with sorted lists without duplicates.
func (s Settings) clone() Settings {
	s.Denied = slices.Compact(slices.Sorted(slices.Values(s.Denied)))
	s.Expected = slices.Compact(slices.Sorted(slices.Values(s.Expected)))
	s.Policies = maps.Clone(s.Policies)
	return s
}

func (s Settings) equal(other Settings) bool { return reflect.DeepEqual(s.clone(), other.clone()) }
