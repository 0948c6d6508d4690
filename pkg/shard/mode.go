package shard

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is how the instances of an operator share the work. All modes run the same code.
type Mode string

// The modes. The one that is not set is ModeShard.
const (
	// ModeShard is a shard: it works on the objects that an external sharder gives it.
	ModeShard Mode = "shard"
	// ModeInProcess is a shard, and one of the shards is elected to be the sharder too. There is nothing to install.
	ModeInProcess Mode = "in-process"
	// ModeSharder works on no objects. It is elected to be the sharder of the others, or waits for it.
	ModeSharder Mode = "sharder"
	// ModeLead works on all objects while it leads. The others wait with warm caches.
	ModeLead Mode = "lead"
	// ModeAlone works on all objects at once, without any election. It is for development: two of it would be
	// in each other's way.
	ModeAlone Mode = "alone"

	// ModeBoth is the former name of ModeInProcess.
	//
	// Deprecated: use ModeInProcess.
	ModeBoth = ModeInProcess
)

var modes = []Mode{ModeShard, ModeInProcess, ModeSharder, ModeLead, ModeAlone}

// String implements flag.Value.
func (m *Mode) String() string { return string(*m) }

// Set implements flag.Value.
func (m *Mode) Set(value string) error {
	if !slices.Contains(modes, Mode(value)) {
		var known []string
		for _, mode := range modes {
			known = append(known, string(mode))
		}
		return fmt.Errorf("there is no mode %q: choose one of %s", value, strings.Join(known, ", "))
	}
	*m = Mode(value)
	return nil
}

// Type is for flags that show it.
func (*Mode) Type() string { return "mode" }

// spread tells whether objects are spread over the instances.
func (m Mode) spread() bool { return m == ModeShard || m == ModeInProcess || m == ModeSharder }

// works tells whether sharded controllers run in this process.
func (m Mode) works() bool { return m != ModeSharder }

// sharder tells whether this process can be elected to be the sharder.
func (m Mode) sharder() bool { return m == ModeInProcess || m == ModeSharder }

// elects tells whether the manager takes part in an election that this package prepares.
func (m Mode) elects() bool { return m == ModeLead || m.sharder() }
