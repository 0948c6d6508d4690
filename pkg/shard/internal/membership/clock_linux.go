package membership

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is the time since the machine booted. Unlike Go's monotonic clock it also runs while the
// machine is suspended, when other processes' view of the Lease ages, too.
func sinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return sinceStart()
	}
	return time.Duration(now.Nano())
}
