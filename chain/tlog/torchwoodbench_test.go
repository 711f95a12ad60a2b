package tlog_test

import (
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
)

// BenchmarkTorchwood compares each form with torchwood: the figures in docs/design/append.md.
func BenchmarkTorchwood(b *testing.B) {
	pair := func(form string, ours, theirs func() error) {
		for name, f := range map[string]func() error{"ours": ours, "torchwood": theirs} {
			b.Run(form+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}

	signer, err := torchwood.NewCosignatureSigner(witnessName, witnessKey)
	if err != nil {
		b.Fatal(err)
	}
	text := witnessVKey.String()
	pair("vkey", func() error {
		_, err := tlog.ParseVKey(text)
		return err
	}, func() error {
		_, err := torchwood.NewCosignatureVerifier(text)
		return err
	})

	c, cosignature := cosign(b, witnessName, witnessKey, noon)
	pair("cosign", func() error {
		_, err := c.Cosign(witnessName, witnessKey, noon)
		return err
	}, func() error {
		_, err := note.Sign(&note.Note{Text: c.Text()}, signer)
		return err
	})
	below := []byte(c.Text() + "\n" + cosignature.Line)
	pair("cosignature", func() error {
		_, err := c.ParseCosignatures([]byte(cosignature.Line), witnessVKey)
		return err
	}, func() error {
		_, err := note.Open(below, note.VerifierList(signer.Verifier()))
		return err
	})

	policyText := []byte(example())
	policy, err := tlog.ParsePolicy(policyText)
	if err != nil {
		b.Fatal(err)
	}
	theirs, err := torchwood.ParsePolicy(policyText)
	if err != nil {
		b.Fatal(err)
	}
	pair("policy", func() error {
		_, err := tlog.ParsePolicy(policyText)
		return err
	}, func() error {
		_, err := torchwood.ParsePolicy(policyText)
		return err
	})
	signed, err := c.Sign(key)
	if err != nil {
		b.Fatal(err)
	}
	for i := range byte(6) {
		name, private, _ := cosigner(i)
		line, err := c.Cosign(name, private, noon)
		if err != nil {
			b.Fatal(err)
		}
		signed = append(signed, line.Line...)
	}
	pair("policy-check", func() error {
		_, err := policy.Open(signed)
		return err
	}, func() error {
		_, _, err := torchwood.VerifyCheckpoint(signed, theirs)
		return err
	})

	const n = 100_000
	g, l := grow(n), leaf(777)
	proof := proofOf(b, g, n, 777).Format()
	verifier, err := note.NewVerifier(vkey.String())
	if err != nil {
		b.Fatal(err)
	}
	logPolicy := torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(origin), torchwood.SingleVerifierPolicy(verifier))
	pair("proof-check", func() error {
		p, err := tlog.ParseProof(proof)
		if err == nil {
			_, err = p.Check(l.Hash(), vkey)
		}
		return err
	}, func() error { return torchwood.VerifyProof(logPolicy, l.Hash(), proof) })

	pair("checkpoint", func() error {
		_, err := tlog.ParseCheckpoint(c.Text())
		return err
	}, func() error {
		_, err := torchwood.ParseCheckpoint(c.Text())
		return err
	})
	const path = "tile/0/x001/x234/067.p/112"
	pair("tile-path", func() error {
		_, err := tlog.ParseTilePath(path)
		return err
	}, func() error {
		_, err := torchwood.ParseTilePath(path)
		return err
	})
}
