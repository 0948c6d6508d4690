package coordination

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Mode says whether an instance takes part.
type Mode string

const (
	// Local is the default: the instance touches no key of the sets and says nothing of itself. It can still use
	// the lock.
	Local Mode = "local"
	// Global means that it coordinates with the others.
	Global Mode = "global"
)

// Settings are what may change while a participant runs. People set them in the resource of the participant.
type Settings struct {
	// Mode is local unless it is set.
	Mode Mode `json:"mode,omitempty"`
	// Prefix is that of the members which belong to this participant. No other participant has it.
	Prefix string `json:"prefix,omitempty"`
	// Generation is that of the spec which the participant works on.
	Generation int64 `json:"generation,omitempty"`
	// Denied are names of participants that may not hold the lock. One that holds it nevertheless loses it to the next one
	// that wants it.
	Denied []string `json:"denied,omitempty"`
	// Expected are prefixes of participants without which no action begins, also if they have not said anything yet.
	Expected []string `json:"expected,omitempty"`
	// Policy says how patient actions are, and Policies how patient those are that differ from it.
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

// clone is a copy that has every denied name and every expected prefix once.
func (s Settings) clone() Settings {
	s.Denied = slices.Compact(slices.Sorted(slices.Values(s.Denied)))
	s.Expected = slices.Compact(slices.Sorted(slices.Values(s.Expected)))
	s.Policies = maps.Clone(s.Policies)
	return s
}

func (s Settings) equal(other Settings) bool { return reflect.DeepEqual(s.clone(), other.clone()) }
