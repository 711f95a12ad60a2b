package attestd

import (
	"bytes"
	"encoding/json"
	"errors"
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
}

// DelegationInfo says under which authority an action was done.
type DelegationInfo struct {
	Subject string `json:"subject"`
	// the subject, then each actor; the last is the proximate actor
	Chain   []string        `json:"delegationChain"`
	Act     json.RawMessage `json:"act"` // as it stands in the token, or null
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
