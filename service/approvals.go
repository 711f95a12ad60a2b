package service

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/approval"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/store"
)

// Approvals are what people are asked to approve: one record of the actions each.
type Approvals struct {
	Store        *store.Store
	Attestations *Attestations
	People       *People
	Waiters      *ApprovalWaiters
}

const (
	// MaxApprovalUntil bounds how long an approval may be used.
	MaxApprovalUntil = 30 * 24 * time.Hour

	maxApprovalReason = 1024 // bytes
)

// Approval is an approval as the API shows it.
type Approval struct {
	ApprovalID    string   `json:"approvalId"`
	State         string   `json:"state"`
	Log           string   `json:"log"`
	Index         int64    `json:"index"`
	Hash          string   `json:"hash"`
	AgentID       string   `json:"agentId"`
	ActionType    string   `json:"actionType"`
	Tool          string   `json:"tool"`
	RequestReason *string  `json:"requestReason"`
	CreatedAt     string   `json:"createdAt"`
	ExpiresAt     string   `json:"expiresAt"`
	URL           string   `json:"url"`
	Quorum        int      `json:"quorum"`
	Approvers     []string `json:"approvers"`
	By            []string `json:"by"`
	Reason        *string  `json:"reason"`
	ControlIndex  *int64   `json:"controlIndex"`
	Uses          *int64   `json:"uses,omitempty"`
	Remaining     *int64   `json:"remaining,omitempty"`
}

// ApprovalPage is the address of the page of a console that decides an approval.
func ApprovalPage(console, id string) string {
	return strings.TrimRight(console, "/") + "/#/approvals/" + id
}

// show is an approval as the API shows it, with the page at the address of a console.
func (s *Approvals) show(by store.Caller, base string, a *store.Approval) Approval {
	shown := Approval{
		ApprovalID: a.ID, State: a.StateAt(by.At), Log: by.Company.Actions.Origin, Index: a.Index, Hash: a.Hash, AgentID: a.AgentID, ActionType: a.ActionType, Tool: a.Tool,
		RequestReason: a.Reason, CreatedAt: chain.FormatTime(a.Created), ExpiresAt: chain.FormatTime(a.End()), URL: ApprovalPage(base, a.ID), Quorum: a.Quorum,
		Approvers: a.Approvers, By: []string{}, Reason: a.Decided,
	}
	for _, g := range a.Granted {
		shown.By = append(shown.By, "person:"+g.Person)
	}
	if a.Control >= 0 {
		shown.ControlIndex = &a.Control
	}
	if a.Uses > 0 && a.State != store.ApprovalIsPending {
		shown.Uses, shown.Remaining = &a.Uses, &a.Remaining
	}
	return shown
}

// approvalError is the refusal of a request about an approval.
func approvalError(id string, state string, err error) error {
	conflict := func(code, what string) error {
		return &Error{Kind: Conflict, Code: code, Message: "Conflict: the approval " + what}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse(NotFound, "Approval not found: "+id)
	case errors.Is(err, store.ErrApprovalCounted):
		return conflict("APPROVAL_COUNTED", "has the decision of this person already")
	case errors.Is(err, store.ErrApprovalLimit):
		return &Error{Kind: Conflict, Code: decision.ApprovalLimit, Message: "Conflict: " + store.ErrApprovalLimit.Error()}
	case errors.Is(err, store.ErrNotApprover):
		return &Error{Kind: Forbidden, Code: "APPROVER_REQUIRED", Message: "Forbidden: this needs a person with the role approver, in a group that may approve it"}
	case errors.Is(err, store.ErrApprovalOwn):
		return &Error{Kind: Forbidden, Code: "APPROVAL_OWN", Message: "Forbidden: the agent asks on behalf of this person, and several others must approve it"}
	case !errors.Is(err, store.ErrApprovalEnded):
		return err
	}
	switch state {
	case store.ApprovalIsExpired:
		return conflict("APPROVAL_EXPIRED", "has expired")
	case store.ApprovalIsWithdrawn:
		return conflict("APPROVAL_WITHDRAWN", "is withdrawn")
	case store.ApprovalIsUsed:
		return conflict("APPROVAL_USED", "is used up")
	}
	return conflict("APPROVAL_DECIDED", "is decided already")
}

// NewApproval is a request for an approval.
type NewApproval struct {
	AgentID, ActionType, Tool string
	Arguments                 json.RawMessage
	Reason, CallID            *string
	ExpiresIn                 time.Duration
}

