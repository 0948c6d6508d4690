package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	shardingv1alpha1 "github.com/ringmaster-project/ringmaster/api/sharding/v1alpha1"
)

// leaderOf returns the Lease of an operator whose leader is holder.
func leaderOf(holder string, changes ...func(*coordinationv1.Lease)) leaderLease {
	works := worksOn(resource("websites.example.com", "deployments.apps"))
	l := lease("ring-leader", append([]func(*coordinationv1.Lease){heldBy(holder), works}, changes...)...)
	l.Labels = map[string]string{shardingv1alpha1.LabelLeader: "ring"}
	return leaderLease{"ring", l}
}

func expired(l *coordinationv1.Lease) { renewed(time.Minute)(l) }

func undeclared(l *coordinationv1.Lease) { l.Annotations = nil }

// TestReasonsWithLeader has one instance that reconciles all objects.
func TestReasonsWithLeader(t *testing.T) {
	for name, test := range map[string]struct {
		lease   leaderLease
		object  *metav1.PartialObjectMetadata
		reason  Reason
		agrees  bool
		message string
	}{
		"leader":                       {leaderOf("a_1"), website("w"), OwnedByLeader, true, "a leads ring and reconciles all objects. The operator is not sharded."},
		"leader, sharded before":       {leaderOf("a_1"), website("w", "b"), OwnedByLeader, true, "Its shard label, b, is left over"},
		"leader does not renew":        {leaderOf("a_1", expired), website("w"), LeaderNotRenewing, false, "a leads ring, but has not renewed its Lease for 60s"},
		"no leader":                    {leaderOf(""), website("w"), NoLeader, false, "no instance of ring leads. Start the controller."},
		"leader declares no resources": {leaderOf("a_1", undeclared), website("w"), Unknown, false, "does not declare which resources it reconciles"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.lease.place(test.object, now)
			if got.Reason != test.reason || got.Agrees != test.agrees || !strings.Contains(got.Message, test.message) {
				t.Errorf("got %s, %t: %s", got.Reason, got.Agrees, got.Message)
			}
		})
	}
}

// TestLeftoverLeases has Leases from before an operator was sharded.
func TestLeftoverLeases(t *testing.T) {
	ring := []*ringState{ringStateOf(nil, lease("a"))}
	for name, test := range map[string]struct {
		lease leaderLease
		rings []*ringState
		want  bool
	}{
		"leader":                     {leaderOf("a_1"), nil, false},
		"no leader":                  {leaderOf(""), nil, false},
		"no leader, sharded":         {leaderOf(""), ring, true},
		"leader was killed, sharded": {leaderOf("a_1", expired), ring, true},
		"leader, sharded":            {leaderOf("a_1"), ring, false},
	} {
		if got := test.lease.isLeftover(test.rings, now); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestLeadersTable(t *testing.T) {
	report := &Report{Time: metav1.Time{Time: now}, Leaders: []Leader{
		leaderOf("operator-1_1234").report(now), leaderOf("operator-1_1234", expired, undeclared).report(now), leaderOf("").report(now),
	}}
	const want = `
OPERATOR   NAMESPACE   LEADER       STATE          FOR   RENEWED   RESOURCES
ring       system      operator-1   leading        60m   1s        websites, deployments
ring       system      operator-1   not renewing   60m   60s       ?
ring       system      -            no leader      1s    1s        websites, deployments
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), printed(t, report, Table, false)); diff != "" {
		t.Error(diff)
	}
	const wide = "websites.example.com, deployments.apps   ring-leader   operator-1_1234   0"
	if shown := printed(t, report, Wide, false); !strings.Contains(shown, wide) {
		t.Errorf("%q is not in\n%s", wide, shown)
	}
}
