package statement_test

import (
	"testing"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

// versions are the kinds of statements whose costs are compared. What has refused is rare.
func versions(b *testing.B, algorithm string) map[string]draft {
	usual := sound(b, algorithm)
	without("refused")(usual)
	return map[string]draft{"1": soundFirst(b, algorithm), "2": usual, "2-refused": sound(b, algorithm)}
}

// A check as the server makes it: parse, verify, compare.
func BenchmarkCheck(b *testing.B) {
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		for version, d := range versions(b, algorithm) {
			compact, key, want := d.sign(b), d.key.Key(), expected(b)
			b.Run(algorithm+"/version="+version, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s, err := statement.Parse(compact)
					must.OK(b, err)
					must.OK(b, s.Check(key, want, now))
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for version, d := range versions(b, jose.EdDSA) {
		compact := d.sign(b)
		b.Run("version="+version, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := statement.Parse(compact); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMake(b *testing.B) {
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		p, c := josetest.PrivateKey(b, algorithm), claims(b)
		b.Run(algorithm, func(b *testing.B) {
			for b.Loop() {
				if _, err := statement.Make(b.Context(), p, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
