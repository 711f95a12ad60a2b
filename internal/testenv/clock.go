package testenv

import (
	"time"
	"unsafe"
)

// ReadClocks returns the time that time.Now returns when the wall clock and the monotonic clock say
// this: a difference of two such times is that of their monotonic readings, however the wall clock
// was set in between. Tests that set a clock get their times from it, because a time that was made
// in another way has no monotonic reading, and hides a difference that should have been one of wall
// times. wall is of the years 1885 to 2157.
func ReadClocks(wall time.Time, steady time.Duration) time.Time {
	const toSeconds = 2682288000 // from 1885 to 1970, in package time's form
	t := struct {
		wall uint64 // a bit for the monotonic reading, 33 of seconds since 1885, 30 of nanoseconds
		ext  int64  // the monotonic reading
		loc  *time.Location
	}{1<<63 | uint64(wall.Unix()+toSeconds)<<30 | uint64(wall.Nanosecond()), int64(steady), wall.Location()}
	return *(*time.Time)(unsafe.Pointer(&t))
}
