package cred_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
)

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
		read, err := domain.Standard(d.Subject, act, "t", "")
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
		read, err := domain.Standard(d.Subject, act, d.TokenID, "")
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
		if read, err := domain.Standard(first, []byte(act), "", ""); err != nil || !slices.Equal(read.Chain, want) {
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
		if _, err := domain.Standard(agent, []byte(act), "", ""); codeOf(t, err) != cred.CodeMalformedClaims {
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
			t.Errorf("%s: a delegation ends at %v, and is said to at %v: %v", bound, d.Ends, issued.Ends, err)
		}
		passport, claims, err := bounded.Passport("build-bot", []string{"*"}, nil, "", cred.MaxPassportTTL, now)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := i.CheckPassport(passport, now); err != nil || read.ExpiresAt != claims.ExpiresAt || read.ExpiresAt != ends(cred.MaxPassportTTL) {
			t.Errorf("%s: a passport ends at %d, and is said to at %d: %v", bound, read.ExpiresAt, claims.ExpiresAt, err)
		}
	}
	if i.Until(time.Time{}) != i {
		t.Error("no bound is one")
	}
}
