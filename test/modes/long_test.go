//go:build long

package modes

import (
	"testing"
	"time"
)

// inAll is whether every behaviour is tested in every mode, or the long ones only where they matter most.
const inAll = true

// TestThemeOfMany is a load, so the operator is built as it is shipped, and Leases last.
func TestThemeOfMany(t *testing.T) {
	t.Parallel()
	s := setStage(t, external)
	s.lease, s.build = time.Minute, nil
	for range instances {
		s.launch("")
	}
	s.ready()
	s.populate(population)
	themeOfMany(s, 500)
	s.judge()
}
