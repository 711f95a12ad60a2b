package attestd

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/jcs"
)

// Record is an entry of the chain. It keeps the bytes that the service has sent, and is marshalled
// to them.
type Record struct {
	Index int64 `json:"index"`
	// UTC with milliseconds; never earlier than that of the record before
	Timestamp  string          `json:"timestamp"`
	Payload    Action          `json:"payload"` // zero where Pruned
	Delegation *DelegationInfo `json:"delegation,omitempty"`
	Hash       string          `json:"hash"`      // lower-case hex
	Signature  string          `json:"signature"` // base64url, over the 32 bytes of the hash
	// The operator gave up the payload. Verify returns ErrPruned, and a Proof still shows that the
	// hash is in the chain.
	Pruned bool `json:"pruned,omitempty"`

	raw json.RawMessage
}

// Action is what a record says.
type Action struct {
	AgentID    string `json:"agentId"`
	CompanyID  string `json:"companyId"`
	ActionType string `json:"actionType"`
	// byte for byte as it was sent to the service
	Payload json.RawMessage `json:"payload"`
	// what the agent has signed of it, a compact JWS
	Statement string `json:"statement,omitempty"`
	Log       string `json:"log,omitempty"` // "control" in records of that log
	// what the service decided of it by the company's policies; nil where it did not
	Decision *Decision `json:"decision,omitempty"`
}

// DelegationInfo says under which authority an action was done.
type DelegationInfo struct {
	Subject string `json:"subject"`
	// the subject, then each actor; the last is the proximate actor
	Chain   []string        `json:"delegationChain"`
	Act     json.RawMessage `json:"act"` // as in the token, or null
	TokenID string          `json:"tokenId"`
}

// UnmarshalJSON reads a record. One without hash and signature is none.
func (r *Record) UnmarshalJSON(text []byte) error {
	type plain Record
	var read plain
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	if read.Hash == "" || read.Signature == "" {
		return errors.New("a record without hash and signature")
	}
	if read.Pruned || read.Payload.AgentID == "" { // of others the payload is no null
		var given struct{ Payload json.RawMessage }
		if err := json.Unmarshal(text, &given); err != nil {
			return err
		}
		if (string(given.Payload) == "null") != read.Pruned {
			return errors.New("a record has a payload, or says that it was pruned")
		}
	}
	*r = Record(read)
	r.raw = bytes.Clone(text)
	return nil
}

// MarshalJSON returns the bytes that the record was read from.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.raw == nil {
		return nil, errors.New("a record that no service has sent")
	}
	return r.raw, nil
}

// RecordMismatchError reports that the service has answered an append with a record of something
// else. Whether what was sent is recorded is unknown: sent again with the same idempotency key or
// statement, it makes one record at most.
type RecordMismatchError struct {
	// Differs names the member of the record that is not what was sent, by the place of the
	// attestation among those that were sent. It is PrunedDecision of a record that was pruned with
	// its decision, which the hash covers: nothing of it can be compared.
	Differs map[int]string
}

// PrunedDecision stands in Differs for a decision that was pruned.
const PrunedDecision = "pruned decision"

func (e *RecordMismatchError) Error() string {
	first := slices.Min(slices.Collect(maps.Keys(e.Differs)))
	if e.Differs[first] == PrunedDecision {
		return fmt.Sprintf("the service says that attestation %d of those that were sent is recorded already, and that its payload was pruned with the decision: "+
			"whether the record is of what was sent cannot be compared; the archive of the operator has it", first)
	}
	return fmt.Sprintf("ALARM: the service answered with a record whose %s is not what was sent (attestation %d of those that were sent; %d differ): do not take it for recorded",
		e.Differs[first], first, len(e.Differs))
}

// compare requires that records are those of what was sent.
func (c *Client) compare(records []Record, sent []Attestation) error {
	differs := map[int]string{}
	for i := range records {
		if what := c.differs(&records[i], &sent[i]); what != "" {
			differs[i] = what
		}
	}
	if len(differs) > 0 {
		return &RecordMismatchError{differs}
	}
	return nil
}

// payloadDepth is how deep a record nests at most.
const payloadDepth = 160

// differs returns which member of a record is not what was sent, or "". Of a record whose payload
// was pruned since, the hash is compared in place of the payload.
func (c *Client) differs(r *Record, sent *Attestation) string {
	identity, signs := c.credential.(*Identity)
	delegation, ok := r.delegationHash()
	wants := ""
	if sent.Delegation != "" {
		d, err := cred.ReadDelegation(sent.Delegation)
		ok = ok && err == nil // no record can be of another token
		wants = d.Hash()
	}
	// An access token may be of an agent that has signed in for a person, whom its records name.
	forPerson := sent.Delegation == "" && !signs && r.Delegation != nil && strings.Contains(r.Delegation.Subject, "#")
	if !ok || delegation != wants && !forPerson {
		return "delegation"
	}
	payload := sent.Payload.(json.RawMessage)
	is := r.Payload
	switch {
	case r.Pruned && sent.Decide:
		return PrunedDecision
	case r.Pruned:
		if !signs || !r.isOf(identity.company, sent, payload) { // the hash covers the company, too
			return "hash"
		}
	case is.AgentID != sent.AgentID:
		return "agentId"
	case is.ActionType != sent.ActionType:
		return "actionType"
	case is.Statement != sent.Statement:
		return "statement"
	case !sameJSON(is.Payload, payload):
		return "payload"
	case sent.Decide && is.Decision == nil:
		return "decision"
	case signs && is.CompanyID != identity.company:
		return "companyId"
	}
	return ""
}

// delegationHash is the hash of the record's delegation, "" without one.
func (r *Record) delegationHash() (hash string, ok bool) {
	if r.Delegation == nil {
		return "", true
	}
	var is struct{ Delegation json.RawMessage }
	if json.Unmarshal(r.raw, &is) != nil {
		return "", false
	}
	hash, err := cred.HashInfo(is.Delegation)
	return hash, err == nil
}

// isOf reports whether a record without its payload has the hash of what was sent.
func (r *Record) isOf(company string, sent *Attestation, payload []byte) bool {
	action := map[string]any{"agentId": sent.AgentID, "companyId": company, "actionType": sent.ActionType, "payload": json.RawMessage(payload)}
	if sent.Statement != "" {
		action["statement"] = sent.Statement
	}
	text, err := json.Marshal(action)
	if err != nil {
		return false
	}
	var is struct{ Delegation json.RawMessage }
	canonical, err := jcs.Append(nil, text, payloadDepth)
	if err != nil || json.Unmarshal(r.raw, &is) != nil {
		return false
	}
	stored := chain.Record{Index: r.Index, Timestamp: r.Timestamp}
	if r.Delegation != nil {
		if stored.Delegation, err = jcs.Append(nil, is.Delegation, payloadDepth); err != nil {
			return false
		}
	}
	hash := stored.ComputeHash(canonical)
	return hex.EncodeToString(hash[:]) == r.Hash
}

// sameJSON reports whether two JSON texts have one canonical form.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	first, err1 := jcs.Append(nil, a, payloadDepth)
	second, err2 := jcs.Append(nil, b, payloadDepth)
	return err1 == nil && err2 == nil && bytes.Equal(first, second)
}
