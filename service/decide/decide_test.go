package decide_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/service/decide"
)

// compile makes a set of texts: p0, p1 and so on.
func compile(t testing.TB, texts ...string) *decide.Set {
	t.Helper()
	policies := make([]decide.Policy, len(texts))
	for i, text := range texts {
		policies[i] = decide.Policy{ID: "p" + string(rune('0'+i)), Text: text}
		if err := decide.Check(policies[i], false); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	s, err := decide.Compile(policies)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// transfer is a call of a tool of MCP.
func transfer(arguments string) *decide.Request {
	return &decide.Request{
		Company: "acme", AgentID: "bot", Groups: []string{"finance"}, Action: decide.Call, Server: "bank", Tool: "transfer",
		Arguments: []byte(arguments), Folder: "/srv/shop",
		Context: decide.Context{Door: "mcp", Source: "mcp", Session: "s1", Scopes: []string{"tool:bank/transfer"}, Signed: true,
			Delegation: []string{"spiffe://attestd.local/acme/agent/boss"}, Time: time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)},
	}
}

// What one or a few policies say of a transfer of 150.
func TestDecide(t *testing.T) {
	t.Parallel()
	const everything = `permit (principal, action, resource);`
	for _, c := range []struct {
		name     string
		policies []string
		want     decide.Decision
	}{
		{"no policies", nil, decide.Decision{Verdict: "allow"}},
		{"a permit", []string{everything}, decide.Decision{Verdict: "allow", By: []string{"p0"}}},
		{"two permits", []string{everything, everything}, decide.Decision{Verdict: "allow", By: []string{"p0", "p1"}}},
		{"no permit that matches", []string{`permit (principal, action, resource == Tool::"bank/balance");`},
			decide.Decision{Verdict: "deny", Code: "POLICY_DENIED"}},
		{"a forbid beats permits", []string{everything, `forbid (principal, action, resource in Server::"bank");`},
			decide.Decision{Verdict: "deny", By: []string{"p1"}, Code: "POLICY_DENIED"}},
		{"several in one text", []string{everything + everything}, decide.Decision{Verdict: "allow", By: []string{"p0#0", "p0#1"}}},
		{"the principal's groups", []string{`permit (principal in Group::"finance", action, resource);`},
			decide.Decision{Verdict: "allow", By: []string{"p0"}}},
		{"another group", []string{`permit (principal in Group::"sales", action, resource);`},
			decide.Decision{Verdict: "deny", Code: "POLICY_DENIED"}},
		{"the company", []string{`permit (principal is Agent in Company::"acme", action in Action::"any", resource is Tool);`},
			decide.Decision{Verdict: "allow", By: []string{"p0"}}},
		{"an entity in a condition", []string{`permit (principal, action, resource) when { principal in Group::"finance" && resource in Server::"bank" && action in Action::"any" };`},
			decide.Decision{Verdict: "allow", By: []string{"p0"}}},
		{"all of the context", []string{`permit (principal, action, resource) when { context.door == "mcp" && context.source == "mcp" &&
			context.session == "s1" && context.signed && !context.approved && !(context has person) && context.scopes.contains("tool:bank/transfer") &&
			context.delegation.contains("spiffe://attestd.local/acme/agent/boss") && context.time < datetime("2026-11-28T10:00:01Z") &&
			context.arguments.amount == 150 && context.dropped.isEmpty() && !context.outside };`}, decide.Decision{Verdict: "allow", By: []string{"p0"}}},
		{"an erring permit permits nothing", []string{`permit (principal, action, resource) when { context.arguments.nothing > 1 };`},
			decide.Decision{Verdict: "deny", Errors: []string{"p0"}, Code: "POLICY_DENIED"}},
		{"an erring permit beside another", []string{`permit (principal, action, resource) when { context.arguments.to > 1 };`, everything},
			decide.Decision{Verdict: "allow", By: []string{"p1"}, Errors: []string{"p0"}}},
		{"an erring forbid denies", []string{everything, `forbid (principal, action, resource) when { context.arguments.nothing > 1 };`},
			decide.Decision{Verdict: "deny", Errors: []string{"p1"}, Code: "DECISION_ERROR"}},
		{"an erring forbid of another scope", []string{everything, `forbid (principal, action == Action::"token", resource) when { context.arguments.nothing > 1 };`},
			decide.Decision{Verdict: "allow", By: []string{"p0"}}},
		{"ask", []string{`@approvers("finance") @quorum("2") @within("10m") permit (principal, action, resource) when { context.approved };`},
			decide.Decision{Verdict: "ask", By: []string{"p0"}, Ask: &decide.Ask{Approvers: []string{"finance"}, Quorum: 2, Within: 10 * time.Minute}}},
		{"the larger quorum counts", []string{`permit (principal, action, resource) when { context.approved };`,
			`@quorum("3") permit (principal, action, resource) when { context.approved };`},
			decide.Decision{Verdict: "ask", By: []string{"p0", "p1"}, Ask: &decide.Ask{Quorum: 3}}},
		{"ask where a forbid wants it", []string{everything, `forbid (principal, action, resource) when { context.arguments.amount > 100 } unless { context.approved };`},
			decide.Decision{Verdict: "ask", By: []string{"p0"}, Ask: &decide.Ask{Quorum: 1}}},
		{"no approval helps against a forbid", []string{`permit (principal, action, resource) when { context.approved };`, `forbid (principal, action, resource);`},
			decide.Decision{Verdict: "deny", By: []string{"p1"}, Code: "POLICY_DENIED"}},
	} {
		got := compile(t, c.policies...).Decide(transfer(`{"amount":150,"to":"eve"}`))
		if got.Verdict != c.want.Verdict || !slices.Equal(got.By, c.want.By) || !slices.Equal(got.Errors, c.want.Errors) || got.Code != c.want.Code ||
			(got.Ask == nil) != (c.want.Ask == nil) || got.Ask != nil && *got.Ask != *c.want.Ask {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Each action has its kind of resource.
func TestResources(t *testing.T) {
	t.Parallel()
	for policy, req := range map[string]decide.Request{
		`permit (principal, action == Action::"call", resource == Tool::"Bash");`:               {Action: "call", Tool: "Bash"},
		`permit (principal, action == Action::"attest", resource == ActionType::"user.login");`: {Action: "attest", ActionType: "user.login"},
		`permit (principal, action == Action::"token", resource == Audience::"https://api");`:   {Action: "token", Audience: "https://api"},
		`permit (principal, action == Action::"http", resource) when { resource.host == "api.example" && resource.scheme == "https" && resource.path like "/v1/*" && resource.method == "GET" };`: {
			Action: "http", URL: decide.URL{Scheme: "https", Host: "api.example", Path: "/v1/x", Method: "GET"}},
	} {
		s := compile(t, policy)
		if d := s.Decide(&req); d.Verdict != "allow" {
			t.Errorf("%s: %+v", policy, d)
		}
		for _, other := range []string{"call", "attest", "http", "token"} {
			if changed := req; other != req.Action {
				changed.Action = other
				if d := s.Decide(&changed); d.Verdict != "deny" {
					t.Errorf("%s as %s: %+v", policy, other, d)
				}
			}
		}
		req.Action = "any"
		if d := s.Decide(&req); d.Verdict != "deny" || d.Code != "DECISION_ERROR" {
			t.Errorf("of an unknown action: %+v", d)
		}
	}
}

// What is wrong with a text, and where.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text         string
		code         string
		line, column int
		message      string
	}{
		{"permit (principal, action, resource)\n  when { context.arguments.a.b like \"*\" && context.clean.anything == context.arguments };", "", 0, 0, ""},
		{"", decide.Invalid, 1, 1, "no policy"},
		{"// nothing", decide.Invalid, 1, 1, "no policy"},
		{"permit (principal, action, resource)\n  when { context.door = 1 };", decide.Invalid, 2, 23, ""},
		{"permit (principal action, resource);", decide.Invalid, 1, 19, `want ,`},
		{"/* é */ allow (principal, action, resource);", decide.Invalid, 1, 9, "allow"},
		{"permit (principal, action, resource) when { context.door == \"x };", decide.Invalid, 1, 61, "literal not terminated"},
		{"permit (principal, action, resource) when { ", decide.Invalid, 1, 45, "invalid primary"},
		{"@quorum(\"0\")\npermit (principal, action, resource);", decide.Invalid, 1, 2, "@quorum"},
		{"@within(\"2d\")\npermit (principal, action, resource);", decide.Invalid, 1, 2, "@within"},
		{"@approvers(\"\")\npermit (principal, action, resource);", decide.Invalid, 1, 2, "@approvers"},
		{"permit (principal,\n action, resource == Tol::\"Bash\");", decide.UnknownName, 2, 22, "no entity type Tol"},
		{"permit (principal == Tool::\"x\", action, resource);", decide.UnknownName, 1, 22, "no principal is of the type Tool"},
		{"permit (principal, action == Action::\"cal\", resource);", decide.UnknownName, 1, 38, "no action"},
		{"permit (principal, action in [Action::\"call\", Action::\"x\"], resource);", decide.UnknownName, 1, 55, "no action"},
		{"permit (principal is Agent in Team::\"x\", action, resource);", decide.UnknownName, 1, 31, "Team"},
		{"permit (principal, action, resource) when { context.dor == \"x\" };", decide.UnknownName, 1, 53, `context has no member "dor"`},
		{"permit (principal, action, resource) when { context has \"dor\" };", decide.UnknownName, 1, 57, "dor"},
		{"permit (principal, action, resource) when { principal.name == \"x\" };", decide.UnknownName, 1, 55, "principal has no member"},
		{"permit (principal, action, resource) when { principal in User::\"x\" };", decide.UnknownName, 1, 58, "User"},
		{"permit (principal, action, resource) when { resource is User };", decide.UnknownName, 1, 57, "User"},
		{"permit (principal, action, resource) when { resource is User in Company::\"x\" };", decide.UnknownName, 1, 57, "User"},
		{"permit (principal, action, resource);\npermit (principal, action, resource) when { context.x };", decide.UnknownName, 2, 53, `"x"`},
		{strings.Repeat(" ", decide.MaxText) + ";", decide.Invalid, 0, 0, "more than"},
		{"permit (principal, action, resource) when { " + strings.Repeat("(", 63) + "true" + strings.Repeat(")", 63) + " };", "", 0, 0, ""},
		{"permit (principal, action, resource) when { " + strings.Repeat("(", 64) + "true" + strings.Repeat(")", 64) + " };", decide.Invalid, 1, 108, "deeper than 64"},
		{"permit (principal, action, resource) when { " + strings.Repeat("[", 30_000), decide.Invalid, 1, 108, "deeper than 64"},
		{"permit (principal, action, resource) when { " + strings.Repeat("if ", 20_000), decide.Invalid, 1, 234, "deeper than 64"},
		{"permit (principal, action, resource) when { " + strings.Repeat("!", 60_000), decide.Invalid, 1, 1043, "operators"},
		{"permit (principal, action, resource) when { " + strings.Repeat("-", 60_000), decide.Invalid, 1, 1043, "operators"},
		{"permit (principal, action, resource) when { true" + strings.Repeat("&&true", 5_000), decide.Invalid, 0, 0, "operators"},
		{"permit (principal, action, resource) when { context" + strings.Repeat(`["a"]`, 5_000), decide.Invalid, 0, 0, "operators"},
		{"permit (principal, action, resource) when { [\"(((\", \"\\\"(((\"].contains(\"" + strings.Repeat("(", 100) + "\") /* " + strings.Repeat("(", 100) + " */ }; // " + strings.Repeat("[", 100), "", 0, 0, ""},
	} {
		head := c.text[:min(len(c.text), 100)]
		err := decide.Check(decide.Policy{ID: "p", Text: c.text}, false)
		var refused *decide.PolicyError
		switch errors.As(err, &refused); {
		case c.code == "" && err == nil:
		case refused == nil || refused.Code != c.code || !strings.Contains(refused.Message, c.message):
			t.Errorf("%s: %v, want %s: %s", head, err, c.code, c.message)
		case c.line > 0 && (refused.Line != c.line || refused.Column != c.column):
			t.Errorf("%s: at %d:%d, want %d:%d (%v)", head, refused.Line, refused.Column, c.line, c.column, err)
		}
		if err := decide.Check(decide.Policy{ID: "p", Text: c.text}, true); (err == nil) != (c.code != decide.Invalid) {
			t.Errorf("%s: with force: %v", head, err)
		}
	}
	for _, id := range []string{"", "a b", "é", strings.Repeat("a", 65), "a#0", "a\n"} {
		if decide.Check(decide.Policy{ID: id, Text: "permit (principal, action, resource);"}, false) == nil {
			t.Errorf("the ID %q is taken", id)
		}
	}
}

// A set has a bound, counted singly and in bytes, and a hash that follows from IDs and texts alone.
func TestSet(t *testing.T) {
	t.Parallel()
	const one = "permit (principal, action, resource);\n"
	several := func(n int) string { return strings.Repeat(one, n) }
	if s, err := decide.Compile([]decide.Policy{{"a", several(500)}, {"b", several(500)}}); err != nil || s.Len() != 1000 {
		t.Error(err)
	}
	if _, err := decide.Compile([]decide.Policy{{"a", several(500)}, {"b", several(501)}}); !errors.Is(err, decide.ErrLimit) {
		t.Error(err)
	}
	large := one + "//" + strings.Repeat("x", 60_000)
	if _, err := decide.Compile([]decide.Policy{{"a", large}, {"b", large}, {"c", large}, {"d", large}, {"e", large}}); !errors.Is(err, decide.ErrLimit) {
		t.Error(err)
	}
	if _, err := decide.Compile([]decide.Policy{{"a", one}, {"a", one}}); err == nil {
		t.Error("two policies have one ID")
	}
	if _, err := decide.Compile([]decide.Policy{{"a", "permit"}}); err == nil {
		t.Error("a text that does not parse is compiled")
	}
	a, errA := decide.Compile([]decide.Policy{{"b", one}, {"a", several(2)}})
	b, errB := decide.Compile([]decide.Policy{{"a", several(2)}, {"b", one}})
	if errA != nil || errB != nil || a.Hash() != b.Hash() {
		t.Error("the order of the policies is in the hash")
	}
	// sha256sum of {"a":"…","b":"…"} with the sums of the two texts
	if want := "b9f2df4b91c52757c00f73ef6151f67a88da1cf7fc4abdd35077dc0892126342"; a.Hash() != want {
		t.Errorf("hash %s, want %s", a.Hash(), want)
	}
}
