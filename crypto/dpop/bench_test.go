package dpop_test

import (
	"testing"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

func BenchmarkCheck(b *testing.B) {
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		p := josetest.PrivateKey(b, algorithm)
		proof, err := dpop.Make(b.Context(), p, request, now)
		must.OK(b, err)
		b.Run(algorithm, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := dpop.Check(proof, request, p.Key().Thumbprint, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
