package cred_test

import (
	"slices"
	"strings"
	"testing"

	"attestd/crypto/cred"
)

func TestCheckScopes(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{
		"*", "tool:*", "tool:read", "attest:write", "a.b-c_9:x", "T:0",
		"tool:mcp/files:read", "tool:https://example.com/x?y=1", `tool:"quoted"\`, "tool:!~",
		strings.Repeat("c", 64) + ":" + strings.Repeat("n", 128),
	} {
		if err := cred.CheckScopes([]string{"*", scope}); err != nil {
			t.Errorf("%q: %v", scope, err)
		}
	}
	for _, scope := range []string{
		"", ":", "tool", "tool:", ":read", "*:read", "*:*", "**", "* ", "tool:**", "tool:re*", "tool:*read",
		"tool :read", "tool: read", "tool:re ad", "tool:\n", "tool:é", "too/l:read", "tool:\x7f",
		strings.Repeat("c", 65) + ":n", "c:" + strings.Repeat("n", 129),
	} {
		err := cred.CheckScopes([]string{"*", scope})
		if code := codeOf(t, err); code != cred.CodeMalformedClaims {
			t.Errorf("%q: %s", scope, code)
		} else if !strings.HasPrefix(err.Error(), "scopes[1] ") {
			t.Errorf("%q: %v does not say which", scope, err)
		}
	}
	for n, allowed := range map[int]bool{0: false, 1: true, cred.MaxScopes: true, cred.MaxScopes + 1: false} {
		if err := cred.CheckScopes(slices.Repeat([]string{"*"}, n)); (err == nil) != allowed {
			t.Errorf("%d scopes: %v", n, err)
		}
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	tool := func(s string) *string { return &s }
	for _, test := range []struct {
		name   string
		scopes string
		tool   *string
		want   string // "" is denied
	}{
		{"the very tool", "attest:write tool:read", tool("read"), "tool:read"},
		{"any tool", "attest:write tool:*", tool("read"), "tool:*"},
		{"anything", "attest:write *", tool("read"), "*"},
		{"the first that covers", "tool:read tool:* *", tool("read"), "tool:read"},
		{"and not the narrowest", "* tool:* tool:read", tool("read"), "*"},
		{"a name with colons", "tool:mcp:files:read", tool("mcp:files:read"), "tool:mcp:files:read"},
		{"another tool", "tool:read", tool("write"), ""},
		{"only a part of the name", "tool:read", tool("rea"), ""},
		{"more than the name", "tool:read", tool("read2"), ""},
		{"another case", "tool:read", tool("Read"), ""},
		{"another category", "attest:* attest:read", tool("read"), ""},
		{"the category is not part of the tool", "tool:read", tool("tool:read"), ""},
		{"a category that begins alike", "tools:read", tool("read"), ""},
		{"a scope without a category never covers", "read", tool("read"), ""},
		{"a star asked for is not a star given", "tool:read", tool("*"), ""},

		{"no tool: anything is the broadest", "tool:read tool:* *", nil, "*"},
		{"no tool: then the first category", "tool:read attest:* tool:*", nil, "attest:*"},
		{"no tool: then the first scope", "tool:read attest:write", nil, "tool:read"},
		{"no tool and no scope", "", nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := cred.PassportClaims{Scopes: strings.Fields(test.scopes)}.Grant(test.tool)
			if code := codeOf(t, err); got != test.want || (test.want == "") != (code == cred.CodeScopeDenied) {
				t.Errorf("got %q, %s; want %q", got, code, test.want)
			}
		})
	}
}
