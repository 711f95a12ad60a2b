package cred_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
)

// What is issued is what is checked, and the claims are in the token in a fixed order.
func TestPassport(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	scopes := []string{"tool:*", "attest:write"}
	token, issued, err := i.Passport("build-bot", scopes, nil, "", 90*time.Second, now)
	if err != nil {
		t.Fatal(err)
	}
	want := cred.PassportClaims{
		Issuer:    "spiffe://attestd.local/ca",
		Subject:   "spiffe://attestd.local/company/acme/agent/build-bot",
		Audience:  []string{"service:passport:v1"},
		ID:        issued.ID,
		IssuedAt:  1772366400,
		NotBefore: 1772366400,
		ExpiresAt: 1772366490,
		Namespace: "service",

		AgentID:         "build-bot",
		Org:             "acme",
		OrgSPIFFEID:     "spiffe://attestd.local/company/acme",
		Scopes:          scopes,
		DelegationChain: []string{"spiffe://attestd.local/company/acme", "spiffe://attestd.local/company/acme/agent/build-bot"},
	}
	if !reflect.DeepEqual(issued, want) {
		t.Errorf("issued  %+v\nwant    %+v", issued, want)
	}
	checked, err := i.CheckPassport(token, now)
	if err != nil || !reflect.DeepEqual(checked, want) {
		t.Errorf("checked %+v, %v\nwant    %+v", checked, err, want)
	}
	written := `{"iss":"spiffe://attestd.local/ca","sub":"spiffe://attestd.local/company/acme/agent/build-bot","aud":["service:passport:v1"],` +
		`"jti":"` + issued.ID + `","iat":1772366400,"nbf":1772366400,"exp":1772366490,"service":{"v":1,"agentId":"build-bot","org":"acme",` +
		`"orgSpiffeId":"spiffe://attestd.local/company/acme","scopes":["tool:*","attest:write"],` +
		`"delegationChain":["spiffe://attestd.local/company/acme","spiffe://attestd.local/company/acme/agent/build-bot"]}}`
	if got := payload(t, token); string(got) != written {
		t.Errorf("token holds %s\nwant        %s", got, written)
	}
	if got, err := json.Marshal(checked); err != nil || string(got) != written {
		t.Errorf("MarshalJSON %s, %v\nwant        %s", got, err, written)
	}
}

// A chain that is given is carried, as rotation needs it.
func TestPassportCarriesChain(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	chain := []string{domain.CompanyID("globex"), domain.AgentID("globex", "planner"), agent}
	token, _, err := i.Passport("build-bot", []string{"*"}, chain, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := i.CheckPassport(token, now); err != nil || !reflect.DeepEqual(c.DelegationChain, chain) {
		t.Errorf("got %q, %v; want %q", c.DelegationChain, err, chain)
	}
}

// Scopes may hold what JSON must escape; only the size of the whole is limited.
func TestPassportSize(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	scope := `c:"\<>&` + strings.Repeat("x", 100)
	many := func(n int) []string {
		list := make([]string, n)
		for k := range list {
			list[k] = scope
		}
		return list
	}
	token, _, err := i.Passport("build-bot", many(90), nil, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := i.CheckPassport(token, now); err != nil || !reflect.DeepEqual(c.Scopes, many(90)) {
		t.Errorf("90 scopes in %d bytes: %v", len(token), err)
	}
	wide := strings.Repeat("c", 64) + ":" + strings.Repeat("n", 128)
	scopes := make([]string, cred.MaxScopes)
	for k := range scopes {
		scopes[k] = wide
	}
	if err := cred.CheckScopes(scopes); err != nil {
		t.Fatal(err)
	}
	token, _, err = i.Passport("build-bot", scopes, nil, "", time.Hour, now)
	if code := codeOf(t, err); code != cred.CodeMalformedToken || token != "" {
		t.Errorf("a hundred of the longest scopes: %s", code)
	}
}

// Every service name gives its own audience and namespace.
func TestPassportOfNamedService(t *testing.T) {
	t.Parallel()
	d := cred.Domain{TrustDomain: "prod.example", Service: "notary"}
	i := cred.NewIssuer(d, "acme", keyOf("acme"), nil)
	token, _, err := i.Passport("bot", []string{"*"}, nil, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload(t, token), &claims); err != nil {
		t.Fatal(err)
	}
	if string(claims["aud"]) != `["notary:passport:v1"]` || claims["notary"] == nil || claims["service"] != nil {
		t.Errorf("claims %s", payload(t, token))
	}
	if c, err := i.CheckPassport(token, now); err != nil || c.Namespace != "notary" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestUnverifiedOrgIsTheClaim(t *testing.T) {
	t.Parallel()
	globex := newIssuer("globex")
	token, _, err := globex.Passport("bot", []string{"*"}, nil, "", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	unsound := newPassport()
	unsound.namespaced()["org"] = "../acme"
	head, body, _ := split(token)
	for _, test := range []struct{ name, token, org string }{
		{"a passport of anyone", token, "globex"},
		{"a signature that is wrong", head + "." + body + "." + encode(make([]byte, 64)), "globex"},
		{"an SVID", globex.SVID(domain.AgentID("globex", "bot"), now), ""},
		{"an org that is no segment", unsound.sign(), ""},
		{"no passport", "spoilt", ""},
	} {
		if org, ok := domain.UnverifiedOrg(test.token); org != test.org || ok != (test.org != "") {
			t.Errorf("%s: %q, %v", test.name, org, ok)
		}
	}
}

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
			got, err := cred.PassportClaims{Scopes: strings.Fields(test.scopes)}.Grant(test.tool, nil)
			if code := codeOf(t, err); got != test.want || (test.want == "") != (code == cred.CodeScopeDenied) {
				t.Errorf("got %q, %s; want %q", got, code, test.want)
			}
		})
	}
}
