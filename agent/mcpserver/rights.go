package mcpserver

import (
	"fmt"
	"slices"
)

// rights are what a request may do with the client of its tools. The zero value is all that the
// client's credential may do, which the service decides.
type rights struct {
	limited bool
	scopes  []string // of the access token
	agent   string   // the agent that the token is of, or ""
	jkt     string   // thumbprint of the key without whose proofs the token is worth nothing, or ""
}

// The scopes of an access token; admin covers writer, and writer covers reader. agent is that of an
// agent, which attests in its own name and does nothing else.
const (
	scopeAdmin  = "admin"
	scopeWriter = "writer"
	scopeReader = "reader"
	scopeAgent  = "agent"
)

// scopeOf is the least scope with which a tool may be called.
var scopeOf = map[string]string{
	"attest": scopeWriter, "check_passport": scopeWriter, "verify": scopeReader, "prove": scopeReader, "search_records": scopeReader,
}

// lacks returns the scope that is needed to call a tool and that a token does not have, "" for
// none.
func (r rights) lacks(tool string) string {
	needs := scopeOf[tool]
	switch {
	case !r.limited, r.has(scopeAdmin), r.has(scopeWriter):
		return ""
	case needs == scopeReader && r.has(scopeReader), tool == "attest" && r.isAgent():
		return ""
	case needs == "": // a tool that is unknown, as the answer will say
		return ""
	}
	return needs
}

func (r rights) has(scope string) bool { return slices.Contains(r.scopes, scope) }

// isAgent reports whether a token is of an agent, and so good for what it does in its own name.
func (r rights) isAgent() bool {
	return r.limited && r.has(scopeAgent) && r.agent != "" && !r.has(scopeWriter) && !r.has(scopeAdmin)
}

// none reports whether a token has no scope with which anything can be done.
func (r rights) none() bool {
	return r.limited && !r.has(scopeAdmin) && !r.has(scopeWriter) && !r.has(scopeReader) && !r.isAgent()
}

// check requires that a tool may be called.
func (r rights) check(tool string) error {
	if scope := r.lacks(tool); scope != "" {
		return fmt.Errorf("the scope of the access token does not allow %s, for which %s is needed", tool, scope)
	}
	return nil
}
