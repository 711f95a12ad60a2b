package cli

import (
	"strconv"
	"strings"
	"time"
)

// ParseInstant parses a time in RFC 3339, or a time relative to now: 90m, 1h30m, 7d ago.
func ParseInstant(text string, now time.Time) (at time.Time, ok bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, !at.IsZero()
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 15)
		return now.AddDate(0, 0, -int(n)), err == nil
	}
	ago, err := time.ParseDuration(text)
	return now.Add(-ago), err == nil && ago >= 0
}
