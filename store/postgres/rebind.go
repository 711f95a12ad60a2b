package postgres

import (
	"strconv"
	"strings"
)

// Rebind gives the placeholders of a statement, ? and ?1, the form that PostgreSQL knows. A statement has one of both kinds, and none in a string.
func Rebind(statement string) string {
	var b strings.Builder
	n := 0
	for {
		before, after, found := strings.Cut(statement, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		if n++; after == "" || after[0] < '1' || after[0] > '9' {
			b.WriteString(strconv.Itoa(n))
		}
		statement = after
	}
}
