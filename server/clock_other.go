//go:build !linux

package server

import "time"

// steadyClock is the monotonic clock, which may stand still while the machine sleeps: waking up
// then looks like a leap.
func steadyClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
