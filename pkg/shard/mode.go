package shard

import (
	"fmt"
	"slices"
	"strings"
)

// Mode is how the processes of an operator divide its objects. The operator's code is the same in all
// modes.
type Mode string

// The modes. The default is ModeShard.
const (
	// ModeShard is a shard: it reconciles the objects that an external sharder assigns to it.
	ModeShard Mode = "shard"
	// ModeInProcess is a shard, and one of the shards is elected the sharder. Nothing has to be installed.
	ModeInProcess Mode = "in-process"
	// ModeSharder reconciles no objects. It takes part in the election of the sharder.
	ModeSharder Mode = "sharder"
	// ModeLead reconciles all objects while it leads. The other processes are on standby with warm caches.
	ModeLead Mode = "lead"
	// ModeAlone reconciles all objects without an election. It is for development: two such processes
	// would conflict.
	ModeAlone Mode = "alone"
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
		return fmt.Errorf("unknown mode %q (available: %s)", value, strings.Join(known, ", "))
	}
	*m = Mode(value)
	return nil
}

// Type is the type that the help of a flag shows.
func (*Mode) Type() string { return "mode" }

// sharded reports whether the processes divide the objects among them.
func (m Mode) sharded() bool { return m == ModeShard || m == ModeInProcess || m == ModeSharder }

// reconciles reports whether sharded controllers run in this process.
func (m Mode) reconciles() bool { return m != ModeSharder }

// canBeSharder reports whether this process can be elected the sharder.
func (m Mode) canBeSharder() bool { return m == ModeInProcess || m == ModeSharder }

// needsElection reports whether the manager takes part in an election that this package configures.
func (m Mode) needsElection() bool { return m == ModeLead || m.canBeSharder() }
