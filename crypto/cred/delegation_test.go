package cred_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"attestd/crypto/cred"
)

// A plain SVID is a delegation to nobody: the subject alone.
func TestPlainSVIDAsDelegation(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	d, err := i.CheckDelegation(i.SVID(agent, now), now)
	if err != nil {
		t.Fatal(err)
	}
	if d.Subject != agent || d.Act != nil || d.Scope != "" || !slices.Equal(d.Chain, []string{agent}) {
		t.Errorf("%+v", d)
	}
	want := `{"act":null,"delegationChain":["` + agent + `"],"subject":"` + agent + `","tokenId":"` + d.TokenID + `"}`
	if got := string(d.Canonical()); got != want {
		t.Errorf("canonical\ngot  %s\nwant %s", got, want)
	}
	info, err := json.Marshal(d)
	if want := `{"subject":"` + agent + `","delegationChain":["` + agent + `"],"act":null,"tokenId":"` + d.TokenID + `"}`; err != nil || string(info) != want {
		t.Errorf("DelegationInfo\ngot  %s, %v\nwant %s", info, err, want)
	}
}

// Ten hops: what is checked is what was issued, each actor stands innermost, and the eleventh is
// refused.
func TestChainOfActors(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	d := cred.Delegation{Subject: domain.CompanyID("globex")}
	chain := []string{d.Subject}
	for hop := 1; hop <= cred.MaxActors; hop++ {
		actor := domain.AgentID("acme", "agent-"+strconv.Itoa(hop))
		chain = append(chain, actor)
		token, issued, err := i.Delegate(d, actor, "read write", now)
		if err != nil {
			t.Fatalf("hop %d: %v", hop, err)
		}
		if d, err = i.CheckDelegation(token, now); err != nil {
			t.Fatalf("hop %d: %v", hop, err)
		}
		if !reflect.DeepEqual(d, issued) {
			t.Errorf("hop %d\nissued  %+v\nchecked %+v", hop, issued, d)
		}
		if !slices.Equal(d.Chain, chain) || d.Subject != chain[0] || d.Scope != "read write" {
			t.Errorf("hop %d: %+v, want the chain %q", hop, d, chain)
		}
		if walked := walk(t, payload(t, token)); !slices.Equal(walked, chain) {
			t.Errorf("hop %d: walking inward gives %q", hop, walked)
		}
		if !slices.Equal(walk(t, []byte(`{"sub":"`+d.Subject+`","act":`+string(d.Act)+`}`)), chain) {
			t.Errorf("hop %d: act %s", hop, d.Act)
		}
		checkCanonical(t, d)
	}
	_, _, err := i.Delegate(d, agent, "", now)
	if code := codeOf(t, err); code != cred.CodeMalformedClaims {
		t.Errorf("actor %d: %s", cred.MaxActors+1, code)
	}
}

// walk reads sub, act.sub, act.act.sub … as the specification lists them.
func walk(t *testing.T, claims []byte) []string {
	t.Helper()
	type actor struct {
		Sub string `json:"sub"`
		Act *actor `json:"act"`
	}
	var chain []string
	var outer actor
	if err := json.Unmarshal(claims, &outer); err != nil {
		t.Fatal(err)
	}
	for a := &outer; a != nil; a = a.Act {
		chain = append(chain, a.Sub)
	}
	return chain
}

// checkCanonical compares with another implementation of RFC 8785, over the JSON that the API
// shows.
func checkCanonical(t *testing.T, d cred.Delegation) {
	t.Helper()
	want, err := jcs.Transform(marshal(d))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Canonical(); string(got) != string(want) {
		t.Errorf("canonical\ngot  %s\nwant %s", got, want)
	}
}

// act keeps the spelling of the token, which does not affect its canonical form.
func TestActKeepsItsSpelling(t *testing.T) {
	t.Parallel()
	d := newSVID()
	first, second := domain.AgentID("acme", "first"), domain.AgentID("globex", "second")
	act := ` { "sub" : "` + strings.Replace(first, "/", `\/`, 1) + `", "act":{"sub":"` + second + `"} } `
	claims := string(marshal(d.claims))
	token := forge(d.key, marshal(d.header), []byte(`{"act":`+act+`,`+claims[1:]))
	checked, err := newIssuer("acme").CheckDelegation(token, now)
	if err != nil {
		t.Fatal(err)
	}
	if string(checked.Act) != strings.TrimSpace(act) {
		t.Errorf("act %s, want %s", checked.Act, act)
	}
	if want := []string{agent, first, second}; !slices.Equal(checked.Chain, want) {
		t.Errorf("chain %q, want %q", checked.Chain, want)
	}
	checkCanonical(t, checked)
}

// The claims of a delegation token, member by member in their fixed order; no scope claim without a
// scope.
func TestDelegateClaims(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	from := cred.Delegation{Subject: domain.CompanyID("acme")}
	for scope, tail := range map[string]string{"": "", "a b": `,"scope":"a b"`, `"é`: `,"scope":"\"é"`} {
		token, d, err := i.Delegate(from, agent, scope, now)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"iss":"spiffe://attestd.local/ca","sub":"spiffe://attestd.local/company/acme","aud":["service"],` +
			`"iat":1772366400,"nbf":1772366400,"exp":1772370000,"jti":"` + d.TokenID + `","act":{"sub":"` + agent + `"}` + tail + `}`
		if got := payload(t, token); string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if checked, err := i.CheckDelegation(token, now); err != nil || checked.Scope != scope {
			t.Errorf("scope %q comes back as %q, %v", scope, checked.Scope, err)
		}
	}
}

// Delegate issues nothing that CheckDelegation would refuse.
func TestDelegateRefuses(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	company := cred.Delegation{Subject: domain.CompanyID("acme")}
	for _, test := range []struct {
		name         string
		from         cred.Delegation
		actor, scope string
		want         string
	}{
		{"no subject", cred.Delegation{}, agent, "", cred.CodeInvalidSubject},
		{"a subject that smuggles an agent in", cred.Delegation{Subject: domain.CompanyID("acme/agent/a/agent/b")}, agent, "", cred.CodeInvalidSubject},
		{"an actor of another trust domain", company, "spiffe://spoilt/company/acme", "", cred.CodeInvalidSubject},
		{"an actor that is no SPIFFE ID", company, "spoilt", "", cred.CodeInvalidSubject},
		{"a scope over the limit", company, agent, strings.Repeat("spoilt ", 2000), cred.CodeMalformedToken},
	} {
		token, d, err := i.Delegate(test.from, test.actor, test.scope, now)
		if code := codeOf(t, err); code != test.want || token != "" || d.Subject != "" {
			t.Errorf("%s: %s with %q, want %s and nothing", test.name, code, token, test.want)
		}
	}
}

// The longest names that are allowed, ten actors deep, still fit into a token.
func TestLongestChainFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	wide := cred.Domain{TrustDomain: strings.Repeat("d", 255), Service: "service"}
	i := cred.NewIssuer(wide, long, keyOf("acme"), nil)
	d := cred.Delegation{Subject: wide.AgentID(long, long)}
	for hop := range cred.MaxActors {
		token, next, err := i.Delegate(d, wide.AgentID(long, long), "", now)
		if err != nil {
			t.Fatalf("hop %d: %v", hop+1, err)
		}
		if d, err = i.CheckDelegation(token, now); err != nil || !reflect.DeepEqual(d, next) {
			t.Fatalf("hop %d: %v", hop+1, err)
		}
	}
}
