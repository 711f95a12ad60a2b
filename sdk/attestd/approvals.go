package attestd

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Approval is what people decide of one call.
type Approval struct {
	ID            string   `json:"approvalId"`
	State         string   `json:"state"` // one of the constants below
	Log           string   `json:"log"`   // origin of the log with the record that is approved
	Index         int64    `json:"index"` // of that record
	Hash          string   `json:"hash"`
	AgentID       string   `json:"agentId"`
	ActionType    string   `json:"actionType"` // of the record that uses the approval
	Tool          string   `json:"tool"`
	RequestReason string   `json:"requestReason"` // "" for none
	CreatedAt     string   `json:"createdAt"`
	ExpiresAt     string   `json:"expiresAt"`
	URL           string   `json:"url"` // of the page that decides it
	Quorum        int      `json:"quorum"`
	Approvers     []string `json:"approvers"`    // groups; empty for all approvers
	By            []string `json:"by"`           // who has decided it so far
	Reason        string   `json:"reason"`       // of the newest decision, "" for none
	ControlIndex  *int64   `json:"controlIndex"` // of the newest decision, use or withdrawal
	Uses          int      `json:"uses"`         // 0 before it is approved
	Remaining     int      `json:"remaining"`
}

// The states of an approval.
const (
	ApprovalPending   = "pending"
	ApprovalApproved  = "approved"
	ApprovalDenied    = "denied"
	ApprovalExpired   = "expired"
	ApprovalUsed      = "used"
	ApprovalWithdrawn = "withdrawn"
)

// NewApproval is the request for an approval.
type NewApproval struct {
	AgentID    string          `json:"agentId"`
	ActionType string          `json:"actionType,omitempty"` // "" for tool.requested
	Tool       string          `json:"tool"`
	Arguments  json.RawMessage `json:"arguments"`
	Reason     string          `json:"reason,omitempty"`
	ExpiresIn  int             `json:"expiresIn,omitempty"` // seconds; 0 for 600
	CallID     string          `json:"callId,omitempty"`
}

// RequestApproval asks for an approval of one call. The same call again has the same approval.
func (c *Client) RequestApproval(ctx context.Context, n NewApproval) (a Approval, err error) {
	text, err := json.Marshal(n)
	if err != nil {
		return a, err
	}
	err = c.do(ctx, request{method: http.MethodPost, route: "/v1/approvals", body: text, status: http.StatusCreated, safe: true}, &a)
	return a, err
}

// Approval returns an approval. One that is pending is waited for, for at most 55 seconds.
func (c *Client) Approval(ctx context.Context, id string, wait time.Duration) (a Approval, err error) {
	r := request{method: http.MethodGet, route: "/v1/approvals/{approvalId}", path: []string{id}, status: http.StatusOK}
	if wait = min(wait, maxApprovalWait).Truncate(time.Second); wait > 0 {
		r.query, r.held = url.Values{"wait": {strconv.Itoa(int(wait / time.Second))}}, wait
	}
	err = c.do(ctx, r, &a)
	return a, err
}

// Approvals returns the approvals in a state, "" for all, the newest first. It fetches one page at
// a time.
func (c *Client) Approvals(ctx context.Context, state string) iter.Seq2[Approval, error] {
	return pages(func(cursor string) ([]Approval, string, error) {
		var page struct {
			Approvals []Approval
			Next      string
		}
		err := c.get(ctx, "/v1/approvals", pageQuery(cursor, "state", state, "limit", "100"), &page)
		return page.Approvals, page.Next, err
	})
}

// WithdrawApproval ends an approval that the caller has asked for.
func (c *Client) WithdrawApproval(ctx context.Context, id string) error {
	return c.delete(ctx, "/v1/approvals/{approvalId}", id)
}
