package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
		key, trust = published.Keys[len(published.Keys)-1].Fingerprint, "the key that attestd names, which nobody has confirmed here"
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
}

func (t tools) checkPassport(ctx context.Context, in passportInput) (any, error) {
	return t.client.VerifyPassport(ctx, in.Passport, in.Tool)
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
