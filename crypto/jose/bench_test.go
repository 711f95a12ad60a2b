package jose_test

import (
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/must"
)

func BenchmarkParseKey(b *testing.B) {
	for _, algorithm := range algorithms {
		jwk := []byte(privateKey(b, algorithm).Key().JWK())
		b.Run(algorithm, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := jose.ParseKey(jwk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, algorithm := range algorithms {
		p := privateKey(b, algorithm)
		token := parse(b, signed(b, p, `{"alg":"`+algorithm+`"}`, `{"a":1}`))
		b.Run(algorithm, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.OK(b, p.Key().Verify(token))
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	for _, algorithm := range algorithms {
		p := privateKey(b, algorithm)
		b.Run(algorithm, func(b *testing.B) {
			for b.Loop() {
				if _, err := jose.Sign(b.Context(), p, "a+jwt", []byte(`{"a":1}`)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
