package api

import (
	"context"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/store"
)

// enrolmentInfo describes what an enrolment token allows.
type enrolmentInfo struct {
	AgentID   string `json:"agentId"`
	SPIFFEID  string `json:"spiffeId"`
	CompanyID string `json:"companyId"`
	ExpiresAt string `json:"expiresAt"`
	Log       string `json:"log"` // origin of the company's log of actions, which statements name
}

// OwnEnrolment returns the agent whose key the presented token enrols. So a machine needs the token
// and no other setting.
func (s *AgentKeys) OwnEnrolment(_ context.Context, by store.Caller, _ httpapi.None) (enrolmentInfo, error) {
	return enrolmentInfo{by.Agent, by.Company.Issuer.AgentID(by.Agent), by.Company.ID, chain.FormatTime(by.Expires), by.Company.Actions.Origin}, nil
}
