package sharder_test

import (
	"maps"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestDeletedLeaseIsNoProofOfDeath deletes the Lease of a shard by hand. The shard may work until its last renewal
// expires, and keeps its objects until then.
func TestDeletedLeaseIsNoProofOfDeath(t *testing.T) {
	f := setUp(t)
	f.start("sharder-0", ringRole)
	f.join("a", 0)
	b := f.join("b", 0)
	n := f.admits()
	f.create(0, 20)
	n += 20
	f.awaitOwners("a", "b")
	before := f.owners()

	b.stopRenewing()
	lease, err := b.lease()
	f.Expect(err).NotTo(HaveOccurred())
	renewed := time.Now()
	lease.Spec.RenewTime.Time = renewed
	f.Expect(f.Client.Update(t.Context(), lease)).To(Succeed())
	f.Expect(f.Client.Delete(t.Context(), lease)).To(Succeed())
	f.Eventually(func() bool { return maps.Equal(f.owners(), before) }, testTimeout, "20ms").Should(BeFalse())
	taken := time.Since(renewed)
	t.Logf("the first object was taken %s after the last renewal", taken)
	f.Expect(taken).To(BeNumerically(">=", leaseSeconds*time.Second))
	f.ownedBy(n, "a")
}
