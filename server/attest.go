package server

import (
	"errors"
	"net/http"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/jcs"
)

// attest appends a record. All that can be the caller's fault is refused here, before the log sees it.
func (s *Server) attest(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	agent, hasAgent := o.text("agentId")
	action, hasAction := o.text("actionType")
	payload, hasPayload := o["payload"]
	if !hasAgent || !hasAction || !hasPayload {
		return fail(http.StatusBadRequest, "Missing or invalid fields: agentId, actionType, payload are required")
	}
	if err := errors.Join(checkText("agentId", agent), checkText("actionType", action)); err != nil {
		return err
	}
	delegation, err := c.delegation(o)
	if err != nil {
		return err
	}
	draft := chain.Draft{Chain: c.company.Chain, Key: c.company.Key, Delegation: delegation}
	if draft.Payload, draft.Canonical, err = recordPayload(agent, c.company.ID, action, payload); err != nil {
		return err
	}
	record, err := s.chains.Append(c.Context(), draft)
	if err != nil {
		return err
	}
	return c.bytes(http.StatusCreated, append(record.AppendJSON(make([]byte, 0, len(record.Payload)+512)), '\n'))
}

// recordPayload builds the payload object of a record: as it is stored, with the caller's value byte for byte, and canonical.
// The canonical one needs no second pass over the whole: its four members stand in their sorted order.
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
	var refused *jcs.Error
	if errors.As(err, &refused) {
		return nil, nil, badJSON("/payload"+refused.Pointer, refused.Reason)
	}
	return stored, append(canonical, '}'), err
}

// delegation checks the delegation token of a request and returns its canonical DelegationInfo, or nil when there is none.
func (c *call) delegation(o object) ([]byte, error) {
	if !o.has("delegation") {
		return nil, nil
	}
	token, ok := o.text("delegation")
	if !ok {
		return nil, fail(http.StatusBadRequest, "Invalid delegation: it must be a token, a non-empty string")
	}
	d, err := c.company.Issuer.CheckDelegation(token, c.now)
	var refused *cred.Error
	if errors.As(err, &refused) {
		return nil, fail(http.StatusBadRequest, "Invalid delegation: "+refused.Message)
	}
	if err != nil {
		return nil, err
	}
	return d.Canonical(), nil
}
