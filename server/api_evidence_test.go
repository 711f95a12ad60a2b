package server_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"attestd/internal/must"
	"attestd/internal/testenv"
)

// Records, roots and proofs are checked here according to the specification and with another
// author's RFC 8785, not with the server's code.

type record struct {
	Index     int
	Timestamp string
	Payload   struct {
		AgentID, CompanyID, ActionType string
		Payload                        json.RawMessage
	}
	Hash      string
	Signature string

	payload, delegation json.RawMessage // unchanged bytes of the answer
}

func recordIn(t testing.TB, raw []byte) record {
	t.Helper()
	var r record
	must.OK(t, json.Unmarshal(raw, &r))
	var parts struct{ Payload, Delegation json.RawMessage }
	must.OK(t, json.Unmarshal(raw, &parts))
	r.payload, r.delegation = parts.Payload, parts.Delegation
	return r
}

func canonical(t testing.TB, raw []byte) string {
	t.Helper()
	c, err := jcs.Transform(raw)
	must.OK(t, err)
	return string(c)
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// checkRecord recomputes a record's hash and checks its signature, which is over the 32 bytes of
// the digest.
func checkRecord(t testing.TB, r record, key ed25519.PublicKey) {
	t.Helper()
	preimage := fmt.Sprintf("%d|%s|%s", r.Index, r.Timestamp, canonical(t, r.payload))
	if r.delegation != nil {
		preimage += "|" + canonical(t, r.delegation)
	}
	if want := sha(preimage); r.Hash != want {
		t.Errorf("record %d has the hash %s, want %s of %.300s", r.Index, r.Hash, want, preimage)
	}
	digest, err := hex.DecodeString(r.Hash)
	must.OK(t, err)
	signature, err := b64.DecodeString(r.Signature)
	must.OK(t, err)
	if !ed25519.Verify(key, digest, signature) {
		t.Errorf("record %d: the signature does not verify", r.Index)
	}
}

// merkleRoot is RFC 6962's tree over hex hashes.
func merkleRoot(hashes []string) string {
	switch n := len(hashes); n {
	case 0:
		return sha("")
	case 1:
		return hashes[0]
	default:
		left := 1 << (bits.Len(uint(n-1)) - 1) // the largest power of two below n
		return sha(merkleRoot(hashes[:left]) + merkleRoot(hashes[left:]))
	}
}

// checkChain reads the whole chain of a company's actions and checks all that can be checked
// without the server.
func (c caller) checkChain(t testing.TB) []record { return c.checkLog(t, "actions") }

// checkLog is checkChain for the named log.
func (c caller) checkLog(t testing.TB, log string) []record {
	t.Helper()
	var list struct{ Records []json.RawMessage }
	c.do(t, "GET /v1/chain?log="+log, "").status(200).into(&list)
	key := c.keyOfRecords(t, log)
	records, hashes := make([]record, len(list.Records)), make([]string, len(list.Records))
	for i, raw := range list.Records {
		r := recordIn(t, raw)
		checkRecord(t, r, key(i))
		if r.Index != i {
			t.Fatalf("record %d stands in place %d", r.Index, i)
		}
		if r.Payload.CompanyID != c.id {
			t.Errorf("record %d belongs to %q", i, r.Payload.CompanyID)
		}
		if i > 0 && r.Timestamp < records[i-1].Timestamp {
			t.Errorf("record %d is of %s, earlier than the one before it, of %s", i, r.Timestamp, records[i-1].Timestamp)
		}
		records[i], hashes[i] = r, r.Hash
	}
	root := merkleRoot(hashes)
	c.do(t, "GET /v1/verify?log="+log, "").gets(200, `{"valid":true,"merkleRoot":"`+root+`"}`)
	for i, r := range records {
		// of a long log, proofs at both ends, and one in eight between: paths of every form
		if between := i >= 16 && i < len(records)-16; between && len(records) > 100 && i%8 > 0 && !testenv.Night() {
			continue
		}
		var p struct {
			Record json.RawMessage
			Proof  []struct{ Sibling, Position string }
			Root   string
		}
		c.do(t, fmt.Sprintf("GET /v1/proof/%d?log=%s", i, log), "").status(200).into(&p)
		if string(p.Record) != string(list.Records[i]) {
			t.Errorf("the proof of %d comes with the record %.300s, the chain has %.300s", i, p.Record, list.Records[i])
		}
		current := r.Hash
		for _, node := range p.Proof {
			switch node.Position {
			case "left":
				current = sha(node.Sibling + current)
			case "right":
				current = sha(current + node.Sibling)
			default:
				t.Fatalf("a sibling at the %q", node.Position)
			}
		}
		if current != root || p.Root != root {
			t.Errorf("the proof of %d leads to %s and says %s, want %s", i, current, p.Root, root)
		}
		if most := bits.Len(uint(len(records) - 1)); len(p.Proof) > most {
			t.Errorf("the proof of %d has %d steps, want at most %d", i, len(p.Proof), most)
		}
	}
	return records
}

// Chains of every size up to 33 pass a check that shares no code with the server.
func TestEvidenceAtEverySize(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	key := acme.publicKey(t)
	acme.checkChain(t)
	var hashes []string
	for n := range 33 {
		r := recordIn(t, acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"a","actionType":"b","payload":{"n":%d}}`, n)).status(201).raw)
		checkRecord(t, r, key)
		hashes = append(hashes, r.Hash)
		acme.do(t, "GET /v1/verify", "").gets(200, `{"valid":true,"merkleRoot":"`+merkleRoot(hashes)+`"}`)
		if size := n + 1; slices.Contains([]int{1, 2, 3, 5, 8, 13, 33}, size) {
			acme.checkChain(t)
		}
	}
}

// Many clients at once: each gets its own index, and each answer equals the record in the chain.
func TestEvidenceOfConcurrentAppends(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	const clients, each = 8, 10
	answers := make(chan record, clients*each)
	done := make(chan struct{})
	for i := range clients {
		who := []caller{acme, globex}[i%2]
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range each {
				body := fmt.Sprintf(`{"agentId":"client-%d","actionType":"count","payload":[%d,"ü","\ud83d\ude00",{"b":1e2,"a":"%s"}]}`, i, n, strings.Repeat("x", n))
				r := who.do(t, "POST /v1/attest", body)
				if r.code != 201 {
					t.Errorf("status %d: %s", r.code, r.raw)
					return
				}
				answers <- recordIn(t, r.raw)
			}
		}()
	}
	for range clients {
		<-done
	}
	close(answers)
	chains := map[string][]record{"acme": acme.checkChain(t), "globex": globex.checkChain(t)}
	for id, chain := range chains {
		if len(chain) != clients/2*each {
			t.Errorf("%s has %d records, want %d", id, len(chain), clients/2*each)
		}
	}
	for r := range answers {
		chain := chains[r.Payload.CompanyID]
		if r.Index >= len(chain) || chain[r.Index].Hash != r.Hash {
			t.Errorf("%s record %d was acknowledged and is not in the chain", r.Payload.CompanyID, r.Index)
		}
	}
}
