package testenv

import (
	"testing"
	"time"
)

// ReadClocks makes what time.Now makes: wall times that are what they were asked to be, and
// differences by the monotonic clock alone.
func TestReadClocks(t *testing.T) {
	t.Parallel()
	wall := time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)
	at, set := ReadClocks(wall, time.Hour), ReadClocks(wall.AddDate(9, 0, 0), time.Hour+time.Second)
	if !at.Round(0).Equal(wall) || at.Format(time.RFC3339Nano) != "2026-03-04T05:06:07.008Z" {
		t.Errorf("the wall clock says %v, not %v", at, wall)
	}
	if by := set.Sub(at); by != time.Second {
		t.Errorf("the clocks differ by %v", by)
	}
	if by := set.Round(0).Sub(at.Round(0)); by != wall.AddDate(9, 0, 0).Sub(wall) {
		t.Errorf("the wall clocks differ by %v", by)
	}
	now := time.Now()
	if again := ReadClocks(now.Round(0), 0); !again.Round(0).Equal(now.Round(0)) || now.Sub(now.Add(-time.Hour)) != time.Hour {
		t.Errorf("%v became %v", now, again)
	}
}
