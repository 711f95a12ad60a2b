package store

import (
	"fmt"
	"slices"
	"strings"

	"attestd/crypto/cred/details"
	"attestd/store/db"
)

// Scope is what an access token allows (RFC 6749 §3.3): the names of roles, the widest first,
// separated by spaces. The empty one is that of a token for which no scope was requested.
type Scope string

// scopes are the roles that a scope may name. That of agents covers no other, nor is it covered.
var scopes = []Role{Admin, Writer, Reader, ActsAsAgent}

// ParseScope returns what was asked for without repetitions, unless it names what is unknown, or
// more than the role has.
func ParseScope(text string, has Role) (scope Scope, ok bool) {
	var asked []Role
	for name := range strings.SplitSeq(text, " ") {
		if asked = append(asked, Role(name)); len(asked) > len(scopes) || !mayAsk(has, Role(name)) {
			return "", false
		}
	}
	var names []string
	for _, r := range scopes {
		if slices.Contains(asked, r) {
			names = append(names, string(r))
		}
	}
	return Scope(strings.Join(names, " ")), true
}

// NamesRole reports whether a scope names one of the roles.
func NamesRole(scope string) bool {
	return slices.ContainsFunc(strings.Split(scope, " "), func(name string) bool { return slices.Contains(scopes, Role(name)) })
}

func mayAsk(has, asked Role) bool {
	return slices.Contains(scopes, asked) && (has == asked || has.Covers(asked))
}

// within is the role of a token with this scope whose holder has a role.
func (s Scope) within(has Role) Role {
	widest, _, _ := strings.Cut(string(s), " ")
	switch {
	case s == "":
		return has
	case !mayAsk(has, Role(widest)):
		return "" // its holder has less than it had
	}
	return Role(widest)
}

// Names is the scope as introspection shows it.
func (s Scope) Names(role Role) string {
	if s == "" {
		return string(role)
	}
	return string(s)
}

// storedDetails reads authorization details as they are in a row, "" for none. What they no longer
// say must not become no limit.
func storedDetails(text string) (details.Details, error) {
	if text == "" {
		return details.Details{}, nil
	}
	limits, err := details.Parse([]byte(text))
	if err != nil {
		err = fmt.Errorf("%w: authorization details: %w", db.ErrCorrupt, err)
	}
	return limits, err
}
