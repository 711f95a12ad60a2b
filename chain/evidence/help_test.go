package evidence_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/evidence/evidencetest"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/internal/must"
)

var began = evidencetest.Began

const (
	agentID = "build-bot"
	jti     = "0b9b5c5e-6a6f-4a39-9d3b-0b7d1f2f6a11"
)

// The keys of tests.
var private, public, fingerprint = evidencetest.Private, evidencetest.Public, evidencetest.Fingerprint

var hexPath, hexRoot = evidencetest.HexPath, evidencetest.HexRoot

// company is a company with fixed keys and times: its key n is private(n).
type company struct {
	t    testing.TB
	id   string
	keys byte // how many
	now  time.Time
	logs [2]*memoryLog // actions, control

	policies *evidence.Policies // of sessions and reports
}

// memoryLog is one of its logs, with the leaves of the tree that standard tools read.
type memoryLog struct {
	evidence.Log
	records []chain.Record
	leaves  []tlog.Hash
	stored  []tlog.Hash // each over 256 leaves
}

func newCompany(t testing.TB) *company {
	c := &company{t: t, id: "acme", keys: 1, now: began}
	for i, name := range []string{evidence.Actions, evidence.Control} {
		id := strings.Repeat(fmt.Sprint(i+1), 32)
		c.logs[i] = &memoryLog{Log: evidencetest.NewLog(name, id)}
	}
	return c
}

func (c *company) key() ed25519.PrivateKey { return private(c.keys - 1) }

// rotateFormerly rotates with a statement of the first form, which names keys by their kids: those
// of the samples are stored so.
func (c *company) rotateFormerly() {
	c.rotate()
	for _, l := range c.logs {
		n := len(l.Keys) - 1
		text := fmt.Sprintf("attestd/key-rotation/v1\n%s\n%d\n%s\n%s\n", l.Origin, l.Keys[n].From, kid(c.keys-2), kid(c.keys-1))
		l.Keys[n].Rotation = &keyring.Rotation{
			Statement: text, OldSignature: ed25519.Sign(private(c.keys-2), []byte(text)), NewSignature: ed25519.Sign(c.key(), []byte(text)),
		}
	}
}

func (c *company) rotate() {
	n := c.keys
	c.keys++
	for _, l := range c.logs {
		evidencetest.Rotate(&l.Log, n, int64(len(l.records)))
	}
	is := keys.Describe(public(n))
	c.change("signing-key.rotated", "signing-key:"+is.KID, map[string]any{"kid": is.KID})
}

// add appends a record a second after the one before.
func (c *company) add(log int, agent, action, payload string, delegation string) *chain.Record {
	c.t.Helper()
	c.now = c.now.Add(time.Second)
	l := c.logs[log]
	r := chain.Record{Index: int64(len(l.records)), Timestamp: chain.FormatTime(c.now)}
	kind := ""
	if log == 1 {
		kind = `,"log":"control"`
	}
	r.Payload = fmt.Appendf(nil, `{"agentId":%q,"companyId":%q,"actionType":%q,"payload":%s%s}`, agent, c.id, action, payload, kind)
	if delegation != "" {
		r.Delegation = []byte(delegation)
	}
	leaf, err := evidencetest.Sign(&r, c.keys-1)
	must.OK(c.t, err)
	l.records = append(l.records, r)
	l.leaves = append(l.leaves, leaf)
	return &l.records[r.Index]
}

// change appends a control record.
func (c *company) change(action, subject string, details map[string]any) {
	c.t.Helper()
	payload := map[string]any{"subject": subject, "by": "api-key:9f86d081884c7d65"}
	for name, value := range details {
		payload[name] = value
	}
	text, err := json.Marshal(payload)
	must.OK(c.t, err)
	c.add(1, "service", action, string(text), "")
}

