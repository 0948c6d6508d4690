package skew_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

// objects is how many are there before the members change: enough that each change has to move some.
const objects = 60

// TestOldShardsWithNewSharder is an upgrade that begins with the sharder.
func TestOldShardsWithNewSharder(t *testing.T) {
	earlier, current := versions(t)
	membersChange(t, current, earlier, current)
}

// TestNewShardsWithOldSharder is an upgrade that begins with the operator.
func TestNewShardsWithOldSharder(t *testing.T) {
	earlier, current := versions(t)
	membersChange(t, earlier, current, earlier)
}

// membersChange has most shards in one version and a last one in the other. One joins, one leaves, one is
// killed.
func membersChange(t *testing.T, sharder, most, last version) {
	f := setUp(t)
	replica := f.startSharder(sharder)
	a, b, c := f.join(most), f.join(most), f.join(most)
	f.createWith(replica, objects)

	t.Log("A shard of the other version joins, and gets its share from all others")
	d := f.join(last)
	f.rest(a, b, c, d)

	t.Log("A shard leaves, and hands its objects over to shards of both versions; another one is killed")
	f.stop(a)
	f.kill(b)
	f.rest(c, d)
	f.judge()
}

// TestTwoSharderVersions is a rollout of the sharder, and its rollback: each version leads while the other one
// answers API servers.
func TestTwoSharderVersions(t *testing.T) {
	earlier, current := versions(t)
	f := setUp(t)
	leading := f.startSharder(earlier)
	f.Eventually(f.leader).ShouldNot(BeEmpty())
	a, b := f.join(earlier), f.join(current)
	for _, next := range []version{current, earlier} {
		waiting := f.startSharder(next)
		t.Logf("%s leads, %s is the other replica", leading.Name(), waiting.Name())
		byLeader, byOther := f.createWith(leading, objects/4), f.createWith(waiting, objects/4)
		f.rest(a, b)
		f.agrees(byLeader)
		f.agrees(byOther)

		t.Log("The leader stops while a shard joins")
		c := f.join(next)
		before := f.leader()
		f.end(leading.Running)
		f.Eventually(f.leader).ShouldNot(Or(BeEmpty(), Equal(before)))
		leading = waiting
		f.rest(a, b, c)
		f.stop(a)
		a = c
	}
	f.rest(a, b)
	f.judge()
}

// agrees sees that the leader left the objects with the owners that a replica's webhook chose.
func (f *fixture) agrees(chosen map[string]string) {
	f.t.Helper()
	owners := f.owners()
	for object, owner := range chosen {
		f.Expect(owners).To(HaveKeyWithValue(object, owner))
	}
}
