package postgres

import (
	"strconv"
	"strings"
)

// Rebind gives the placeholders of a statement, ? and ?1, the form that PostgreSQL knows. As in
// SQLite, ? is the number after the largest before it. None stands in a string.
func Rebind(statement string) string {
	var b strings.Builder
	largest := 0
	for {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		if n, err := strconv.Atoi(after[:digits]); err == nil {
			largest = max(largest, n)
		} else {
			largest++
			b.WriteString(strconv.Itoa(largest))
		}
		statement = after
	}
}

// Text replaces what no text of PostgreSQL can hold, which is NUL and what is not UTF-8. SQLite
// holds any bytes: labels and reasons may say anything, and whoever looks for something that cannot
// be there is to find nothing.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}
