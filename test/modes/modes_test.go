package modes

import (
	"flag"
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
	"github.com/ringmaster-project/ringmaster/internal/rig"
	"github.com/ringmaster-project/ringmaster/pkg/shard"
)

func TestMain(m *testing.M) {
	if err := shardingv1alpha1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	// They wait for Leases most of the time, so there can be more of them than cores.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{})
}

// Where the operator's manifests are, seen from the repository's root.
const manifests = "examples/webhosting/config/"

// ring is its name in all manifests.
const ring = "webhosting-operator"

// mode is what differs between the modes, seen from outside.
type mode struct {
	flag  shard.Mode
	roles []string
	// election is the Lease of the instances' election, if they have one.
	election string
	// external is whether a sharder has to be there.
	external bool
}

// spread is whether all instances work.
func (m mode) spread() bool { return m.flag != shard.ModeLead }

var operatorRoles = []string{manifests + "rbac"}

var (
	lead      = mode{flag: shard.ModeLead, roles: operatorRoles, election: ring + "-leader"}
	external  = mode{flag: shard.ModeShard, roles: operatorRoles, external: true}
	inProcess = mode{
		flag: shard.ModeInProcess, election: ring + "-sharder",
		roles: slices.Concat(operatorRoles, []string{manifests + "in-process/sharder-role.yaml"}),
	}
)

var modes = map[string]mode{"lead": lead, "shard": external, "in-process": inProcess}

// leftOut are the long behaviours that are left out of a mode unless all are tested in all: 'make test-long'. The mode
// shard has all of them.
var leftOut = map[string][]string{
	"lead":       {"ThemeOfMany", "APIServerAway"},
	"in-process": {"ThemeOfMany"},
}

// TestModes is the same for all modes. Behaviours leave as many instances as they found.
//
//nolint:tparallel // one mode after the other: two cores have no room for all
func TestModes(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		t.Run(name, func(t *testing.T) {
			left := leftOut[name]
			s := setStage(t, m)
			for range instances {
				s.launch("")
			}
			s.populate(population)
			s.ready()
			for name, play := range map[string]func(*scene){
				"Serves":         serves,
				"Heals":          heals,
				"ThemeChanges":   themeChanges,
				"ThemeIsMissing": themeIsMissing,
				"ThemeOfMany":    func(s *scene) { themeOfMany(s, 60) },
				"GeneratesNames": generatesNames,
				"Killed":         killed,
				"Stopped":        stopped,
				"Paused":         paused,
				"Joined":         joined,
				"ElectionLost":   electionLost,
				"APIServerAway":  apiServerAway,
			} {
				if !inAll && slices.Contains(left, name) {
					continue
				}
				if !t.Run(name, func(t *testing.T) { play(s.scene(t)) }) {
					t.FailNow() // the others would wait in vain for what is missing now
				}
			}
			s.judge()
		})
	}
}
