package cred_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"attestd/crypto/cred"
)

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
