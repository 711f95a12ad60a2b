package statement_test

import (
	"testing"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
)

// A check as the server makes it: parse, verify, compare.
func BenchmarkCheck(b *testing.B) {
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		d := sound(b, algorithm)
		compact, key, want := d.sign(b), d.key.Key(), expected(b)
		b.Run(algorithm, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := statement.Parse(compact)
				must(b, err)
				must(b, s.Check(key, want, now))
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	compact := sound(b, jose.EdDSA).sign(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := statement.Parse(compact); err != nil {
			b.Fatal(err)
		}
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