// Hashes implements tlog.Reader for a log of fewer than 65,536 records.
func (l *memoryLog) Hashes(_ context.Context, level int, from, to int64) ([]tlog.Hash, error) {
	for n := len(l.stored); n < len(l.leaves)/256; n++ {
		l.stored = append(l.stored, rootOf(l.leaves[256*n:256*n+256]))
	}
	return [][]tlog.Hash{0: l.leaves, 8: l.stored}[level][from:to], nil
}

// rootOf is the root of a perfect tree by RFC 6962 §2.1.
func rootOf(leaves []tlog.Hash) tlog.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	left, right := rootOf(leaves[:len(leaves)/2]), rootOf(leaves[len(leaves)/2:])
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

// checkpoint signs the log as it is, with the cosignatures of witnesses, which are private keys.
func (c *company) checkpoint(log int, witnesses ...byte) []byte {
	c.t.Helper()
	l := c.logs[log]
	root, err := tlog.Root(c.t.Context(), l, int64(len(l.records)))
	must.OK(c.t, err)
	checkpoint := tlog.Checkpoint{Origin: l.Origin, Tree: tlog.Tree{Size: int64(len(l.records)), Root: root}}
	signed, err := checkpoint.Sign(c.key())
	must.OK(c.t, err)
	for _, n := range witnesses {
		by, err := checkpoint.Cosign(witnessName(n), private(n), c.now)
		must.OK(c.t, err)
		signed = append(signed, by.Line...)
	}
	return signed
}

func witnessName(n byte) string { return fmt.Sprintf("witness-%d.example", n) }

func witnessKey(n byte) string {
	return tlog.VKey{Name: witnessName(n), Type: tlog.TypeCosignature, Public: public(n)}.String()
}

func (c *company) proof(log int, index int64, checkpoint []byte) string {
	c.t.Helper()
	read, _, err := tlog.ParseSignedCheckpoint(checkpoint)
	must.OK(c.t, err)
	hashes, err := tlog.ProveInclusion(c.t.Context(), c.logs[log], read.Tree, index)
	must.OK(c.t, err)
	return string(tlog.Proof{Index: index, Hashes: hashes, Checkpoint: checkpoint}.Format())
}

// entries are the control records that say something about one of the subjects.
func (c *company) entries(checkpoint []byte, about func(subject string) bool) (list []evidence.Entry) {
	for i, r := range c.logs[1].records {
		var p struct{ Payload struct{ Subject string } }
		must.OK(c.t, json.Unmarshal(r.Payload, &p))
		if about(p.Payload.Subject) {
			list = append(list, evidence.Entry{Record: r, Proof: c.proof(1, int64(i), checkpoint)})
		}
	}
	return list
}

// file is evidence for a record, without a passport and authority.
func (c *company) file(log int, index int64, checkpoint []byte) *evidence.File {
	l := c.logs[log]
	f := &evidence.File{CompanyID: c.id, Log: l.Name, Record: l.records[index], Proof: c.proof(log, index, checkpoint)}
	f.HexProof = evidence.HexProof{Steps: hexPath(l.records, int(index)), Root: hexRoot(l.records), Size: int64(len(l.records))}
	for _, l := range c.logs {
		f.Logs = append(f.Logs, l.Log)
	}
	for n := range c.keys {
		f.Keys = append(f.Keys, public(n))
	}
	return f
}

// status is what GET /v1/ocsp/{jti} would say.
func (c *company) status(members string) []byte {
	c.t.Helper()
	canonical, err := jcs.Append(nil, []byte(members), 200)
	must.OK(c.t, err)
	digest := sha256.Sum256(canonical)
	signature := base64.RawURLEncoding.EncodeToString(ed25519.Sign(c.key(), digest[:]))
	pem, err := json.Marshal(keys.Describe(public(c.keys - 1)).PEM)
	must.OK(c.t, err)
	return fmt.Appendf(nil, `%s,"caPublicKey":%s,"signature":%q}`, strings.TrimSuffix(members, "}"), pem, signature)
}

func kid(n byte) string { return keys.Describe(public(n)).KID }
