package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
	"unicode/utf8"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Approvals are what people decide of single calls.
type Approvals struct {
	API       *httpapi.API
	Approvals *service.Approvals
}

type requestApprovalRequest struct {
	_          struct{}        `missing:"Missing or invalid fields: agentId, tool, arguments are required"`
	AgentID    string          `json:"agentId" must:"name"`
	ActionType *string         `json:"actionType" must:"given"`
	Tool       string          `json:"tool" must:"name"`
	Arguments  json.RawMessage `json:"arguments" must:"present"`
	Reason     *string         `json:"reason" must:"given"`
	ExpiresIn  int             `json:"expiresIn" must:"number 1..86400" default:"600"`
	CallID     *string         `json:"callId" must:"given"`
	*http.Request
}

// Request and the endpoints below are additions to the specification.
func (s *Approvals) Request(ctx context.Context, by store.Caller, r requestApprovalRequest) (service.Approval, error) {
	n := service.NewApproval{
		AgentID: r.AgentID, Tool: r.Tool, Arguments: r.Arguments, Reason: r.Reason, CallID: r.CallID, ExpiresIn: time.Duration(r.ExpiresIn) * time.Second,
	}
	for name, text := range map[string]*string{"actionType": r.ActionType, "callId": r.CallID} {
		if text != nil && utf8.RuneCountInString(*text) > httpapi.MaxName {
			return service.Approval{}, httpapi.Invalid(name, "must have 1 to 256 characters")
		}
	}
	if r.ActionType != nil {
		n.ActionType = *r.ActionType
	}
	if len(r.Arguments) == 0 || r.Arguments[0] != '{' {
		return service.Approval{}, httpapi.Invalid("arguments", "must be an object")
	}
	return s.Approvals.Request(ctx, by, s.API.OwnBase(r.Request), n)
}

type listApprovalsRequest struct {
	State  string `query:"state" must:"oneof pending approved denied expired used withdrawn"`
	Cursor string `query:"cursor"`
	Limit  int    `query:"limit" must:"number 1..100" default:"100"`
	*http.Request
}

type approvalsPage struct {
	Approvals []service.Approval `json:"approvals"`
	Next      string             `json:"next,omitempty"`
}

func (s *Approvals) List(ctx context.Context, by store.Caller, r listApprovalsRequest) (approvalsPage, error) {
	page, next, err := s.Approvals.List(ctx, by, s.API.OwnBase(r.Request), r.State, r.Cursor, r.Limit)
	return approvalsPage{page, next}, err
}

type getApprovalRequest struct {
	ApprovalID string `path:"approvalId"`
	Wait       int    `query:"wait" must:"number 0..55" default:"0"`
	*http.Request
}

// Get waits for a decision where the request says so.
func (s *Approvals) Get(ctx context.Context, by store.Caller, r getApprovalRequest) (service.Approval, error) {
	base := s.API.OwnBase(r.Request)
	if r.Wait == 0 {
		return s.Approvals.Get(ctx, by, base, r.ApprovalID)
	}
	a, err := s.Approvals.Wait(ctx, by, base, r.ApprovalID, time.Duration(r.Wait)*time.Second)
	if errors.Is(err, service.ErrWaiters) {
		err = httpapi.Fail(http.StatusServiceUnavailable, "Service unavailable: too many requests wait for approvals; ask without wait, or later")
	}
	return a, err
}

type withdrawApprovalRequest struct {
	ApprovalID string `path:"approvalId"`
}

func (s *Approvals) Withdraw(ctx context.Context, by store.Caller, r withdrawApprovalRequest) (deletion, error) {
	err := s.Approvals.Withdraw(ctx, by, r.ApprovalID)
	return deletion{err == nil}, err
}

type approvalOptionsRequest struct {
	_          struct{}  `missing:"Missing or invalid field: verdict is required"`
	ApprovalID string    `path:"approvalId"`
	Verdict    string    `json:"verdict" must:"string"`
	Reason     *string   `json:"reason" must:"given"`
	Uses       int       `json:"uses" must:"number 1..1000" default:"1"`
	Until      time.Time `json:"until" must:"time"`
	*http.Request
}

// choice is what a person decides.
func choice(verdict string, reason *string, uses int, until time.Time) (service.ApprovalChoice, error) {
	if verdict != "approve" && verdict != "deny" {
		return service.ApprovalChoice{}, httpapi.Invalid("verdict", "must be approve or deny")
	}
	return service.ApprovalChoice{Verdict: verdict, Reason: reason, Uses: int64(uses), Until: until}, nil
}

func (s *Approvals) Options(ctx context.Context, by store.Caller, r approvalOptionsRequest) (service.ApprovalOptions, error) {
	c, err := choice(r.Verdict, r.Reason, r.Uses, r.Until)
	if err != nil {
		return service.ApprovalOptions{}, err
	}
	return s.Approvals.Options(ctx, by, s.API.OwnBase(r.Request), r.ApprovalID, c)
}

type decideApprovalRequest struct {
	_          struct{}        `missing:"Missing or invalid field: verdict and credential are required"`
	ApprovalID string          `path:"approvalId"`
	Verdict    string          `json:"verdict" must:"string"`
	Reason     *string         `json:"reason" must:"given"`
	Uses       int             `json:"uses" must:"number 1..1000" default:"1"`
	Until      time.Time       `json:"until" must:"time"`
	Credential json.RawMessage `json:"credential" must:"present"`
	*http.Request
}

// Decide takes the assertion of a passkey.
func (s *Approvals) Decide(ctx context.Context, by store.Caller, r decideApprovalRequest) (service.Approval, error) {
	c, err := choice(r.Verdict, r.Reason, r.Uses, r.Until)
	if err != nil {
		return service.Approval{}, err
	}
	return s.Approvals.Decide(ctx, by, s.API.OwnBase(r.Request), r.ApprovalID, c, r.Credential)
}
