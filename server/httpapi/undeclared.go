package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"attestd/internal/spelling"
)

// Undeclared is a route's policy for undeclared parameters and members, and for a query with a
// repeated or malformed parameter.
type Undeclared int

const (
	Strict      Undeclared = iota // refuses them
	StrictQuery                   // refuses them in the query; the body has a foreign format

	// Lenient ignores them, as the specification does, unless one resembles a member that affects
	// rights, so that it may be a misspelling.
	Lenient
)

// Rights are the members that decide what a credential, a token or a record may claim.
var Rights = []string{"role", "expiresAt", "scopes", "ttl", "delegation", "actingOn", "statement", "jkt", "proof", "jwks", "jwksUri",
	"authorizationDetails", "authorization_details", "decide"}

// RefuseMember returns the error for an undeclared member of the body, or nil.
func (form *Form) RefuseMember(name string, policy Undeclared) error {
	var meant string
	switch policy {
	case Strict:
		meant = cmp.Or(form.nearest("json", name), form.right(name))
	case Lenient:
		if meant = form.right(name); meant == "" {
			return nil
		}
	case StrictQuery:
		if meant = form.refused(name); meant == "" {
			return nil
		}
	}
	return At(Fail(http.StatusBadRequest, unknown("field", name, meant)), "/"+cut(name))
}

// right returns the member of the form that affects rights and that an undeclared name may mean, or
// "". If unknown parameters must be ignored, only members that the form refuses by name count.
func (form *Form) right(name string) string {
	if refused := form.refused(name); refused != "" {
		return refused
	}
	same := func(name, want string) bool { return plainName(name) == plainName(want) }
	for _, means := range []func(name, want string) bool{same, near} {
		for i := range form.Fields {
			if f := &form.Fields[i]; f.From == "json" && slices.Contains(Rights, f.Name) && means(name, f.Name) {
				return f.Name
			}
		}
	}
	return ""
}

// refused returns the member that the form refuses by name and that a name spells, or "".
func (form *Form) refused(name string) string {
	for _, refused := range form.refuses {
		if strings.EqualFold(name, refused) {
			return refused
		}
	}
	return ""
}

// nearest returns the field from there that a misspelt name most likely means, or "".
func (form *Form) nearest(from, name string) string {
	declared := map[string]string{} // by their plain names
	for i := range form.Fields {
		if f := &form.Fields[i]; f.From == from {
			declared[plainName(f.Name)] = f.Name
		}
	}
	return declared[spelling.Nearest(plainName(name), slices.Collect(maps.Keys(declared)))]
}

// unknown says that a name is not declared, and which one it may mean.
func unknown(what, name, meant string) string {
	message := fmt.Sprintf("Unknown %s %q", what, cut(name))
	if meant != "" && meant != name {
		message += "; did you mean " + meant + "?"
	}
	return message
}

// cut returns the beginning of a name, short enough for an error.
func cut(name string) string {
	const most = 40
	if utf8.RuneCountInString(name) <= most {
		return name
	}
	return string([]rune(name)[:most]) + "…"
}

// near reports whether name may mean the member want, which affects rights, and is generous: it
// differs only in case or separators, is within two edits, shares the beginning, or one is a prefix
// of the other.
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
	return spelling.Edits(name, want) <= 2
}

// plainName returns a name in lower case without separators.
func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", " ", "", "[]", "").Replace(strings.ToLower(name))
}

func commonPrefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// refuseQuery returns the error for an undeclared parameter, or nil.
func (form *Form) refuseQuery(name string, policy Undeclared) error {
	if policy == Lenient {
		if meant := form.right(name); meant != "" {
			return Fail(http.StatusBadRequest, unknown("query parameter", name, meant)+"; it is a member of the body")
		}
		return nil
	}
	return Fail(http.StatusBadRequest, unknown("query parameter", name, form.nearest("query", name)))
}
