package cred_test

import (
	"crypto/ed25519"
	"testing"
	"time"

	"attestd/crypto/cred"
)

func BenchmarkSVID(b *testing.B) {
	i, now := newIssuer("acme"), time.Now()
	sub := i.Domain.AgentID("acme", "build-bot")
	b.ReportAllocs()
	for b.Loop() {
		i.SVID(sub, now)
	}
}

func BenchmarkPassport(b *testing.B) {
	i, now := newIssuer("acme"), time.Now()
	scopes := []string{"tool:*", "attest:write"}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := i.Passport("build-bot", scopes, nil, "", time.Hour, now); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckPassport(b *testing.B) {
	for name, verified := range map[string]*cred.Verified{"first": nil, "again": new(cred.Verified)} {
		b.Run(name, func(b *testing.B) {
			i, now := cred.NewIssuer(domain, "acme", keyOf("acme"), verified), time.Now()
			token, _, err := i.Passport("build-bot", []string{"tool:*", "attest:write"}, nil, "", time.Hour, now)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.CheckPassport(token, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCheckDelegation(b *testing.B) {
	i, now := newIssuer("acme"), time.Now()
	from := cred.Delegation{Subject: i.Domain.CompanyID("acme")}
	var token string
	for _, actor := range []string{"planner", "build-bot"} {
		var err error
		if token, from, err = i.Delegate(from, i.Domain.AgentID("acme", actor), "", now); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		d, err := i.CheckDelegation(token, now)
		if err != nil {
			b.Fatal(err)
		}
		d.Canonical()
	}
}

// The two primitives alone, to read the others by.
func BenchmarkEd25519(b *testing.B) {
	_, key, _ := ed25519.GenerateKey(nil)
	message := make([]byte, 500)
	signature := ed25519.Sign(key, message)
	public := key.Public().(ed25519.PublicKey)
	b.Run("Sign", func(b *testing.B) {
		for b.Loop() {
			ed25519.Sign(key, message)
		}
	})
	b.Run("Verify", func(b *testing.B) {
		for b.Loop() {
			ed25519.Verify(public, message, signature)
		}
	})
}
