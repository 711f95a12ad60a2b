package server

import (
	"encoding/json"
	"fmt"
	"strings"

	"attestd/chain"
	"attestd/crypto/strictjson"
	"attestd/server/webhook"
	"attestd/store"
)

// notice is what a webhook is told of a record: enough to know whether to fetch it, and nothing
// that the fetch would not show to whoever may see it.
type notice struct {
	index         int64
	hash          chain.Hash
	timestamp     string
	agent, action string
}

// message has an ID that follows from the webhook and the record alone, so it is the same over
// retries, restarts and kills; the hash is in it, for after a rollback another record may have the
// index.
func (n notice) message(h store.Webhook, c *store.Company) (webhook.Message, error) {
	hash := n.hash.String()
	body, err := json.Marshal(webhookMessage{"record.appended", n.timestamp, map[string]any{
		"companyId": c.ID, "index": n.index, "hash": hash, "agentId": n.agent, "actionType": n.action,
	}})
	return webhook.Message{ID: fmt.Sprintf("msg_%s_%d_%s", strings.TrimPrefix(h.ID, "wh_"), n.index, hash[:16]), Body: body}, err
}

// webhookMessage is the form of Standard Webhooks.
type webhookMessage struct {
	Type      string         `json:"type"`
	Timestamp string         `json:"timestamp"`
	Data      map[string]any `json:"data"`
}

// whatWasDone reads agent and kind out of the payload of a record, of which they stand in front; ""
// where they are not there.
func whatWasDone(r *strictjson.Reader, payload []byte) (agent, action string) {
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