// Request records the request for an approval of a call, and returns the approval, or that of the
// same call.
func (s *Approvals) Request(ctx context.Context, by store.Caller, base string, n NewApproval) (Approval, error) {
	if n.ActionType == "" {
		n.ActionType = string(action.ToolRequested)
	}
	if n.Reason != nil && len(*n.Reason) > maxApprovalReason {
		return Approval{}, &Error{Kind: Invalid, Message: "Invalid field: reason must have at most " + strconv.Itoa(maxApprovalReason) + " bytes", Pointer: "/reason"}
	}
	id := store.NewApprovalID()
	err := s.request(ctx, by, n, id)
	var existing *store.ExistingApproval
	if errors.As(err, &existing) {
		id, err = existing.ID, nil
	}
	var item *chain.DraftError
	if errors.As(err, &item) {
		err = item.Err
	}
	if err != nil {
		return Approval{}, approvalError(id, "", err)
	}
	return s.Get(ctx, by, base, id)
}

func (s *Approvals) request(ctx context.Context, by store.Caller, n NewApproval, id string) error {
	a := s.Attestations
	payload := []byte(`{"tool":`)
	payload = jcs.AppendString(payload, n.Tool)
	payload = append(append(payload, `,"input":`...), n.Arguments...)
	expires := by.At.Add(n.ExpiresIn)
	for _, member := range []struct {
		name string
		text *string
	}{{"reason", n.Reason}, {"callId", n.CallID}} {
		if member.text != nil {
			payload = jcs.AppendString(append(append(append(payload, `,"`...), member.name...), `":`...), *member.text)
		}
	}
	if n.ActionType != string(action.ToolRequested) {
		payload = jcs.AppendString(append(payload, `,"actionType":`...), n.ActionType)
	}
	payload = jcs.AppendString(append(payload, `,"expiresAt":`...), chain.FormatTime(expires))
	payload = append(jcs.AppendString(append(payload, `,"approvalId":`...), id), '}')
	item := Attestation{AgentID: n.AgentID, ActionType: ApprovalRequested, Payload: payload}
	draft, _, err := a.draft(ctx, by, &item)
	if err != nil {
		return err
	}
	c, err := callIn(by.Company.ID, n.AgentID, n.ActionType, payload)
	if err != nil {
		return err
	}
	if !c.isWhole() {
		return &Error{Kind: Invalid, Message: "Invalid field: arguments must not be masked: nobody can approve what is not on record", Pointer: "/arguments"}
	}
	// the policies say who may approve it, where they ask for an approval
	context, err := contextOf(by, &item, draft.Delegation)
	if err != nil {
		return err
	}
	_, ask, err := a.Decisions.Decide(ctx, by, n.AgentID, n.ActionType, payload, context)
	if err != nil {
		return err
	}
	asked := &store.Asked{
		Call: c.name(n.AgentID, n.ActionType), AgentID: n.AgentID, ActionType: n.ActionType, Tool: c.tool, Person: askedFor(by, context.Person), Reason: n.Reason,
		Quorum: 1, Expires: expires, Request: true, ID: id,
	}
	if ask != nil {
		asked.Quorum, asked.Approvers = ask.Quorum, ask.Approvers
		if ask.Within > 0 && by.At.Add(ask.Within).Before(expires) {
			asked.Expires = by.At.Add(ask.Within)
		}
	}
	_, err = s.Store.Approvals.Append(ctx, by, []*store.Asked{asked}, func(int, store.Approved) (chain.Draft, error) { return draft, nil })
	return err
}

// Get returns an approval.
func (s *Approvals) Get(ctx context.Context, by store.Caller, base, id string) (Approval, error) {
	a, err := s.Store.Approvals.Get(ctx, by, id)
	if err != nil {
		return Approval{}, approvalError(id, "", err)
	}
	return s.show(by, base, &a), nil
}

// List returns a page of the approvals in a state, "" for all, the newest first. The cursor of the
// next page is "" on the last.
func (s *Approvals) List(ctx context.Context, by store.Caller, base, state, cursor string, limit int) (page []Approval, next string, err error) {
	before := int64(0)
	if cursor != "" {
		if before, err = strconv.ParseInt(cursor, 10, 64); err != nil || before < 1 || strconv.FormatInt(before, 10) != cursor {
			return nil, "", refuse(Invalid, "Invalid query parameter: cursor is not one of a page before")
		}
	}
	list, last, err := s.Store.Approvals.List(ctx, by, state, before, limit)
	if err != nil {
		return nil, "", err
	}
	if last > 0 {
		next = strconv.FormatInt(last, 10)
	}
	page = make([]Approval, len(list))
	for i := range list {
		page[i] = s.show(by, base, &list[i])
	}
	return page, next, nil
}

// Withdraw ends an approval that the caller has asked for.
func (s *Approvals) Withdraw(ctx context.Context, by store.Caller, id string) error {
	err := s.Store.Approvals.Withdraw(ctx, by, id)
	return approvalError(id, s.stateFor(ctx, by, id, err), err)
}

