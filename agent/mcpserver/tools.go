package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"attestd/crypto/cred/details"
	"attestd/sdk/attestd"
)

// tools implements the tools for one credential.
type tools struct {
	Config
	client *attestd.Client
	rights rights
}

// agent returns the configured agent, or else the one that a call names.
func (t tools) agent(named string) (string, error) {
	switch {
	case t.Agent == "" && named == "":
		return "", errors.New("agentId is missing")
	case t.Agent == "":
		return named, nil
	case named != "" && named != t.Agent:
		return "", fmt.Errorf("this server is for the agent %q", t.Agent)
	}
	return t.Agent, nil
}

type attestInput struct {
	AgentID        string `json:"agentId,omitempty" jsonschema:"the agent that has acted; needed where the server is not for one agent"`
	ActionType     string `json:"actionType" jsonschema:"what kind of action it is, such as file.deleted"`
	Payload        any    `json:"payload" jsonschema:"what was done, as any JSON value"`
	Delegation     string `json:"delegation,omitempty" jsonschema:"delegation token under which the agent has acted"`
	IdempotencyKey string `json:"idempotencyKey,omitempty" jsonschema:"give the same one when you try again, so that there is one record"`
}

func (t tools) attest(ctx context.Context, in attestInput) (any, error) {
	if t.rights.isAgent() {
		if in.AgentID != "" && in.AgentID != t.rights.agent {
			return nil, fmt.Errorf("the access token is of the agent %q, and attests for no other", t.rights.agent)
		}
		in.AgentID = t.rights.agent
	}
	agent, err := t.agent(in.AgentID)
	if err != nil {
		return nil, err
	}
	return t.client.Attest(ctx, attestd.Attestation{
		AgentID: agent, ActionType: in.ActionType, Payload: in.Payload, Delegation: in.Delegation, IdempotencyKey: in.IdempotencyKey,
	})
}

func (t tools) verify(ctx context.Context, _ struct{}) (any, error) {
	return t.client.VerifyChain(ctx, attestd.Actions)
}

type proveInput struct {
	Index int64 `json:"index" jsonschema:"the index of the record"`
}

// proven is a verified proof and the key with which it was verified.
type proven struct {
	attestd.Proof
	Checked string `json:"checked"`
	Key     string `json:"key"` // fingerprint
}

func (t tools) prove(ctx context.Context, in proveInput) (any, error) {
	company, err := t.client.Company(ctx)
	if err != nil {
		return nil, err
	}
	p, err := t.client.Proof(ctx, attestd.Actions, in.Index)
	if err != nil {
		return nil, err
	}
	published, err := t.client.PublicKeys(ctx, company.CompanyID)
	if err != nil {
		return nil, err
	}
	key, trust := t.Pinned, "the key that was pinned"
	if key == "" && t.Trusted != nil {
		if key, err = t.Trusted(company.CompanyID); err != nil {
			return nil, err
		}
		trust = "the key that this machine trusts"
	}
	if key == "" && len(published.Keys) > 0 {
		key, trust = published.Keys[len(published.Keys)-1].Fingerprint, "the key that attestd names, which is not confirmed here"
	}
	keys, err := published.Pin(key)
	if err != nil {
		return nil, err
	}
	if p.Record.Index != in.Index {
		return nil, fmt.Errorf("%w: it is record %d", attestd.ErrNotGenuine, p.Record.Index)
	}
	if err := p.Verify(keys, ""); err != nil {
		return nil, err
	}
	return proven{p, "hash, signature and the way to the root hold, by " + trust, key}, nil
}

type passportInput struct {
	Passport string `json:"passport" jsonschema:"the passport, a token of three parts"`
	Tool     string `json:"tool,omitempty" jsonschema:"the tool that it should cover"`
	// a text, because a number that is decoded may be rounded
	Arguments string `json:"arguments,omitempty" jsonschema:"the arguments of the call of the tool, as a JSON text"`
}

func (t tools) checkPassport(ctx context.Context, in passportInput) (any, error) {
	var call attestd.ToolCall
	if in.Arguments != "" {
		call.Arguments = json.RawMessage(in.Arguments)
	}
	return t.client.VerifyBoundPassport(ctx, in.Passport, in.Tool, call)
}

type searchInput struct {
	AgentID    string `json:"agentId,omitempty" jsonschema:"whose records; needed where the server is not for one agent"`
	ActionType string `json:"actionType,omitempty" jsonschema:"only records of this kind"`
	Contains   string `json:"contains,omitempty" jsonschema:"only records whose payload, as JSON, contains this text"`
	Before     int64  `json:"before,omitempty" jsonschema:"only records with a lower index: next of the answer before"`
	Limit      int    `json:"limit,omitempty" jsonschema:"the most records, 1 to 100; 20 where it is not given"`
}

// found is a search result.
type found struct {
	Index      int64           `json:"index"`
	Timestamp  string          `json:"timestamp"`
	ActionType string          `json:"actionType"`
	Payload    json.RawMessage `json:"payload"` // null if it is too long
	Bytes      int             `json:"bytes"`   // of the payload
}

