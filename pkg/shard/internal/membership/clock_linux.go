package membership

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the machine was started. Unlike Go's monotonic clock it goes on while the machine is
// suspended, as the Leases of others do.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return sinceStart()
	}
	return time.Duration(now.Nano())
}
