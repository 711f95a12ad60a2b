package cred_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
)

// A plain SVID delegates to no one: it names the subject alone.
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

// Ten hops: what is checked is what was issued, each actor is innermost, and the eleventh is
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

// Of every length a chain nests as RFC 8693 says, is read back as the same chain, and has the act
// of the other nesting in its DelegationInfo.
func TestStandardNesting(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	d := cred.Delegation{Subject: domain.CompanyID("acme"), Chain: []string{domain.CompanyID("acme")}}
	// who acts for itself is named, and is no second party
	act := cred.StandardAct(d.Chain)
	if want := `{"sub":"` + d.Subject + `"}`; string(act) != want {
		t.Errorf("act of the subject: %s, want %s", act, want)
	}
	for _, act := range [][]byte{nil, act} {
		read, err := domain.Standard(d.Subject, act, "t", "", details.Details{})
		if err != nil || len(read.Chain) != 1 || read.Act != nil || string(read.Canonical()) != `{"act":null,"delegationChain":["`+d.Subject+`"],"subject":"`+d.Subject+`","tokenId":"t"}` {
			t.Errorf("%s is read as %+v, %v", act, read, err)
		}
	}
	for hop := 1; hop <= cred.MaxActors; hop++ {
		_, next, err := i.Delegate(d, domain.AgentID("acme", "agent-"+strconv.Itoa(hop)), "", now)
		if err != nil {
			t.Fatalf("hop %d: %v", hop, err)
		}
		d = next
		act := cred.StandardAct(d.Chain)
		inward := walk(t, []byte(`{"sub":"`+d.Subject+`","act":`+string(act)+`}`))
		slices.Reverse(inward[1:])
		if !slices.Equal(inward, d.Chain) {
			t.Errorf("hop %d: %s", hop, act)
		}
		read, err := domain.Standard(d.Subject, act, d.TokenID, "", details.Details{})
		if err != nil || string(read.Canonical()) != string(d.Canonical()) {
			t.Errorf("hop %d: %s, %v; want %s", hop, read.Canonical(), err, d.Canonical())
		}
	}
	// the first of several, too, as in an exchange of such a token; and no other repetition
	first, second := domain.AgentID("acme", "first"), domain.AgentID("acme", "second")
	for act, want := range map[string][]string{
		`{"sub":"` + second + `","act":{"sub":"` + first + `"}}`:                               {first, second},
		`{"sub":"` + first + `","act":{"sub":"` + second + `"}}`:                               {first, second, first},
		`{"sub":"` + second + `","act":{"sub":"` + second + `"}}`:                              {first, second, second},
		`{"sub":"` + first + `","act":{"sub":"` + second + `","act":{"sub":"` + first + `"}}}`: {first, second, first},
	} {
		if read, err := domain.Standard(first, []byte(act), "", "", details.Details{}); err != nil || !slices.Equal(read.Chain, want) {
			t.Errorf("%s: %q, %v", act, read.Chain, err)
		}
	}
	other := newSVID()
	other.header["typ"], other.claims["act"] = "at+jwt", object{"sub": agent, "act": object{"sub": domain.AgentID("acme", "first")}}
	_, err := newIssuer("acme").CheckDelegation(forge(other.key, marshal(other.header), marshal(other.claims)), now)
	if code := codeOf(t, err); code != cred.CodeWrongTokenType {
		t.Errorf("the other nesting, signed with the company's key: %s", code)
	}
	for name, act := range map[string]string{
		"another trust domain": `{"sub":"spiffe://spoilt/company/acme"}`,
		"a member beside":      `{"sub":"` + agent + `","iss":"x"}`,
		"no sub":               `{"act":{"sub":"` + agent + `"}}`,
		"no object":            `"x"`,
		"too many":             strings.Repeat(`{"sub":"`+agent+`","act":`, 10) + `{"sub":"` + agent + `"}` + strings.Repeat("}", 10),
	} {
		if _, err := domain.Standard(agent, []byte(act), "", "", details.Details{}); codeOf(t, err) != cred.CodeMalformedClaims {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An issuer that ends what it issues does so for every kind, and issues nothing that the check of
// the kind refuses.
func TestUntilBoundsEveryKind(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	for _, bound := range []time.Duration{time.Second, 90*time.Second + 999*time.Millisecond, 48 * time.Hour} {
		bounded := i.Until(now.Add(bound))
		ends := func(lifetime time.Duration) int64 { return now.Unix() + int64(min(bound, lifetime)/time.Second) }
		svid, err := i.CheckDelegation(bounded.SVID(agent, now), now)
		if err != nil || svid.Ends.Unix() != ends(cred.SVIDLifetime) {
			t.Errorf("%s: an SVID ends at %v, %v", bound, svid.Ends, err)
		}
		token, issued, err := bounded.Delegate(cred.Delegation{Subject: domain.CompanyID("acme")}, agent, "", now)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := i.CheckDelegation(token, now); err != nil || d.Ends != issued.Ends || d.Ends.Unix() != ends(cred.SVIDLifetime) {
			t.Errorf("%s: a delegation ends at %v, and Ends is %v: %v", bound, d.Ends, issued.Ends, err)
		}
		passport, claims, err := bounded.Passport("build-bot", []string{"*"}, nil, "", cred.MaxPassportTTL, now)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := i.CheckPassport(passport, now); err != nil || read.ExpiresAt != claims.ExpiresAt || read.ExpiresAt != ends(cred.MaxPassportTTL) {
			t.Errorf("%s: a passport ends at %d, and ExpiresAt is %d: %v", bound, read.ExpiresAt, claims.ExpiresAt, err)
		}
	}
	if i.Until(time.Time{}) != i {
		t.Error("no bound is one")
	}
}

// nested is a delegation token of a chain, or an access token of the same one with the nesting of
// RFC 8693.
func nested(typ string, d cred.Delegation) string {
	draft := newSVID()
	draft.header["typ"], draft.claims["sub"], draft.claims["jti"] = typ, d.Subject, d.TokenID
	switch {
	case len(d.Chain) < 2:
	case typ == cred.TypeAccessToken:
		draft.claims["act"] = json.RawMessage(cred.StandardAct(d.Chain))
	default:
		draft.claims["act"] = d.Act
	}
	return draft.sign()
}

// What an agent computes from its token before it is sent is what the record will have, for each
// length of chain and either nesting.
func TestHashOfTokenIsHashOfRecord(t *testing.T) {
	t.Parallel()
	chain := []string{"https://idp.example#alice"}
	for actors := range cred.MaxActors + 1 {
		if actors > 0 {
			chain = append(chain, domain.AgentID("acme", "agent-"+strconv.Itoa(actors)))
		}
		d := cred.NewDelegation(chain, "0a6b0c0e-3c3f-4d8e-9d57-0d6b0f6d7f11", "")
		for _, typ := range []string{cred.TypeJWT, cred.TypeAccessToken} {
			read, err := cred.ReadDelegation(nested(typ, d))
			if err != nil {
				t.Fatal(err)
			}
			respelt, err := json.MarshalIndent(read, " ", "\t")
			if err != nil {
				t.Fatal(err)
			}
			ofRecord, err := cred.HashInfo(respelt)
			if err != nil || read.Hash() != d.Hash() || ofRecord != d.Hash() {
				t.Errorf("%d actors, typ %s: %s and %s, %v; want %s", actors, typ, read.Hash(), ofRecord, err, d.Hash())
			}
		}
	}
	// what sha256sum says of the canonical form
	d := cred.NewDelegation([]string{domain.CompanyID("acme"), agent}, "t-1", "")
	if d.Hash() != "6a280b958915c7ae942ed3fb22d769dda21b47fc2eab10f6142137d73d658637" {
		t.Errorf("%s has the hash %s", d.Canonical(), d.Hash())
	}
	for _, spoilt := range []string{"", "{", `{"a":1,"a":2}`} {
		if _, err := cred.HashInfo([]byte(spoilt)); err == nil {
			t.Errorf("%q has a hash", spoilt)
		}
	}
}

// Each part of a delegation is in its hash, its content under one tokenId above all.
func TestHashCoversDelegation(t *testing.T) {
	t.Parallel()
	other := domain.AgentID("acme", "other")
	seen := make(map[string]bool)
	for _, d := range []cred.Delegation{
		cred.NewDelegation([]string{domain.CompanyID("acme"), agent}, "t-1", ""),
		cred.NewDelegation([]string{domain.CompanyID("acme"), agent}, "t-2", ""),
		cred.NewDelegation([]string{domain.CompanyID("globex"), agent}, "t-1", ""),
		cred.NewDelegation([]string{domain.CompanyID("acme"), other}, "t-1", ""),
		cred.NewDelegation([]string{domain.CompanyID("acme"), other, agent}, "t-1", ""),
		cred.NewDelegation([]string{domain.CompanyID("acme"), agent, other}, "t-1", ""),
		cred.NewDelegation([]string{domain.CompanyID("acme")}, "t-1", ""),
	} {
		if seen[d.Hash()] {
			t.Errorf("%s has the hash of another delegation", d.Canonical())
		}
		seen[d.Hash()] = true
	}
}

// A token from which no DelegationInfo can be made has no hash.
func TestReadDelegationRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]struct {
		code  string
		spoil func(draft)
	}{
		"a passport":          {cred.CodeWrongTokenType, func(d draft) { d.header["typ"] = "CAP+JWT" }},
		"no typ":              {cred.CodeWrongTokenType, func(d draft) { delete(d.header, "typ") }},
		"no sub":              {cred.CodeMalformedClaims, func(d draft) { delete(d.claims, "sub") }},
		"a number as jti":     {cred.CodeMalformedClaims, func(d draft) { d.claims["jti"] = 1 }},
		"no jti":              {cred.CodeMalformedClaims, func(d draft) { delete(d.claims, "jti") }},
		"act null":            {cred.CodeMalformedClaims, func(d draft) { d.claims["act"] = nil }},
		"act with more":       {cred.CodeMalformedClaims, func(d draft) { d.claims["act"] = object{"sub": agent, "spoilt": 1} }},
		"act without sub":     {cred.CodeMalformedClaims, func(d draft) { d.claims["act"] = object{} }},
		"act of eleven":       {cred.CodeMalformedClaims, func(d draft) { d.claims["act"] = acts(11) }},
		"act of many":         {cred.CodeMalformedToken, func(d draft) { d.claims["act"] = acts(200) }},
		"claims of 16 KiB":    {cred.CodeMalformedToken, func(d draft) { d.claims["scope"] = strings.Repeat("a", cred.MaxTokenSize) }},
		"a key in the header": {cred.CodeMalformedToken, func(d draft) { d.header["jwk"] = object{} }},
	} {
		for _, typ := range []string{cred.TypeJWT, cred.TypeAccessToken} {
			d := newSVID()
			d.header["typ"] = typ
			spoil.spoil(d)
			if _, err := cred.ReadDelegation(d.sign()); codeOf(t, err) != spoil.code {
				t.Errorf("%s, typ %s: %v, want %s", name, typ, err, spoil.code)
			}
		}
	}
}

func acts(n int) object {
	if n == 1 {
		return object{"sub": agent}
	}
	return object{"sub": agent, "act": acts(n - 1)}
}

// FuzzReadDelegation holds that what passes has one hash, which its record has too.
func FuzzReadDelegation(f *testing.F) {
	for _, typ := range []string{cred.TypeJWT, cred.TypeAccessToken, "CAP+JWT"} {
		d := newSVID()
		d.header["typ"] = typ
		f.Add(marshal(d.header), marshal(d.claims))
		d.claims["act"] = acts(3)
		f.Add(marshal(d.header), marshal(d.claims))
	}
	f.Fuzz(func(t *testing.T, header, claims []byte) {
		d, err := cred.ReadDelegation(forge(keyOf("acme"), header, claims))
		if codeOf(t, err) != "accepted" {
			return
		}
		if hash, err := cred.HashInfo(marshal(d)); err != nil || hash != d.Hash() || len(d.Chain) > 1+cred.MaxActors || d.Chain[0] != d.Subject {
			t.Fatalf("%+v has the hashes %s and %s, %v", d, d.Hash(), hash, err)
		}
	})
}
