package notary

import (
	"encoding/json"
	"fmt"

	"attestd/crypto/cred"
)

// Records plays what a service answers to an append: the record of each item in the body of a
// request, without a true hash and signature. company is the ID in them.
func Records(body []byte, company string) (records []string) {
	var sent struct{ Records []json.RawMessage }
	if json.Unmarshal(body, &sent) != nil || sent.Records == nil {
		sent.Records = []json.RawMessage{body}
	}
	for i, item := range sent.Records {
		var a struct {
			AgentID, ActionType, Delegation, Statement string
			Payload                                    json.RawMessage
		}
		_ = json.Unmarshal(item, &a)
		payload, err := json.Marshal(struct {
			AgentID    string          `json:"agentId"`
			CompanyID  string          `json:"companyId"`
			ActionType string          `json:"actionType"`
			Payload    json.RawMessage `json:"payload"`
			Statement  string          `json:"statement,omitempty"`
		}{a.AgentID, company, a.ActionType, a.Payload, a.Statement})
		if err != nil {
			payload = []byte("{}")
		}
		delegation := ""
		if d, err := cred.ReadDelegation(a.Delegation); a.Delegation != "" && err == nil {
			delegation = `"delegation":` + string(d.Canonical()) + ","
		}
		records = append(records, fmt.Sprintf(`{"index":%d,"timestamp":"2026-03-02T09:05:04.218Z","payload":%s,%s"hash":"00","signature":"AA"}`, i, payload, delegation))
	}
	return records
}
