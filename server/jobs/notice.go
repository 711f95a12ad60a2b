package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/strictjson"
	"attestd/server/webhook"
	"attestd/store"
)

// notice is the content of a webhook message about a record: enough to decide whether to fetch it,
// and nothing that the record does not show.
type notice struct {
	log           store.LogName
	index         int64
	hash          chain.Hash
	timestamp     string
	agent, action string
	approval      string // which the record asks for; "" for none
}

// message returns the message of a notice. Its ID depends only on the webhook and the record, so it
// is the same for retries and after restarts. It includes the hash, because after a rollback
// another record may have the index. A control record is an event of its own type, so that no
// receiver looks for it among the actions, and no action passes for it.
func (n notice) message(h store.Webhook, c *store.Company) (webhook.Message, error) {
	hash := n.hash.String()
	event, place := "record.appended", strconv.FormatInt(n.index, 10)
	data := map[string]any{"companyId": c.ID, "index": n.index, "hash": hash, "agentId": n.agent, "actionType": n.action}
	if n.approval != "" {
		event, data["approvalId"] = approvalRequested, n.approval
	}
	if n.log == store.Control {
		event, place, data["log"] = n.action, "control_"+place, n.log
		if n.action == string(store.ApprovalGranted) || n.action == string(store.ApprovalDenied) {
			event = "approval.decided"
		}
	}
	body, err := json.Marshal(webhookMessage{event, n.timestamp, data})
	return webhook.Message{ID: fmt.Sprintf("msg_%s_%s_%s", strings.TrimPrefix(h.ID, "wh_"), place, hash[:16]),
		Body: body}, err
}

// approvalRequested is the type of messages about records that ask for an approval, by which
// filters of actions select them too.
const approvalRequested = "approval.requested"

// approvalAsked returns the approval that a record of actions asks for; "" for none.
func approvalAsked(action string, payload []byte) string {
	if action == approvalRequested {
		var record struct{ Payload struct{ ApprovalID string } }
		_ = json.Unmarshal(payload, &record) // what cannot be read asks for none
		return record.Payload.ApprovalID
	}
	if !bytes.Contains(payload, []byte(`"verdict":"ask"`)) { // nearly all
		return ""
	}
	if made, err := decision.Of(payload); err == nil && made != nil && made.Verdict == decision.Ask {
		return made.Approval
	}
	return ""
}

// webhookMessage is the payload format of Standard Webhooks.
type webhookMessage struct {
	Type      string         `json:"type"`
	Timestamp string         `json:"timestamp"`
	Data      map[string]any `json:"data"`
}

// agentConcerned returns the agent that a control record with an action is about, if webhooks have
// messages about such records: those about keys of agents, about calls that disobeyed a refusal,
// and about decided approvals. isSent is false for all others.
func agentConcerned(action string, payload []byte) (agent string, isSent bool) {
	switch store.ControlAction(action) {
	case store.AgentKeyEnrolled, store.AgentKeyRevoked, store.CallDisobeyed, store.ApprovalGranted, store.ApprovalDenied:
	default:
		return "", false
	}
	var record struct {
		Payload struct {
			AgentID string `json:"agentId"`
			Object  struct {
				AgentID string `json:"agentId"`
			} `json:"object"` // of an approval
		} `json:"payload"`
	}
	err := json.Unmarshal(payload, &record)
	return record.Payload.AgentID + record.Payload.Object.AgentID, err == nil
}

// agentAndAction reads the agent and the action at the start of a record's payload, or returns "".
func agentAndAction(r *strictjson.Reader, payload []byte) (agent, action string) {
	r.Open(payload)
	defer r.Close()
	if r.Kind() != '{' || r.Bracket() != nil {
		return "", ""
	}
	for agent == "" || action == "" {
		if r.Kind() != '"' {
			return agent, action
		}
		name, err := r.Value()
		if err != nil {
			return agent, action
		}
		member := string(name)
		value, err := r.Value()
		if err != nil {
			return agent, action
		}
		switch text, _ := strictjson.AsString(value); member {
		case `"agentId"`:
			agent = text
		case `"actionType"`:
			action = text
		}
	}
	return agent, action
}