// stateFor is the state of an approval that says why it cannot be changed.
func (s *Approvals) stateFor(ctx context.Context, by store.Caller, id string, err error) string {
	if !errors.Is(err, store.ErrApprovalEnded) {
		return ""
	}
	a, err := s.Store.Approvals.Get(ctx, by, id)
	if err != nil {
		return ""
	}
	return a.StateAt(by.At)
}

// ApprovalChoice is what a person decides.
type ApprovalChoice struct {
	Verdict string
	Reason  *string
	Uses    int64
	Until   time.Time // zero for the end of the request
}

// ApprovalOptions are what a page hands to navigator.credentials.get, with what that signs.
type ApprovalOptions struct {
	Object    approval.Object `json:"object"`
	Challenge string          `json:"challenge"`
	PublicKey any             `json:"publicKey"`
}

// object makes what the caller signs to decide an approval. The same choice makes the same object,
// so that nothing of the options is remembered.
func (s *Approvals) object(ctx context.Context, by store.Caller, id string, choice ApprovalChoice) (o approval.Object, err error) {
	if choice.Reason != nil && len(*choice.Reason) > maxApprovalReason {
		return o, &Error{Kind: Invalid, Message: "Invalid field: reason must have at most " + strconv.Itoa(maxApprovalReason) + " bytes", Pointer: "/reason"}
	}
	if !choice.Until.IsZero() && (!choice.Until.After(by.At) || choice.Until.After(by.At.Add(MaxApprovalUntil))) {
		return o, &Error{Kind: Invalid, Message: "Invalid field: until must be in the future, and at most 30 days from now", Pointer: "/until"}
	}
	a, err := s.Store.Approvals.Examine(ctx, by, id)
	if err != nil {
		return o, approvalError(id, a.StateAt(by.At), err)
	}
	o = a.Object(by.Company, by.Person)
	o.Verdict, o.Uses, o.Reason, o.ExpiresAt = choice.Verdict, choice.Uses, choice.Reason, chain.FormatTime(a.Expires)
	if !choice.Until.IsZero() {
		o.ExpiresAt = chain.FormatTime(choice.Until)
	}
	return o, nil
}

// Options are those with which a passkey of the caller decides an approval.
func (s *Approvals) Options(ctx context.Context, by store.Caller, base, id string, choice ApprovalChoice) (ApprovalOptions, error) {
	p, err := s.People.party(ctx, base)
	if err != nil {
		return ApprovalOptions{}, err
	}
	o, err := s.object(ctx, by, id, choice)
	if err != nil {
		return ApprovalOptions{}, err
	}
	held, err := s.Store.People.Passkeys(ctx, by, by.Person)
	if err != nil {
		return ApprovalOptions{}, err
	}
	var allowed []protocol.CredentialDescriptor
	for _, c := range credentials(held) {
		allowed = append(allowed, c.Descriptor())
	}
	challenge := o.Challenge()
	made, _, err := p.web.BeginDiscoverableLogin(webauthn.WithChallenge(challenge), webauthn.WithAllowedCredentials(allowed))
	if err != nil {
		return ApprovalOptions{}, err
	}
	return ApprovalOptions{o, base64url.EncodeToString(challenge), made.Response}, nil
}

// Decide decides an approval with an assertion of a passkey of the caller.
func (s *Approvals) Decide(ctx context.Context, by store.Caller, base, id string, choice ApprovalChoice, credential json.RawMessage) (Approval, error) {
	p, err := s.People.party(ctx, base)
	if err != nil {
		return Approval{}, err
	}
	o, err := s.object(ctx, by, id, choice)
	if err != nil {
		return Approval{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(credential)
	if err != nil {
		return Approval{}, errBadPasskey("is no PublicKeyCredential of navigator.credentials.get in the form of toJSON")
	}
	k, found, isEligible, err := s.People.verified(ctx, p, parsed, o.Challenge(), by.At.Add(store.ChallengeLifetime), by.At)
	if err == nil && (found.Company.Chain != by.Company.Chain || found.Person != by.Person) {
		err = &Error{Kind: Untrusted, Code: "PASSKEY_REFUSED", Message: "Unauthorized: the passkey is another person's"}
	}
	if err != nil {
		return Approval{}, err
	}
	raw := parsed.Raw.AssertionResponse
	a, err := s.Store.Approvals.Decide(ctx, by, store.ApprovalDecision{
		Object: o, Passkey: k, BackupEligible: isEligible, AuthenticatorData: base64url.EncodeToString(raw.AuthenticatorData),
		ClientDataJSON: base64url.EncodeToString(raw.ClientDataJSON), Signature: base64url.EncodeToString(raw.Signature),
	})
	if err != nil {
		return Approval{}, approvalError(id, s.stateFor(ctx, by, id, err), err)
	}
	return s.show(by, base, &a), nil
}
