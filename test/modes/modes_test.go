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
	// The tests mostly wait for Leases, so more can run than there are cores.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	rig.Main(m, rig.Options{})
}

// manifests is the folder of the operator's manifests, relative to the root of the repository.
const manifests = "examples/webhosting/config/"

// ring is the name of the ring in all manifests.
const ring = "webhosting-operator"

// mode describes the external differences between modes.
type mode struct {
	flag  shard.Mode
	roles []string
	// election is the name of the instances' election Lease, or "".
	election string
	// external is whether an external sharder is needed.
	external bool
}

// sharded reports whether all instances reconcile.
func (m mode) sharded() bool { return m.flag != shard.ModeLead }

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

// longBehaviours are skipped in a mode except by 'make test-long'. The mode shard has all behaviours.
var longBehaviours = map[string][]string{
	"lead":       {"ThemeOfMany", "APIServerAway"},
	"in-process": {"ThemeOfMany"},
}

// TestModes runs the same behaviours in all modes. Each leaves the same number of instances.
//
//nolint:tparallel // one behaviour after the other, because they share the instances
func TestModes(t *testing.T) {
	t.Parallel()
	for name, m := range modes {
		t.Run(name, func(t *testing.T) {
			skipped := longBehaviours[name]
			s := newScenario(t, m)
			for range instances {
				s.launch("")
			}
			s.populate(population)
			s.ready()
			for name, test := range map[string]func(*scenario){
				"Serves":         serves,
				"Heals":          heals,
				"ThemeChanges":   themeChanges,
				"ThemeIsMissing": themeIsMissing,
				"ThemeOfMany":    func(s *scenario) { themeOfMany(s, 60) },
				"GeneratesNames": generatesNames,
				"Killed":         killed,
				"Stopped":        stopped,
				"Paused":         paused,
				"Joined":         joined,
				"ElectionLost":   electionLost,
				"APIServerAway":  apiServerAway,
			} {
				if !inAll && slices.Contains(skipped, name) {
					continue
				}
				if !t.Run(name, func(t *testing.T) { test(s.scenario(t)) }) {
					t.FailNow() // the other behaviours need all instances
				}
			}
			s.checkHistory()
		})
	}
}
