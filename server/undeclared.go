package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// undeclared is what a route does with members of its query and its body that its form does not
// declare, and with a query that names a member twice or cannot be decoded.
type undeclared int

const (
	strict      undeclared = iota // refuses them
	strictQuery                   // refuses them in the query; the body is of a format of others

	// lenient ignores them, as the specification does, unless one is spelt so much like a member
	// that bears on rights that whoever sends it may mean that one.
	lenient
)

// rights are the members that decide what a credential, a token or a record may claim.
var rights = []string{"role", "expiresAt", "scopes", "ttl", "delegation", "actingOn"}

// refuseMember returns the error for an undeclared member of the body, or nil.
func (form *requestForm) refuseMember(name string, policy undeclared) error {
	var meant string
	switch policy {
	case strict:
		for i := range form.fields {
			if f := &form.fields[i]; meant == "" && f.from == "json" && near(name, f.name) {
				meant = f.name
			}
		}
	case lenient:
		if meant = form.right(name); meant == "" {
			return nil
		}
	case strictQuery:
		return nil
	}
	return at(fail(http.StatusBadRequest, "Unknown field: "+didYouMean(name, meant)), "/"+cut(name))
}

// right is the member of the form that bears on rights and that an undeclared name may stand for,
// or "". Where others' parameters must be ignored, only those are meant that a form refuses by
// name.
func (form *requestForm) right(name string) string {
	for _, refused := range form.refuses {
		if strings.EqualFold(name, refused) {
			return refused
		}
	}
	for i := range form.fields {
		if f := &form.fields[i]; f.from == "json" && slices.Contains(rights, f.name) && near(name, f.name) {
			return f.name
		}
	}
	return ""
}

// didYouMean quotes a name, and says for what it may have been meant.
func didYouMean(name, meant string) string {
	said := fmt.Sprintf("%q is not one that is taken here", cut(name))
	if meant != "" && meant != name {
		said += "; did you mean " + meant + "?"
	}
	return said
}

// cut is the beginning of a name, short enough for an error.
func cut(name string) string {
	const most = 40
	if utf8.RuneCountInString(name) <= most {
		return name
	}
	return string([]rune(name)[:most]) + "…"
}

// near reports whether name may be meant for the member want: it is the same in another case, with
// other separators, within two edits, shares the beginning, or one of them is the other's
// beginning.
func near(name, want string) bool {
	const longest, begins, shares = 64, 3, 5
	if len(name) > longest {
		return false
	}
	name, want = plainName(name), plainName(want)
	switch common := commonPrefix(name, want); {
	case common == min(len(name), len(want)) && common >= begins, common >= shares:
		return true
	}
	return edits(name, want) <= 2
}

// plainName is a name in lower case, without what separates its words.
func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "", "[]", "").Replace(strings.ToLower(name))
}

func commonPrefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// edits is the Levenshtein distance of two short names.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			change := diagonal
			if x[i] != y[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}
