package cred_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"attestd/crypto/cred"
)

// Of every length a chain nests as RFC 8693 says, is read back as the same chain, and has the act
// of the other nesting in its DelegationInfo.
func TestStandardNesting(t *testing.T) {
	t.Parallel()
	i := newIssuer("acme")
	d := cred.Delegation{Subject: domain.CompanyID("acme"), Chain: []string{domain.CompanyID("acme")}}
	if act := cred.StandardAct(d.Chain); act != nil {
		t.Errorf("act of nobody: %s", act)
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
