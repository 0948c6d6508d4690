//go:build long

package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestRegionsModeChange restarts a demo with kept data in the local mode.
func TestRegionsModeChange(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(rig.TempDir(t), "data")
	first := startRegions(t, "--data-dir", dir)
	first.Expect(first.status()).To(ContainSubstring("Inclusion"))
	first.stop()

	c := startRegions(t, "--data-dir", dir, "--mode", "local")
	c.Expect(c.ids()).To(Equal("dc1-1 dc2-1 dc3-1"), "the members are the same")
	c.Eventually(func() string { return c.status() }).Should(HavePrefix("orders: 0 participants"), "in local mode no operator participates")
	_, before := c.members()
	c.Expect(c.command("restart", "--data-dir", dir)).To(ContainSubstring("have to be restarted"))
	c.Eventually(func() bool {
		_, after := c.members()
		for pid := range strings.FieldsSeq(before) {
			if strings.Contains(after+" ", " "+pid+" ") {
				return false
			}
		}
		return len(strings.Fields(after)) == 3
	}).Should(BeTrue(), "all members were restarted")
	c.stop()
}
