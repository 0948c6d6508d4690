package coordination

import (
	"fmt"
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

// Settings are what may change while an instance runs. People set them in the resource of the instance.
type Settings struct {
	// Mode is local unless it is set.
	Mode Mode `json:"mode,omitempty"`
	// Prefix is that of the members which belong to this instance. No other instance has it.
	Prefix string `json:"prefix,omitempty"`
	// Generation is that of the spec which the instance works on.
	Generation int64 `json:"generation,omitempty"`
	// Denied are names of instances that may not hold the lock. Who holds it nevertheless loses it to the next one
	// that wants it.
	Denied []string `json:"denied,omitempty"`
}

func (s Settings) check() error {
	switch s.Mode {
	case "", Local:
		return nil
	case Global:
	default:
		return fmt.Errorf("the mode %q is neither %s nor %s", s.Mode, Local, Global)
	}
	if err := checkSegment("the prefix", s.Prefix); err != nil {
		return err
	}
	for _, name := range s.Denied {
		if err := checkSegment("the denied instance", name); err != nil {
			return err
		}
	}
	return nil
}

// clone is a copy that has every denied name once.
func (s Settings) clone() Settings {
	s.Denied = slices.Compact(slices.Sorted(slices.Values(s.Denied)))
	return s
}
