package chain

import "time"

// timeLayout has a fixed width, so that timestamps sort as strings.
const timeLayout = "2006-01-02T15:04:05.000Z"

// LastTime is the last time that a timestamp can have. What lasts for good ends then.
var LastTime = time.Date(9999, 12, 31, 23, 59, 59, int(999*time.Millisecond), time.UTC)

// FormatTime formats t as a timestamp of the service: UTC, milliseconds, Z.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// IsTimestamp reports whether s is in the exact format of FormatTime. Foreign timestamps MUST be
// checked: one with a bar could move the border between timestamp and payload without a change of
// the record's hash.
func IsTimestamp(s string) bool {
	t, err := time.Parse(timeLayout, s)
	// avoids an allocation for every verified record
	var again [len(timeLayout)]byte
	return err == nil && string(t.AppendFormat(again[:0], timeLayout)) == s
}
