package jobs

import (
	"time"

	"golang.org/x/sys/unix"
)

// SteadyClock returns a monotonic clock that includes sleep, which is therefore not a leap of the
// wall clock. That of Go does not count sleep on macOS.
func SteadyClock() func() time.Duration {
	return func() time.Duration {
		var t unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every macOS that Go runs on has it
		return time.Duration(t.Nano())
	}
}
