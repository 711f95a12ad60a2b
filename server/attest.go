package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"attestd/crypto/cred"
	"attestd/crypto/jcs"
	"attestd/crypto/strictjson"
	"attestd/store"
)

type attestRequest struct {
	_          struct{}        `missing:"Missing or invalid fields: agentId, actionType, payload are required"`
	AgentID    string          `json:"agentId" must:"name"`
	ActionType string          `json:"actionType" must:"name"`
	Payload    json.RawMessage `json:"payload" must:"present"`
	Delegation string          `json:"delegation" must:"delegation"`
	Key        string          `header:"Idempotency-Key" must:"key"`
}

// attest appends a record.
func (s *Server) attest(ctx context.Context, by store.Caller, r attestRequest) (*appended, error) {
	all, err := s.append(ctx, by, attestation(r))
	if err != nil {
		var item *itemError
		if errors.As(err, &item) {
			err = item.err
		}
		return nil, err
	}
	record := &all[0]
	return &appended{append(record.AppendJSON(make([]byte, 0, len(record.Payload)+512)), '\n'), record.Replayed}, nil
}

// appended is the answer of an append. One in which nothing is new says so in a header.
type appended struct {
	json     []byte
	replayed bool
}

func (a *appended) writeTo(c *call, status int) error {
	if a.replayed {
		c.w.Header().Set("Idempotent-Replayed", "true")
	}
	return c.bytes(status, a.json)
}

// mayAct refuses what is done in the name of an agent that is disabled. The agent need not be
// registered.
func (s *Server) mayAct(ctx context.Context, by store.Caller, agentID string) error {
	if err := s.Store.CheckAgent(ctx, by, agentID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return agentError(agentID, err)
	}
	return nil
}

// recordPayload builds the payload object of a record: as it is stored, with the caller's value
// byte for byte, and canonical. The canonical one needs no second pass over the whole: its four
// members stand in their sorted order.
func recordPayload(agent, company, action string, payload []byte) (stored, canonical []byte, err error) {
	stored = make([]byte, 0, len(payload)+len(agent)+len(company)+len(action)+64)
	stored = jcs.AppendString(append(stored, `{"agentId":`...), agent)
	stored = jcs.AppendString(append(stored, `,"companyId":`...), company)
	stored = jcs.AppendString(append(stored, `,"actionType":`...), action)
	stored = append(append(append(stored, `,"payload":`...), payload...), '}')

	canonical = make([]byte, 0, cap(stored))
	canonical = jcs.AppendString(append(canonical, `{"actionType":`...), action)
	canonical = jcs.AppendString(append(canonical, `,"agentId":`...), agent)
	canonical = jcs.AppendString(append(canonical, `,"companyId":`...), company)
	canonical, err = jcs.Append(append(canonical, `,"payload":`...), payload, maxDepth)
	var refused *strictjson.Error
	if errors.As(err, &refused) {
		return nil, nil, malformed(refused.Within("/payload"))
	}
	return stored, append(canonical, '}'), err
}

// mayDelegate refuses a chain of principals in which any agent of ours is disabled: what it has
// passed on ends with it.
func (s *Server) mayDelegate(ctx context.Context, by store.Caller, principals []string) error {
	for _, id := range principals {
		if agent, ok := by.Company.Issuer.OwnAgent(id); ok {
			if err := s.mayAct(ctx, by, agent); err != nil {
				return err
			}
		}
	}
	return nil
}

// delegation checks a delegation token and returns its canonical DelegationInfo, or nil when there
// is none.
func (s *Server) delegation(ctx context.Context, by store.Caller, token string) ([]byte, error) {
	if token == "" {
		return nil, nil
	}
	d, err := by.Company.Issuer.CheckDelegation(token, by.At)
	var refused *cred.Error
	if errors.As(err, &refused) {
		return nil, fail(http.StatusBadRequest, "Invalid delegation: "+refused.Message)
	}
	if err != nil {
		return nil, err
	}
	if err := s.mayDelegate(ctx, by, d.Chain); err != nil {
		return nil, err
	}
	return d.Canonical(), nil
}
