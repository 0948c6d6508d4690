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

// led is an operator in which one leads.
func led(holder string, changes ...func(*coordinationv1.Lease)) leadership {
	works := worksOn(resource("websites.example.com", "deployments.apps"))
	l := lease("ring-leader", append([]func(*coordinationv1.Lease){heldBy(holder), works}, changes...)...)
	l.Labels = map[string]string{shardingv1alpha1.LabelLeader: "ring"}
	return leadership{"ring", l}
}

func silent(changes *coordinationv1.Lease) { renewed(time.Minute)(changes) }

func notKnown(l *coordinationv1.Lease) { l.Annotations = nil }

// TestLed says who has an object where one has all.
func TestLed(t *testing.T) {
	for name, test := range map[string]struct {
		leads  leadership
		object *metav1.PartialObjectMetadata
		reason Reason
		agrees bool
		words  string
	}{
		"somebody leads":         {led("a_1"), website("w"), Led, true, "a leads ring, and has everything that it works on. Nothing is spread."},
		"it was sharded before":  {led("a_1"), website("w", "b"), Led, true, "names the shard b, is left over"},
		"the leader is silent":   {led("a_1", silent), website("w"), LeaderSilent, false, "a leads ring, but has not renewed its Lease for 60s"},
		"nobody leads":           {led(""), website("w"), NoLeader, false, "nobody leads ring. Start the controller."},
		"what it does is hidden": {led("a_1", notKnown), website("w"), NotKnown, false, "whether that is this is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.leads.place(test.object, now)
			if got.Reason != test.reason || got.Agrees != test.agrees || !strings.Contains(got.Message, test.words) {
				t.Errorf("got %s, %t: %s", got.Reason, got.Agrees, got.Message)
			}
		})
	}
}

// TestPast leaves out what is only left over from when an operator led.
func TestPast(t *testing.T) {
	ring := []*facts{factsOf(nil, lease("a"))}
	for name, test := range map[string]struct {
		leads leadership
		rings []*facts
		want  bool
	}{
		"it leads":                       {led("a_1"), nil, false},
		"nobody leads, but has to":       {led(""), nil, false},
		"it is sharded now":              {led(""), ring, true},
		"it was killed, and is sharded":  {led("a_1", silent), ring, true},
		"it leads, and is sharded, both": {led("a_1"), ring, false},
	} {
		if got := test.leads.past(test.rings, now); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestLeadersTable(t *testing.T) {
	report := &Report{Time: metav1.Time{Time: now}, Leaders: []Leader{
		led("operator-1_1234").report(now), led("operator-1_1234", silent, notKnown).report(now), led("").report(now),
	}}
	const want = `
OPERATOR   NAMESPACE   LEADER       STATE          FOR   RENEWED   WORKS ON
ring       system      operator-1   leads          60m   1s        websites, deployments
ring       system      operator-1   silent         60m   60s       ?
ring       system      -            nobody leads   1s    1s        websites, deployments
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), printed(t, report, Table, false)); diff != "" {
		t.Error(diff)
	}
	const wide = "websites.example.com, deployments.apps   ring-leader   operator-1_1234   0"
	if shown := printed(t, report, Wide, false); !strings.Contains(shown, wide) {
		t.Errorf("there is no %q in\n%s", wide, shown)
	}
}
