package jcs_test

import (
	"bytes"
	"strconv"
	"testing"

	"attestd/crypto/jcs"
)

// attestation is the stored payload of a common attestation.
var attestation = []byte(`{"agentId":"build-bot-7","companyId":"acme","actionType":"deploy","payload":{"service":"checkout","version":"2.14.1",` +
	`"replicas":12,"canary":true,"ratio":0.25,"labels":{"region":"eu-west-1","tier":"gold"},"steps":["pull","verify","roll"],` +
	`"note":"größer","previous":null,"when":1731931931}}`)

func BenchmarkAppend(b *testing.B) {
	sorted, err := jcs.Append(nil, attestation, maxDepth)
	if err != nil {
		b.Fatal(err)
	}
	large := []byte{'['}
	for len(large) < 64<<10 {
		large = append(append(large, attestation...), ',')
	}
	large[len(large)-1] = ']'
	for name, doc := range map[string][]byte{
		"Attestation": attestation,
		"Sorted":      sorted,
		"Escapes":     []byte(`{"text":"line\nline\tand \"quotes\" \u00e9\u00e8","path":"C:\\temp\\x"}`),
		"64KiB":       large,
	} {
		b.Run(name+"/"+strconv.Itoa(len(doc))+"B", func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			dst := bytes.Clone(doc)
			for b.Loop() {
				var err error
				if dst, err = jcs.Append(dst[:0], doc, maxDepth); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
