package evidencetest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/bits"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
)

// Operator has every key of a company, and so can write any history into its
// two logs. What he has no key of is an agent's. The company's key is the key 0. Its methods panic
// for what cannot be written.
type Operator struct {
	Company string
	Now     time.Time // of the record before
	Actions *History
	Control *History
}

// History is a log as its operator has written it.
type History struct {
	Log     evidence.Log
	Records []chain.Record
	leaves  Leaves
}

// Began is when every history begins.
var Began = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// NewOperator returns the operator of a company whose logs are empty. n tells logs of one company
// apart, as they are at several services.
func NewOperator(company string, n byte) *Operator {
	history := func(name string, digit byte) *History {
		return &History{Log: NewLog(name, strings.Repeat(string([]byte{'0' + n, '0' + digit}), 16))}
	}
	return &Operator{company, Began, history(evidence.Actions, 1), history(evidence.Control, 2)}
}

func need(err error) {
	if err != nil {
		panic("evidencetest: " + err.Error())
	}
}

// Action appends a record of an action a second after the one before, and returns its index.
// statement and delegation are "" for none; a delegation has the RFC 8785 form.
func (o *Operator) Action(agentID, actionType, payload, statement, delegation string) int64 {
	text := fmt.Sprintf(`{"agentId":%s,"companyId":%s,"actionType":%s,"payload":%s`, quote(agentID), quote(o.Company), quote(actionType), payload)
	if statement != "" {
		text += `,"statement":` + quote(statement)
	}
	return o.append(o.Actions, text+"}", delegation)
}

// Change appends a control record.
func (o *Operator) Change(actionType, subject string, details map[string]any) int64 {
	all := map[string]any{"subject": subject, "by": "api-key:9f86d081884c7d65"}
	for name, value := range details {
		all[name] = value
	}
	text, err := json.Marshal(all)
	need(err)
	return o.append(o.Control, fmt.Sprintf(`{"agentId":"service","companyId":%s,"actionType":%s,"payload":%s,"log":"control"}`, quote(o.Company), quote(actionType), text), "")
}

func quote(s string) string { return string(jcs.AppendString(nil, s)) }

func (o *Operator) append(h *History, payload, delegation string) int64 {
	o.Now = o.Now.Add(time.Second)
	r := chain.Record{Index: int64(len(h.Records)), Timestamp: chain.FormatTime(o.Now), Payload: []byte(payload)}
	if delegation != "" {
		r.Delegation = []byte(delegation)
	}
	leaf, err := Sign(&r, 0)
	need(err)
	h.Records, h.leaves = append(h.Records, r), append(h.leaves, leaf)
	return r.Index
}

// Enrol appends the control record of a key of an agent, in which details replace
// what would be there.
func (o *Operator) Enrol(agentID string, key *jose.Key, details map[string]any) int64 {
	all := map[string]any{
		"agentId": agentID, "thumbprint": key.Thumbprint, "jwk": json.RawMessage(key.JWK()), "label": nil, "expiresAt": nil,
		"statementVersion": 2, "enrolment": nil, "endorsement": nil,
	}
	for name, value := range details {
		all[name] = value
	}
	return o.Change("agent-key.enrolled", "agent-key:"+key.Thumbprint, all)
}

// Revoke appends the control record of the revocation of a key.
func (o *Operator) Revoke(agentID, thumbprint string, details map[string]any) int64 {
	all := map[string]any{
		"agentId": agentID, "thumbprint": thumbprint, "revokedAt": chain.FormatTime(o.Now.Add(time.Second)), "reason": nil, "since": nil,
	}
	for name, value := range details {
		all[name] = value
	}
	return o.Change("agent-key.revoked", "agent-key:"+thumbprint, all)
}

// Evidence returns the file about an action, with the control records of keys; none for a record
// without a statement.
func (o *Operator) Evidence(index int64, control ...int64) *evidence.File {
	r := o.Actions.Records[index]
	f := o.file()
	f.Log, f.Record, f.Delegation = evidence.Actions, r, r.Delegation
	f.HexProof = evidence.HexProof{Steps: HexPath(o.Actions.Records, int(index)), Root: HexRoot(o.Actions.Records), Size: int64(len(o.Actions.Records))}
	f.Proof = o.Actions.proof(index)
	if len(control) > 0 {
		f.AgentKey = &evidence.AgentKey{Entries: o.entries(control)}
	}
	return f
}

func (o *Operator) file() *evidence.File {
	return &evidence.File{CompanyID: o.Company, Logs: []evidence.Log{o.Actions.Log, o.Control.Log}, Keys: []ed25519.PublicKey{Public(0)}, Witnesses: []string{}}
}

func (o *Operator) entries(control []int64) (list []evidence.Entry) {
	for _, i := range control {
		list = append(list, evidence.Entry{Record: o.Control.Records[i], Proof: o.Control.proof(i)})
	}
	return list
}

// Session returns the file of a session with some actions, in their order, and the control records
// of its key.
func (o *Operator) Session(agentID, kid, sid string, control, actions []int64) []byte {
	return o.session(agentID, kid, sid, control, actions, func(*evidence.File) {})
}

// session is Session with what fill puts into the header.
func (o *Operator) session(agentID, kid, sid string, control, actions []int64, fill func(*evidence.File)) []byte {
	f := o.file()
	fill(f)
	f.AgentKey = &evidence.AgentKey{Entries: o.entries(control)}
	var text bytes.Buffer
	w, err := evidence.NewSessionWriter(&text, &evidence.SessionFile{
		AgentID: agentID, KeyID: kid, ID: sid, Records: int64(len(actions)), Checkpoint: string(o.Actions.checkpoint()), File: f,
	})
	need(err)
	tree := o.Actions.leaves.Frontier().Tree()
	prover := tlog.NewProver(context.Background(), o.Actions.leaves, tree)
	for _, i := range actions {
		proof, err := prover.Prove(i)
		need(err)
		need(w.Write(&o.Actions.Records[i], proof))
	}
	need(w.Close())
	return text.Bytes()
}

func (h *History) checkpoint() []byte {
	signed, err := tlog.Checkpoint{Origin: h.Log.Origin, Tree: h.leaves.Frontier().Tree()}.Sign(Private(0))
	need(err)
	return signed
}

func (h *History) proof(index int64) string {
	hashes, err := tlog.ProveInclusion(context.Background(), h.leaves, h.leaves.Frontier().Tree(), index)
	need(err)
	return string(tlog.Proof{Index: index, Hashes: hashes, Checkpoint: h.checkpoint()}.Format())
}

// HexPath is the proof by the definition of RFC 6962 §2.1.1, and HexRoot the root, with the node
// hash of the specification.
func HexPath(records []chain.Record, index int) chain.Proof {
	if len(records) == 1 {
		return nil
	}
	k := 1 << (bits.Len(uint(len(records)-1)) - 1)
	if index < k {
		return append(HexPath(records[:k], index), chain.Step{Sibling: HexRoot(records[k:])})
	}
	return append(HexPath(records[k:], index-k), chain.Step{Sibling: HexRoot(records[:k]), Left: true})
}

func HexRoot(records []chain.Record) chain.Hash {
	if len(records) == 1 {
		return records[0].Hash
	}
	k := 1 << (bits.Len(uint(len(records)-1)) - 1)
	return sha256.Sum256([]byte(HexRoot(records[:k]).String() + HexRoot(records[k:]).String()))
}
