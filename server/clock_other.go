//go:build !linux && !darwin

package server

import "time"

// steadyClock returns the monotonic clock. It may stand still while the machine sleeps, so that
// waking up looks like a leap.
func steadyClock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
