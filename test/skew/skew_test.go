package skew_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

// objects is the number of objects before the members change: enough that each change moves some.
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

// membersChange has all shards but one in one version and the last one in the other. One joins, one leaves and
// one is killed.
func membersChange(t *testing.T, sharder, most, last version) {
	f := setUp(t)
	replica := f.startSharder(sharder)
	a, b, c := f.join(most), f.join(most), f.join(most)
	f.createWith(replica, objects)

	t.Log("A shard of the other version joins, and gets its share from all others")
	d := f.join(last)
	f.waitUntilIdle(a, b, c, d)

	t.Log("A shard leaves, and hands its objects over to shards of both versions; another one is killed")
	f.stop(a)
	f.kill(b)
	f.waitUntilIdle(c, d)
	f.checkHistory()
}

// TestTwoSharderVersions is a rollout of the sharder and its rollback: each version leads while the webhook of the
// other one assigns objects.
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
		f.waitUntilIdle(a, b)
		f.expectSameOwners(byLeader)
		f.expectSameOwners(byOther)

		t.Log("The leader stops while a shard joins")
		c := f.join(next)
		before := f.leader()
		f.end(leading.Running)
		f.Eventually(f.leader).ShouldNot(Or(BeEmpty(), Equal(before)))
		leading = waiting
		f.waitUntilIdle(a, b, c)
		f.stop(a)
		a = c
	}
	f.waitUntilIdle(a, b)
	f.checkHistory()
}

// expectSameOwners checks that the leader did not move the objects that a replica's webhook assigned.
func (f *fixture) expectSameOwners(chosen map[string]string) {
	f.t.Helper()
	owners := f.owners()
	for object, owner := range chosen {
		f.Expect(owners).To(HaveKeyWithValue(object, owner))
	}
}
