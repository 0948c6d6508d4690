//go:build long

package modes

import (
	"testing"
	"time"
)

// inAll is whether all behaviours are tested in all modes, or the long ones only in some.
const inAll = true

// TestThemeOfMany has a high load, with a release build of the operator and long Leases.
func TestThemeOfMany(t *testing.T) {
	t.Parallel()
	s := newScenario(t, external)
	s.lease, s.build = time.Minute, nil
	for range instances {
		s.launch("")
	}
	s.ready()
	s.populate(population)
	themeOfMany(s, 500)
	s.checkHistory()
}
