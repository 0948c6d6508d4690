package membership_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringmaster-project/ringmaster/internal/membership"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func lease(holder string, seen float64) membership.Lease {
	return membership.Lease{Shard: "a", Holder: holder, Duration: 15 * time.Second, Complete: true, Seen: at(seen)}
}

func peer(seen float64) membership.Lease {
	return membership.Lease{Shard: "b", Holder: "b", Duration: 15 * time.Second, Complete: true, Seen: at(seen)}
}

func TestStateOf(t *testing.T) {
	none := time.Time{}
	incomplete := lease("a", 0)
	incomplete.Complete = false
	deadPeer := peer(14)
	deadPeer.Holder = ""
	for name, test := range map[string]struct {
		lease membership.Lease
		peers []membership.Lease
		now   float64
		want  membership.State
		until time.Time
	}{
		"just renewed":                        {lease("a", 0), nil, 0, membership.Ready, at(15)},
		"about to expire":                     {lease("a", 0), nil, 14.9, membership.Ready, at(15)},
		"expired, alone":                      {lease("a", 0), nil, 15, membership.Expired, at(30)},
		"expired long ago, alone":             {lease("a", 0), nil, 30, membership.Uncertain, none},
		"expired, a peer renewed since":       {lease("a", 0), []membership.Lease{peer(12)}, 15, membership.Expired, at(16.5)},
		"expired for a while, a peer renewed": {lease("a", 0), []membership.Lease{peer(12)}, 16.5, membership.Uncertain, none},
		"expired, the peer is late, too":      {lease("a", 0), []membership.Lease{peer(2)}, 16.5, membership.Expired, at(30)},
		"expired, only it renewed":            {lease("a", 0), []membership.Lease{lease("a", 14)}, 16.5, membership.Expired, at(30)},
		"expired, the peer is dead":           {lease("a", 0), []membership.Lease{deadPeer}, 16.5, membership.Expired, at(30)},
		"released":                            {lease("", 0), nil, 1, membership.Dead, at(75)},
		"taken over":                          {lease("shardlease-controller", 0), nil, 1, membership.Dead, at(75)},
		"released long ago":                   {lease("", 0), nil, 75, membership.Orphaned, none},
		"without times":                       {incomplete, nil, 0, membership.Expired, at(15)},
		"without times, after its duration":   {incomplete, nil, 15, membership.Uncertain, none},
		"without name and holder":             {membership.Lease{Complete: true, Seen: at(0)}, nil, 0, membership.Dead, at(60)},
	} {
		t.Run(name, func(t *testing.T) {
			var renewals membership.Renewals
			for _, peer := range test.peers {
				renewals.Add(peer)
			}
			state, until := membership.StateOf(test.lease, renewals, at(test.now))
			if state != test.want {
				t.Errorf("the state is %s, want %s", state, test.want)
			}
			if !until.Equal(test.until) {
				t.Errorf("the state changes at %s, want %s", until.Sub(start), test.until.Sub(start))
			}
			if state.Member() != test.lease.Held() {
				t.Errorf("it is a member: %t, although it holds its lease: %t", state.Member(), test.lease.Held())
			}
		})
	}
}

// TestTwoRenewalsSuffice compares the state with one that is derived from all renewals of a random history.
func TestTwoRenewalsSuffice(t *testing.T) {
	random := rand.New(rand.NewPCG(20260101, 1))
	for range 1000 {
		var (
			renewals membership.Renewals
			all      []membership.Lease
		)
		for range 1 + random.IntN(8) {
			name := string(rune('a' + random.IntN(4)))
			renewed := membership.Lease{Shard: name, Holder: name, Duration: 15 * time.Second, Complete: random.IntN(8) > 0, Seen: at(float64(random.IntN(20)))}
			if random.IntN(8) == 0 {
				renewed.Holder = ""
			}
			renewals.Add(renewed)
			all = append(all, renewed)
		}
		subject := lease("a", 0)
		missed := subject.Seen.Add(subject.Duration * 2 / 3)
		want := membership.Expired
		if slices.ContainsFunc(all, func(other membership.Lease) bool {
			return other.Shard != subject.Shard && other.Held() && other.Complete && other.Seen.After(missed)
		}) {
			want = membership.Uncertain
		}
		if state, _ := membership.StateOf(subject, renewals, at(20)); state != want {
			t.Fatalf("the state is %s, want %s, after %v", state, want, all)
		}
	}
}
