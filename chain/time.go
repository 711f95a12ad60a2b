package chain

import "time"

// timeLayout is of fixed width, so that timestamps sort as strings.
const timeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime writes t as every timestamp of the service is written: UTC, milliseconds, Z.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// IsTimestamp reports whether s is exactly what FormatTime writes. A timestamp from outside must be
// checked so: one that held a bar could move the border between timestamp and payload without
// changing the hash of the record.
func IsTimestamp(s string) bool {
	t, err := time.Parse(timeLayout, s)
	// no allocation: this is asked for every record that is verified
	var again [len(timeLayout)]byte
	return err == nil && string(t.AppendFormat(again[:0], timeLayout)) == s
}
