package jobs

import (
	"time"

	"golang.org/x/sys/unix"
)

// SteadyClock returns a clock that counts from the boot of the machine. It includes sleep, which is
// therefore not a leap of the wall clock.
func SteadyClock() func() time.Duration {
	return func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // every Linux that Go runs on has it
		return time.Duration(t.Nano())
	}
}
