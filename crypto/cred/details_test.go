package cred_test

import (
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
)

func limitsOf(t *testing.T, tools string) details.Details {
	t.Helper()
	limits, err := details.Parse([]byte(`[{"type":"tool_call","tools":` + tools + `,"arguments":{"/n":{"max":1}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// Every kind of token has the details of its issuer, and a delegation never wider ones than what it
// is made of.
func TestTokensHaveDetails(t *testing.T) {
	t.Parallel()
	wide, narrow := limitsOf(t, `["a","b"]`), limitsOf(t, `["a"]`)
	i := newIssuer("acme")
	token, _, err := i.Limited(wide).Passport("bot", []string{"*"}, nil, "", time.Hour, now)
	c, err2 := i.CheckPassport(token, now)
	if err != nil || err2 != nil || c.Details.String() != wide.String() || !strings.Contains(string(marshal(c)), wide.String()) {
		t.Fatalf("%+v, %v, %v", c, err, err2)
	}
	from, err := i.CheckDelegation(i.Limited(wide).SVID(agent, now), now)
	if err != nil || from.Details.String() != wide.String() {
		t.Fatalf("%+v, %v", from, err)
	}
	for _, limited := range []struct{ asked, want details.Details }{{details.Details{}, wide}, {wide, wide}, {narrow, narrow}} {
		token, _, err := i.Limited(limited.asked).Delegate(from, domain.AgentID("acme", "x"), "", now)
		d, err2 := i.CheckDelegation(token, now)
		if err != nil || err2 != nil || d.Details.String() != limited.want.String() {
			t.Errorf("%v: %+v, %v, %v", limited.asked, d, err, err2)
		}
	}
	if _, _, err := i.Limited(limitsOf(t, `["*"]`)).Delegate(from, domain.AgentID("acme", "x"), "", now); err == nil {
		t.Error("a delegation is wider than what it is made of")
	}
}

// Of an MCP server's tool the details may name the server too, and a tool whose name looks like
// that of another server is not taken for it.
func TestGrantOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tools, server, tool, arguments, want string
	}{
		{`["bank/pay"]`, "bank", "pay", `{"n":1}`, ""},
		{`["pay"]`, "bank", "pay", `{"n":1}`, ""},
		{`["bank/pay"]`, "bank", "pay", `{"n":2}`, cred.CodeDetailsDenied},
		{`["bank/pay"]`, "bank", "pay", ``, cred.CodeDetailsDenied},
		{`["bank/pay"]`, "evil", "pay", `{"n":1}`, cred.CodeDetailsDenied},
		{`["bank/pay"]`, "evil", "bank/pay", `{"n":1}`, cred.CodeDetailsDenied},
		{`["bank/pay"]`, "", "bank/pay", `{"n":1}`, ""},
		{`["*"]`, "evil", "x/y", `{"n":1}`, ""},
	} {
		var arguments []byte
		if c.arguments != "" {
			arguments = []byte(c.arguments)
		}
		_, err := cred.PassportClaims{Scopes: []string{"*"}, Details: limitsOf(t, c.tools)}.GrantOn(c.server, c.tool, arguments)
		if got := codeOf(t, err); got != c.want && (got != "accepted" || c.want != "") {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
