package db

import (
	"testing"
	"time"

	"attestd/internal/testenv"
)

// The end of a duty is found by any clock that has advanced: that of the process stops while the
// machine sleeps, the others while a virtual machine is moved, or when they are set.
func TestDutyEndsByAnyClock(t *testing.T) {
	t.Parallel()
	wall := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	began := moment{testenv.ReadClocks(wall, time.Hour), time.Hour}
	for _, c := range []struct {
		wall, process, boot, want time.Duration
	}{
		{time.Second, time.Second, time.Second, time.Second},
		{8 * time.Hour, time.Second, 8 * time.Hour, 8 * time.Hour}, // asleep
		{8 * time.Hour, time.Second, time.Second, 8 * time.Hour},   // moved
		{-8 * time.Hour, 6 * time.Second, 6 * time.Second, 6 * time.Second},
		{time.Second, time.Second, 6 * time.Second, 6 * time.Second},
	} {
		now := moment{testenv.ReadClocks(wall.Add(c.wall), time.Hour+c.process), time.Hour + c.boot}
		if since := now.since(began); since != c.want {
			t.Errorf("%+v: %v", c, since)
		}
	}
}
