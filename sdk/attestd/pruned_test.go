package attestd_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"attestd/chain"
	"attestd/sdk/attestd"
)

// A record whose payload was pruned is read and passed on as it came. Its verification never says
// that it is genuine, and that its hash is in the chain is still proven.
func TestPrunedRecord(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	keys := attestd.Pin(key.Public().(ed25519.PublicKey))
	sealed := chain.Record{Index: 0, Timestamp: "2026-03-02T09:05:04.218Z"}
	sealed.Hash = sealed.ComputeHash([]byte(`{"actionType":"a","agentId":"bot","companyId":"acme","payload":1}`))
	copy(sealed.Signature[:], ed25519.Sign(key, sealed.Hash[:]))
	text := string(sealed.AppendJSON(nil))
	sibling := chain.Hash{1}
	root := chain.Proof{{Sibling: sibling}}.Root(sealed.Hash)
	proof := func(record string) (p attestd.Proof) {
		t.Helper()
		text := fmt.Appendf(nil, `{"record":%s,"proof":[{"sibling":%q,"position":"right"}],"root":%q}`, record, sibling, root)
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}

	p := proof(text)
	if !p.Record.Pruned || p.Record.Payload.AgentID != "" || p.Record.Payload.Payload != nil {
		t.Errorf("%+v", p.Record)
	}
	if again, err := json.Marshal(p.Record); err != nil || string(again) != text {
		t.Errorf("%s, %v; want %s", again, err, text)
	}
	for name, err := range map[string]error{"record": p.Record.Verify(keys), "proof": p.Verify(keys, root.String())} {
		if !errors.Is(err, attestd.ErrPruned) || errors.Is(err, attestd.ErrNotGenuine) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.VerifyInclusion(keys, root.String()); err != nil {
		t.Error(err)
	}
	if err := p.VerifyInclusion(keys, strings.Repeat("0", 64)); !errors.Is(err, attestd.ErrNotGenuine) {
		t.Errorf("another root: %v", err)
	}
	other := attestd.Pin(ed25519.NewKeyFromSeed(append(make([]byte, 31), 1)).Public().(ed25519.PublicKey))
	resigned := proof(strings.Replace(text, base64.RawURLEncoding.EncodeToString(sealed.Signature[:]),
		base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SignatureSize)), 1))
	for name, err := range map[string]error{
		"another key, record": p.Record.Verify(other), "another key, proof": p.Verify(other, ""),
		"another key, inclusion": p.VerifyInclusion(other, ""), "another root": p.Verify(keys, strings.Repeat("0", 64)),
		"another signature, record": resigned.Record.Verify(keys), "another signature, inclusion": resigned.VerifyInclusion(keys, ""),
	} {
		if !errors.Is(err, attestd.ErrNotGenuine) || errors.Is(err, attestd.ErrPruned) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, none := range []string{
		strings.Replace(text, `,"pruned":true`, "", 1), strings.Replace(text, `"pruned":true`, `"pruned":false`, 1),
		strings.Replace(text, `"payload":null,`, "", 1), strings.Replace(text, `"payload":null`, `"payload":{}`, 1),
	} {
		if err := json.Unmarshal([]byte(none), new(attestd.Record)); err == nil {
			t.Errorf("%s is read", none)
		}
	}
}

// A request that is sent again, after the payload of its record was pruned with the decision: the
// client says so, since nothing of the record can be compared.
func TestPrunedDecision(t *testing.T) {
	t.Parallel()
	sealed := chain.Record{Index: 0, Timestamp: "2026-03-02T09:05:04.218Z"}
	sealed.Hash = sealed.ComputeHash([]byte(`{"actionType":"a","agentId":"bot","companyId":"acme","decision":{},"payload":1}`))
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(sealed.AppendJSON(nil))
	}))
	t.Cleanup(service.Close)
	client, err := attestd.New(attestd.Config{URL: service.URL, Credential: attestd.Key("key_" + strings.Repeat("A", 43)), Retry: &attestd.Retry{}})
	if err != nil {
		t.Fatal(err)
	}
	for decide, says := range map[bool]string{true: "pruned with the decision", false: "ALARM: "} {
		_, err = client.Attest(t.Context(), attestd.Attestation{AgentID: "bot", ActionType: "a", Payload: 1, Decide: decide})
		var mismatch *attestd.RecordMismatchError
		if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), says) {
			t.Errorf("decide %v: %v", decide, err)
		}
	}
}
