//go:build long

package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/ringmaster-project/ringmaster/internal/rig"
)

// TestRegionsGoOnLocally keeps its data, and goes on with it in the mode in which each acts for itself.
func TestRegionsGoOnLocally(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(rig.TempDir(t), "data")
	first := found(t, "--data-dir", dir)
	first.Expect(first.asks()).To(ContainSubstring("Inclusion"))
	first.ends()

	c := found(t, "--data-dir", dir, "--mode", "local")
	c.Expect(c.ids()).To(Equal("dc1-1 dc2-1 dc3-1"), "they are the same")
	c.Eventually(func() string { return c.asks() }).Should(HavePrefix("orders: 0 instances"), "they tell each other nothing")
	_, before := c.members()
	c.Expect(c.types("restart", "--data-dir", dir)).To(ContainSubstring("have to be restarted"))
	c.Eventually(func() bool {
		_, after := c.members()
		for pid := range strings.FieldsSeq(before) {
			if strings.Contains(after+" ", " "+pid+" ") {
				return false
			}
		}
		return len(strings.Fields(after)) == 3
	}).Should(BeTrue(), "all were restarted")
	c.ends()
}
