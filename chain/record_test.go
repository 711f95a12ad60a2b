package chain_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"
	"time"

	"attestd/chain"
)

// TestRecordFormat specifies the format of a record, for implementers of a checker.
func TestRecordFormat(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	l := chain.NewLog(d)
	stop := run(t, l)
	defer stop()
	plain, err := l.Append(t.Context(), chain.Draft{
		Chain:     1,
		Payload:   []byte(`{"agentId":"ä","companyId":"acme","actionType":"t","payload":{"b":1.50, "a":"\u003c"}}`),
		Canonical: []byte(`{"actionType":"t","agentId":"ä","companyId":"acme","payload":{"a":"<","b":1.5}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	delegated, err := l.Append(t.Context(), chain.Draft{
		Chain:      1,
		Payload:    []byte(`{"agentId":"a","companyId":"acme","actionType":"t","payload":null}`),
		Canonical:  []byte(`{"actionType":"t","agentId":"a","companyId":"acme","payload":null}`),
		Delegation: []byte(`{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"j"}`),
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		record   chain.Record
		preimage string
		json     string
	}{
		{plain,
			`0|` + plain.Timestamp + `|{"actionType":"t","agentId":"ä","companyId":"acme","payload":{"a":"<","b":1.5}}`,
			`{"index":0,"timestamp":"` + plain.Timestamp + `","payload":{"agentId":"ä","companyId":"acme","actionType":"t","payload":{"b":1.50, "a":"\u003c"}}`},
		{delegated,
			`1|` + delegated.Timestamp + `|{"actionType":"t","agentId":"a","companyId":"acme","payload":null}|{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"j"}`,
			`{"index":1,"timestamp":"` + delegated.Timestamp + `","payload":{"agentId":"a","companyId":"acme","actionType":"t","payload":null},"delegation":{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"j"}`},
	} {
		hash := sha256Sum(c.preimage)
		if c.record.Hash != hash {
			t.Errorf("hash = %s, want that of %s", c.record.Hash, c.preimage)
		}
		if !ed25519.Verify(public, hash[:], c.record.Signature[:]) {
			t.Error("the signature is not over the 32 bytes of the hash")
		}
		want := c.json + `,"hash":"` + hex.EncodeToString(hash[:]) + `","signature":"` + base64.RawURLEncoding.EncodeToString(c.record.Signature[:]) + `"}`
		if got := string(c.record.AppendJSON([]byte("x"))); got != "x"+want {
			t.Errorf("JSON = %s\nwant x%s", got, want)
		}
		if !json.Valid([]byte(want)) {
			t.Error("not JSON")
		}
	}
	if v := verify(t, d, 1); !v.Valid || v.Length != 2 {
		t.Errorf("verdict %+v", v)
	}
}

func TestFormatTime(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]time.Time{
		"2026-01-02T03:04:05.000Z": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		// truncated, not rounded
		"2026-01-02T03:04:05.999Z": time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, time.UTC),
		"2026-01-01T22:04:05.010Z": time.Date(2026, 1, 2, 3, 4, 5, 10_000_000, time.FixedZone("", 5*3600)),
	} {
		if got := chain.FormatTime(in); got != want {
			t.Errorf("FormatTime(%v) = %s, want %s", in, got, want)
		}
	}
}

// A record without its payload says so in JSON, and nothing else of it changes.
func TestRecordWithoutPayload(t *testing.T) {
	t.Parallel()
	r := chain.Record{Index: 7, Timestamp: "2026-03-02T09:05:04.218Z", Delegation: []byte(`{"act":null}`)}
	end := `,"delegation":{"act":null},"hash":"` + hex.EncodeToString(r.Hash[:]) + `","signature":"` + base64.RawURLEncoding.EncodeToString(r.Signature[:]) + `"}`
	want := `{"index":7,"timestamp":"2026-03-02T09:05:04.218Z","payload":null,"pruned":true` + end
	for _, got := range []string{string(r.AppendJSON(nil)), string(r.AppendLine(nil))} {
		if got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	r.Payload = []byte("null") // which no record of the service has
	if got := string(r.AppendJSON(nil)); got != `{"index":7,"timestamp":"2026-03-02T09:05:04.218Z","payload":null`+end {
		t.Errorf("%s", got)
	}
}

// The names of a series are in the order of their numbers, and no other name is taken for one.
func TestSeries(t *testing.T) {
	t.Parallel()
	one, other := chain.Series{1, 16: 2}, chain.Series{1, 16: 3} // which share their first half
	var before chain.Hash
	for _, n := range []int64{0, 1, 255, 256, 1 << 40, math.MaxInt64} {
		name := one.At(n)
		if got, ok := one.Number(name); !ok || got != n {
			t.Errorf("the number of %d is %d, %v", n, got, ok)
		}
		if _, ok := other.Number(name); ok {
			t.Errorf("the name of %d is one of another series", n)
		}
		if bytes.Compare(before[:], name[:]) >= 0 {
			t.Errorf("the name of %d does not come after the one before", n)
		}
		before = name
	}
	if _, ok := one.Number(one.At(-1)); ok {
		t.Error("a negative number has a name")
	}
}
