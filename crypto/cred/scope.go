package cred

import (
	"fmt"
	"strings"
)

// CheckScopes refuses an empty list, more than MaxScopes, and anything but *, category:* and
// category:name, where category is [A-Za-z0-9._-]{1,64} and name is 1 to 128 visible ASCII
// characters without *. Its error is an *Error with CodeMalformedClaims that has the position, not
// the text, of the invalid scope.
func CheckScopes(scopes []string) error {
	if len(scopes) == 0 {
		return refuse(CodeMalformedClaims, "at least one scope is required")
	}
	if len(scopes) > MaxScopes {
		return refuse(CodeMalformedClaims, fmt.Sprintf("at most %d scopes are allowed", MaxScopes))
	}
	for n, scope := range scopes {
		if !isScope(scope) {
			return refuse(CodeMalformedClaims, fmt.Sprintf("scopes[%d] is not *, category:* or category:name", n))
		}
	}
	return nil
}

func isScope(scope string) bool {
	if scope == "*" {
		return true
	}
	category, name, _ := strings.Cut(scope, ":")
	return len(category) >= 1 && len(category) <= 64 && only(category, isSegmentByte) &&
		(name == "*" || len(name) >= 1 && len(name) <= 128 && only(name, isScopeNameByte))
}

func isScopeNameByte(c byte) bool { return '!' <= c && c <= '~' && c != '*' }

// Grant returns the first scope that covers tool:<tool>; with tool nil the broadest one: *, else
// the first x:*, else the first scope. If no scope covers the tool, the error is an *Error with
// CodeScopeDenied.
func (c PassportClaims) Grant(tool *string) (string, error) {
	if tool == nil {
		return broadest(c.Scopes)
	}
	for _, scope := range c.Scopes {
		if scope == "*" || scope == "tool:*" || strings.TrimPrefix(scope, "tool:") == *tool && strings.HasPrefix(scope, "tool:") {
			return scope, nil
		}
	}
	return "", refuse(CodeScopeDenied, "no scope of the passport covers the tool")
}

func broadest(scopes []string) (string, error) {
	best := ""
	for _, scope := range scopes {
		switch {
		case scope == "*":
			return scope, nil
		case best == "" || strings.HasSuffix(scope, ":*") && !strings.HasSuffix(best, ":*"):
			best = scope
		}
	}
	if best == "" {
		return "", refuse(CodeScopeDenied, "the passport has no scope")
	}
	return best, nil
}
