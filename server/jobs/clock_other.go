//go:build !linux && !darwin

package jobs

import "time"

// SteadyClock returns the monotonic clock. It may stop while the machine sleeps, so that waking up
// looks like a leap.
func SteadyClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
