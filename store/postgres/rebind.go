package postgres

import (
	"strconv"
	"strings"
)

// Rebind converts the placeholders of a statement, ? and ?1, to those of PostgreSQL. As in SQLite,
// ? gets the number after the largest one before it. Strings must not contain any.
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

// Text replaces what PostgreSQL cannot store in a text: NUL and invalid UTF-8. SQLite stores any
// bytes, and labels and reasons may contain any. A search for such a text finds nothing.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}
