package api

import (
	"context"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/store"
)

// enrolmentInfo is what an enrolment token is good for.
type enrolmentInfo struct {
	AgentID   string `json:"agentId"`
	SPIFFEID  string `json:"spiffeId"`
	CompanyID string `json:"companyId"`
	ExpiresAt string `json:"expiresAt"`
	Log       string `json:"log"` // origin of the company's log of actions, which statements name
}

// OwnEnrolment says whose key is to be enrolled with the token that is presented. So a machine
// needs to be told nothing but the token.
func (s *AgentKeys) OwnEnrolment(_ context.Context, by store.Caller, _ httpapi.None) (enrolmentInfo, error) {
	return enrolmentInfo{by.Agent, by.Company.Issuer.AgentID(by.Agent), by.Company.ID, chain.FormatTime(by.Expires), by.Company.Actions.Origin}, nil
}