type foundRecords struct {
	Records []found `json:"records"`
	Next    int64   `json:"next,omitempty"` // value of before for the next search
	// records that may match, and were passed over because their payload was pruned
	Pruned int64 `json:"pruned,omitempty"`
}

const (
	searchWindow = 500       // records in a request to attestd
	searchMost   = 10_000    // records that a search reads; a further search continues
	foundMost    = 100       // records in an answer
	payloadMost  = 16 << 10  // bytes of a payload in an answer
	answerMost   = 256 << 10 // bytes of payloads in an answer
)

// searchRecords reads the log backwards.
func (t tools) searchRecords(ctx context.Context, in searchInput) (any, error) {
	agent, err := t.agent(in.AgentID)
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	switch {
	case limit == 0:
		limit = 20
	case limit < 0 || limit > foundMost:
		return nil, errors.New("limit must be 1 to 100")
	}
	end, err := t.length(ctx)
	if err != nil {
		return nil, err
	}
	if in.Before > 0 {
		end = min(end, in.Before)
	}
	answer := foundRecords{Records: []found{}}
	size := 0
	for last := max(0, end-searchMost); end > last; {
		from := max(last, end-searchWindow)
		var window []attestd.Record
		for r, err := range t.client.Records(ctx, attestd.Range{From: from, Limit: end - from}) {
			if err != nil {
				return nil, err
			}
			if r.Pruned {
				answer.Pruned++ // nothing says whose it is
				continue
			}
			a := r.Payload
			if a.AgentID == agent && (in.ActionType == "" || a.ActionType == in.ActionType) && bytes.Contains(a.Payload, []byte(in.Contains)) {
				window = append(window, r)
			}
		}
		for _, r := range slices.Backward(window) {
			f := found{r.Index, r.Timestamp, r.Payload.ActionType, r.Payload.Payload, len(r.Payload.Payload)}
			if f.Bytes > payloadMost {
				f.Payload = nil
			}
			if size += len(f.Payload); len(answer.Records) == limit || size > answerMost {
				return answer, nil
			}
			answer.Records, answer.Next = append(answer.Records, f), r.Index
		}
		end, answer.Next = from, from
	}
	return answer, nil
}

// length returns the number of records in the log.
func (t tools) length(ctx context.Context) (int64, error) {
	logs, err := t.client.Logs(ctx)
	if err != nil {
		return 0, err
	}
	for _, l := range logs {
		if l.Log == attestd.Actions {
			return l.Size, nil
		}
	}
	return 0, nil
}

// rights are what a request may do with the client of its tools. The zero value is all that the
// client's credential may do, which the service decides.
type rights struct {
	limited bool
	scopes  []string // of the access token
	agent   string   // the agent that the token is of, or ""
	jkt     string   // thumbprint of the key without whose proofs the token is worth nothing, or ""
	details details.Details
}

// The scopes of an access token; admin covers writer, and writer covers reader. agent is that of an
// agent, which attests in its own name and does nothing else.
const (
	scopeAdmin  = "admin"
	scopeWriter = "writer"
	scopeReader = "reader"
	scopeAgent  = "agent"
)

// scopeOf is the least scope with which a tool may be called.
var scopeOf = map[string]string{
	"attest": scopeWriter, "check_passport": scopeWriter, "verify": scopeReader, "prove": scopeReader, "search_records": scopeReader,
}

// lacks returns the scope that is needed to call a tool and that a token does not have, "" for
// none.
func (r rights) lacks(tool string) string {
	needs := scopeOf[tool]
	switch {
	case !r.limited, r.has(scopeAdmin), r.has(scopeWriter):
		return ""
	case needs == scopeReader && r.has(scopeReader), tool == "attest" && r.isAgent():
		return ""
	case needs == "": // a tool that is unknown, as the answer will say
		return ""
	}
	return needs
}

func (r rights) has(scope string) bool { return slices.Contains(r.scopes, scope) }

// isAgent reports whether a token is of an agent, which may then act in its own name.
func (r rights) isAgent() bool {
	return r.limited && r.has(scopeAgent) && r.agent != "" && !r.has(scopeWriter) && !r.has(scopeAdmin)
}

// none reports whether a token has no scope with which anything can be done.
func (r rights) none() bool {
	return r.limited && !r.has(scopeAdmin) && !r.has(scopeWriter) && !r.has(scopeReader) && !r.isAgent()
}

// allows requires that a call of a tool with arguments is covered by the authorization details of
// the token, if it has any.
func (r rights) allows(tool string, arguments []byte) error {
	if err := r.check(tool); err != nil {
		return err
	}
	if arguments == nil {
		arguments = []byte("{}")
	}
	if !r.details.Covers(tool, arguments) {
		return fmt.Errorf("the authorization details of the access token do not cover %s with these arguments", tool)
	}
	return nil
}

// check requires that a tool may be called.
func (r rights) check(tool string) error {
	if scope := r.lacks(tool); scope != "" {
		return fmt.Errorf("the scope of the access token does not allow %s, for which %s is needed", tool, scope)
	}
	return nil
}
