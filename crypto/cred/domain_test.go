package cred_test

import (
	"crypto/ed25519"
	"strings"
	"testing"

	"attestd/crypto/cred"
)

func TestNames(t *testing.T) {
	t.Parallel()
	notary := cred.Domain{TrustDomain: "prod.example", Service: "notary"}
	for _, test := range []struct{ got, want string }{
		{domain.Issuer(), "spiffe://attestd.local/ca"},
		{domain.CompanyID("acme"), "spiffe://attestd.local/company/acme"},
		{domain.AgentID("acme", "bot"), "spiffe://attestd.local/company/acme/agent/bot"},
		{newIssuer("acme").CompanyID(), "spiffe://attestd.local/company/acme"},
		{newIssuer("acme").AgentID("bot"), "spiffe://attestd.local/company/acme/agent/bot"},
		{domain.PassportAudience(), "service:passport:v1"},
		{domain.Title(), "Service"},
		{domain.ReceiptType(), "ServiceAttestationReceipt"},
		{notary.AgentID("acme", "bot"), "spiffe://prod.example/company/acme/agent/bot"},
		{notary.PassportAudience(), "notary:passport:v1"},
		{notary.ReceiptType(), "NotaryAttestationReceipt"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

func TestDomainCheck(t *testing.T) {
	t.Parallel()
	for _, td := range []string{"attestd.local", "a", "0-a_b.c", strings.Repeat("a", 255)} {
		if err := (cred.Domain{TrustDomain: td, Service: "service"}).Check(); err != nil {
			t.Errorf("trust domain %q: %v", td, err)
		}
	}
	for _, td := range []string{"", "Attestd.local", "a/b", "a:1", "a b", "é", strings.Repeat("a", 256)} {
		if err := (cred.Domain{TrustDomain: td, Service: "service"}).Check(); err == nil {
			t.Errorf("trust domain %q passes", td)
		}
	}
	for _, name := range []string{"service", "ab", "a1", "attestd", strings.Repeat("a", 32)} {
		if err := (cred.Domain{TrustDomain: "a", Service: name}).Check(); err != nil {
			t.Errorf("service %q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "a", "1a", "Service", "a-b", "a_b", "é1", strings.Repeat("a", 33),
		// mean something in keys or tokens
		"oauth", "cc", "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "act", "scope",
	} {
		if err := (cred.Domain{TrustDomain: "a", Service: name}).Check(); err == nil {
			t.Errorf("service %q passes", name)
		}
	}
}

func TestCheckSegment(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"acme", "A", "0", "...", ".a", "-", "_", "a.b-c_D9", strings.Repeat("x", 128)} {
		if err := cred.CheckSegment(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", ".", "..", "a/b", "a%2Fb", "a b", "a\x00", "é", "a:b", "a+b", "a~b", "a\n", strings.Repeat("x", 129)} {
		err := cred.CheckSegment(s)
		if err == nil {
			t.Errorf("%q passes", s)
		} else if !strings.Contains(err.Error(), "A-Z, a-z, 0-9, '.', '_' and '-'") {
			t.Errorf("%q: %v does not say what is allowed", s, err)
		}
	}
}

func TestNewIssuerRefusesHalfAKey(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a seed passes for a private key")
		}
	}()
	cred.NewIssuer(domain, "acme", ed25519.PrivateKey(make([]byte, ed25519.SeedSize)), nil)
}
