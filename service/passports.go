package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/decision"
	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/crypto/dpop"
	"attestd/crypto/jcs"
	"attestd/crypto/statement"
	"attestd/service/decide"
	"attestd/store"
)

// Passports are those of companies' agents.
type Passports struct {
	Store    *store.Store
	Agents   *Agents
	Keys     *AgentKeys
	Verifier string // names this program in receipts

	Authorizations *Authorizations
}

var defaultScopes = []string{"tool:*", "attest:write"}

// Passport is one that was just issued, and the whole of it: it is shown once.
type Passport struct {
	AgentID         string   `json:"agentId"`
	SPIFFEID        string   `json:"spiffeId"`
	Org             string   `json:"org"`
	OrgSPIFFEID     string   `json:"orgSpiffeId"`
	Scopes          []string `json:"scopes"`
	DelegationChain []string `json:"delegationChain"`

	AuthorizationDetails details.Details `json:"authorizationDetails,omitzero"`

	Passport    string `json:"passport"`
	ExpiresIn   int64  `json:"expiresIn"`
	CAPublicKey string `json:"caPublicKey"`
	RotatedFrom string `json:"rotatedFrom,omitempty"`
}

func newPassport(by store.Caller, token string, p cred.PassportClaims, rotatedFrom string) Passport {
	return Passport{
		AgentID: p.AgentID, SPIFFEID: p.Subject, Org: p.Org, OrgSPIFFEID: p.OrgSPIFFEID,
		Scopes: p.Scopes, DelegationChain: p.DelegationChain, AuthorizationDetails: p.Details,
		Passport: token, ExpiresIn: p.ExpiresAt - p.IssuedAt, CAPublicKey: by.Company.Issuer.Public.PEM, RotatedFrom: rotatedFrom,
	}
}

// recorded is what the store has of a passport.
func recorded(p cred.PassportClaims) store.Passport {
	return store.Passport{JTI: p.ID, AgentID: p.AgentID, Scopes: p.Scopes, IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt, JKT: p.JKT, Details: p.Details}
}

// Issue issues a passport to an agent; scopes are nil for the default ones. jkt is the thumbprint
// of the agent's key that the passport is bound to, "" for none.
func (p *Passports) Issue(
	ctx context.Context, by store.Caller, agentID string, scopes []string, limits details.Details, jkt string, ttl time.Duration,
) (Passport, error) {
	if err := p.Agents.Check(ctx, by, agentID); err != nil {
		return Passport{}, err
	}
	if jkt != "" {
		_, err := p.Keys.live(ctx, by, agentID, jkt)
		if errors.Is(err, store.ErrNotFound) {
			err = &Error{Kind: Invalid, Message: "Invalid field: jkt must be the thumbprint of a live key of the agent", Pointer: "/jkt"}
		}
		if err != nil {
			return Passport{}, err
		}
	}
	if scopes == nil {
		scopes = defaultScopes
	}
	issuer, err := issuerFor(by)
	if err != nil {
		return Passport{}, err
	}
	if limits, err = within(limits, "/authorizationDetails", by.Details); err != nil {
		return Passport{}, err
	}
	token, claims, err := issuer.Limited(limits).Passport(agentID, scopes, nil, jkt, ttl, by.At)
	if err != nil {
		return Passport{}, refusedToken("scopes", err)
	}
	if err := p.Store.Passports.Record(ctx, by, recorded(claims)); err != nil {
		return Passport{}, agentError(agentID, err)
	}
	return newPassport(by, token, claims, ""), nil
}

// Rotate revokes the passport that is presented and issues one like it. The passport is verified
// before the agent is looked up: its faults are reported in the order of the specification's error
// table, and nothing of the agent to a caller without a passport.
func (p *Passports) Rotate(ctx context.Context, by store.Caller, agentID, presented string) (Passport, error) {
	old, err := p.verifyOwn(ctx, by, presented, agentID)
	if err != nil {
		return Passport{}, err
	}
	if err := p.Agents.Check(ctx, by, agentID); err != nil {
		return Passport{}, err
	}
	issuer, err := issuerFor(by)
	if err != nil {
		return Passport{}, err
	}
	ttl := time.Duration(old.ExpiresAt-old.IssuedAt) * time.Second
	token, next, err := issuer.Limited(old.Details).Passport(agentID, old.Scopes, old.DelegationChain, old.JKT, ttl, by.At)
	if err != nil {
		return Passport{}, refusedToken("passport", err)
	}
	err = store.ErrNotAsIssued
	if couldIssue(old) {
		err = p.Store.Passports.Rotate(ctx, by, recorded(old), recorded(next))
	}
	switch {
	case errors.Is(err, store.ErrNotAsIssued):
		return Passport{}, untrusted(Untrusted, notAsIssued)
	case errors.Is(err, store.ErrRevoked):
		return Passport{}, &Error{Kind: Conflict, Message: "Passport has already been revoked", Code: cred.CodePassportRevoked}
	case errors.Is(err, store.ErrNotFound):
		return Passport{}, untrusted(Untrusted, notIssued)
	case err != nil:
		return Passport{}, agentError(agentID, err)
	}
	return newPassport(by, token, next, old.ID), nil
}

// verifyOwn checks a passport and that it is the agent's and the company's own.
func (p *Passports) verifyOwn(ctx context.Context, by store.Caller, token, agentID string) (cred.PassportClaims, error) {
	claims, err := by.Company.Issuer.CheckPassport(token, by.At)
	var refused *cred.Error
	switch {
	case errors.As(err, &refused) && refused.Code == cred.CodeSignatureInvalid && p.isOfAnotherCompany(ctx, by, token):
		return claims, refuse(Forbidden, "Passport was not issued by the authenticated company")
	case err != nil:
		return claims, untrusted(Untrusted, err)
	case claims.AgentID != agentID:
		// which is the agent of its subject, or the passport would not have passed
		return claims, refuse(Forbidden, "Passport does not belong to the specified agent")
	}
	return claims, nil
}

// isOfAnotherCompany says whether a passport that is not ours verifies under the key of the local
// company that it names.
func (p *Passports) isOfAnotherCompany(ctx context.Context, by store.Caller, token string) bool {
	org, ok := by.Company.Issuer.Domain.UnverifiedOrg(token)
	if !ok || org == by.Company.ID {
		return false
	}
	other, err := p.Store.Companies.Get(ctx, org)
	if err != nil {
		return false
	}
	_, err = other.Issuer.CheckPassport(token, by.At)
	return err == nil
}

// Covering returns a valid passport of the agent that covers the call of a tool, or nil. server is
// the MCP server, "" for none; arguments are nil where they are not known.
func (p *Passports) Covering(ctx context.Context, by store.Caller, agentID, server, tool string, arguments []byte) (*store.Passport, error) {
	for found, err := range p.Store.Passports.Valid(ctx, by, agentID) {
		if err != nil {
			return nil, err
		}
		if _, err := (cred.PassportClaims{Scopes: found.Scopes, Details: found.Details}).GrantOn(server, tool, arguments); err == nil && tool != "" {
			return &found, nil
		}
	}
	return nil, nil
}

// presented returns the passport that came with an attestation, nil where the company did not issue
// it so, and the code of the check that it fails, "" for none. Its details are left to the
// decision. A passport that is bound to a key is proven by that key: the agent has signed in or
// signed the statement with it. What calls no tool needs the scope attest:write.
func (p *Passports) presented(ctx context.Context, by store.Caller, item *Attestation) (found *store.Passport, code string, err error) {
	claims, err := by.Company.Issuer.CheckPassport(item.Passport, by.At)
	isOurs := err == nil
	if isOurs {
		err = p.inForce(ctx, by, claims)
	}
	var refused *cred.Error
	if err != nil && !errors.As(err, &refused) {
		return nil, "", err
	}
	isOurs = isOurs && (err == nil || refused.Code != cred.CodeVerificationError)
	switch {
	case err != nil:
		code = refused.Code
	case claims.AgentID != item.AgentID: // whose it is, the record of another one does not say
		return nil, cred.CodeVerificationError, nil
	case claims.JKT != "" && by.Key != claims.JKT && keyOf(item.Statement) != claims.JKT:
		code = codeNotProven
	case !hasScope(by.Company.ID, claims, item):
		code = cred.CodeScopeDenied
	}
	if isOurs && claims.AgentID == item.AgentID {
		presented := recorded(claims)
		found = &presented
	}
	return found, code, nil
}

// keyOf returns the thumbprint of the key of a statement that was checked, "" without one.
func keyOf(text string) string {
	if text == "" {
		return ""
	}
	stmt, err := statement.Parse(text)
	if err != nil {
		return ""
	}
	return stmt.KeyID
}

// hasScope reports whether a scope of a passport covers what an attestation is about.
func hasScope(company string, claims cred.PassportClaims, item *Attestation) bool {
	asked := decide.Recorded(company, item.AgentID, item.ActionType, item.Payload, decision.Context{})
	if asked.Action == decide.Call {
		_, err := (cred.PassportClaims{Scopes: claims.Scopes}).GrantOn(asked.Server, asked.Tool, nil)
		return err == nil
	}
	return slices.ContainsFunc(claims.Scopes, func(scope string) bool { return scope == "*" || scope == "attest:*" || scope == "attest:write" })
}

// Revocation is the revocation record of the specification.
type Revocation struct {
	JTI       string  `json:"jti"`
	RevokedAt string  `json:"revokedAt"`
	Reason    *string `json:"reason,omitempty"`
}

func newRevocation(p store.Passport) Revocation { return Revocation{p.JTI, p.RevokedAt, p.Reason} }

// Revoke revokes a passport of the company.
func (p *Passports) Revoke(ctx context.Context, by store.Caller, jti string, reason *string) (Revocation, error) {
	revoked, err := p.Store.Passports.Revoke(ctx, by, jti, reason)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Revocation{}, &Error{Kind: NotFound, Message: "Passport not found: this company has issued none with that ID", Code: "PASSPORT_NOT_FOUND"}
	case errors.Is(err, store.ErrRevoked):
		return Revocation{}, refuse(Conflict, "Passport is already revoked")
	}
	return newRevocation(revoked), err
}

// Revoked yields all revocations, ordered by their time.
func (p *Passports) Revoked(ctx context.Context, by store.Caller) iter.Seq2[Revocation, error] {
	return Map(p.Store.Passports.Revoked(ctx, by), newRevocation)
}

// Status returns the signed status of a passport, which is never "valid" for what the company has
// not issued.
func (p *Passports) Status(ctx context.Context, by store.Caller, jti string) (SignedStatus, error) {
	var found store.Passport
	revoked, err := p.Store.Passports.IsRevoked(ctx, by, jti)
	if revoked {
		found, err = p.Store.Passport(ctx, by, jti)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return SignedStatus{}, err
	}
	return newStatus(by, jti, found, err == nil)
}

// PassportItem is a passport that was issued, in a list.
type PassportItem struct {
	JTI       string   `json:"jti"`
	AgentID   string   `json:"agentId"`
	Scopes    []string `json:"scopes"`
	IssuedAt  string   `json:"issuedAt"`
	ExpiresAt string   `json:"expiresAt"`
	Status    string   `json:"status"`
	RevokedAt string   `json:"revokedAt,omitempty"`
	Reason    *string  `json:"reason,omitempty"`

	AuthorizationDetails details.Details `json:"authorizationDetails,omitzero"`

	Cursor string `json:"-"` // to go on after it
}

// List yields the passports that a filter means, the newest first, those older than a cursor. rest
// is the cursor from which on older ones were not looked at, "" where there are none.
func (p *Passports) List(ctx context.Context, by store.Caller, f store.PassportFilter, cursor string) (found iter.Seq2[PassportItem, error], rest string, err error) {
	passports, rest, err := p.Store.Passports.List(ctx, by, f, cursor)
	if errors.Is(err, store.ErrNotFound) {
		err = refuse(Invalid, "Invalid query parameter: cursor must be the next of an earlier page")
	}
	if err != nil {
		return nil, "", err
	}
	return Map(passports, func(p store.Passport) PassportItem {
		return PassportItem{p.JTI, p.AgentID, p.Scopes, unixTime(p.IssuedAt), unixTime(p.ExpiresAt), p.Status(by.At), p.RevokedAt, p.Reason, p.Details, p.Cursor()}
	}), rest, nil
}

// couldIssue checks the claims that are not recorded of a passport, for they are the same for all:
// it is valid from when it was issued, and its agent acts for the company alone.
func couldIssue(p cred.PassportClaims) bool {
	return p.NotBefore == p.IssuedAt && slices.Equal(p.DelegationChain, []string{p.OrgSPIFFEID, p.Subject})
}

var (
	notIssued   = &cred.Error{Code: cred.CodeVerificationError, Message: "Passport is not known to have been issued"}
	notAsIssued = &cred.Error{Code: cred.CodeVerificationError, Message: "Passport is not the one that was issued under its ID"}
	isRevoked   = &cred.Error{Code: cred.CodePassportRevoked, Message: "Passport has been revoked"}
)

// untrusted makes a refusal of a *cred.Error; any other error stays what it is.
func untrusted(kind Kind, err error) error {
	var refused *cred.Error
	if errors.As(err, &refused) {
		return &Error{Kind: kind, Message: refused.Message, Code: refused.Code}
	}
	return err
}

func unixTime(seconds int64) string { return chain.FormatTime(time.Unix(seconds, 0)) }

// VerifiedPassport is a passport that is in force, with what it grants.
type VerifiedPassport struct {
	Valid        bool                `json:"valid"`
	Claims       cred.PassportClaims `json:"claims"`
	ScopeGranted string              `json:"scopeGranted"`
	Receipt      Receipt             `json:"receipt"`
}

// Receipt is the AttestationReceipt of the specification.
type Receipt struct {
	V                 int      `json:"v"`
	Type              string   `json:"type"`
	PassportID        string   `json:"passportId"`
	AgentID           string   `json:"agentId"`
	AgentSPIFFEID     string   `json:"agentSpiffeId"`
	Org               string   `json:"org"`
	OrgSPIFFEID       string   `json:"orgSpiffeId"`
	Tool              string   `json:"tool"`
	ScopeGranted      string   `json:"scopeGranted"`
	DelegationChain   []string `json:"delegationChain"`
	IssuedBy          string   `json:"issuedBy"`
	PassportIssuedAt  string   `json:"passportIssuedAt"`
	PassportExpiresAt string   `json:"passportExpiresAt"`
	VerifiedAt        string   `json:"verifiedAt"`
	Verifier          string   `json:"verifier"`
}

// ToolCall is the request with which a passport was presented, as its verifier sees it.
type ToolCall struct {
	Method, URL string
	Proof       string // DPoP; "" without one
	Arguments   []byte // of the tool, as JSON; nil where they are not known
}

// Verify checks a passport, and that it covers a call of a tool; nil for any. A passport that is
// bound to a key needs a proof of that key for the call with which it came. The policies of the
// company decide about the call last. What is wrong is an *Error with the code of the check that
// has failed.
func (p *Passports) Verify(ctx context.Context, by store.Caller, token string, tool *string, call ToolCall) (VerifiedPassport, error) {
	var scope string
	claims, err := by.Company.Issuer.CheckPassport(token, by.At)
	isOurs := err == nil
	if err == nil {
		scope, err = claims.Grant(tool, call.Arguments)
	}
	if err == nil {
		err = p.inForce(ctx, by, claims)
	}
	if err == nil {
		err = p.proven(ctx, by, token, claims, call)
	}
	if err = untrusted(Invalid, err); err == nil || errors.As(err, new(*Error)) {
		err = p.decide(ctx, by, claims, isOurs, tool, call.Arguments, err)
	}
	if err != nil {
		return VerifiedPassport{}, err
	}
	return VerifiedPassport{true, claims, scope, p.receipt(by, claims, tool, scope)}, nil
}

// noTool stands for the tool of a call that was not named.
const noTool = "(not checked)"

// decide asks the decision point about a call for which a passport was presented, and returns why
// it is denied; refused where the passport is. isOurs says whether the company has signed the
// claims. Where no tool is named, nothing is permitted that policies could decide about.
func (p *Passports) decide(
	ctx context.Context, by store.Caller, claims cred.PassportClaims, isOurs bool, tool *string, arguments []byte, refused error,
) error {
	if asked, err := p.Authorizations.asked(ctx, by); err != nil || !asked || refused == nil && tool == nil {
		return cmp.Or(err, refused)
	}
	q := Question{
		Subject: Named{"passport", noAgent}, Action: decide.Call, Resource: noTool, Arguments: arguments, Context: decision.Context{Door: decide.DoorVerify},
	}
	if tool != nil {
		q.Resource = *tool
	}
	var wrong *Error
	if errors.As(refused, &wrong) {
		q.Code = wrong.Code
	}
	// what the company has not issued, or not like this, names nobody
	if isOurs && q.Code != cred.CodeVerificationError {
		q.AgentID, q.Passport, q.Context.Scopes = claims.AgentID, claims.ID, claims.Scopes
		limited(&q.Context, claims.Details)
	}
	made, err := p.Authorizations.Decide(ctx, by, q)
	switch {
	case err != nil || refused != nil:
		return cmp.Or(refused, err)
	case made.Verdict == decision.Allow || made.Code == decision.Suspended: // it only reads
		return nil
	case made.Code == decision.AgentDisabled: // between the checks
		return untrusted(Invalid, isRevoked)
	case made.Verdict == decision.Ask:
		return &Error{Kind: Invalid, Code: decision.PolicyDenied, Message: "The policies of the company allow the call with an approval alone"}
	}
	return &Error{Kind: Invalid, Code: made.Code, Message: "The policies of the company do not allow the call"}
}

// noAgent is the ID of a subject that could not be read.
const noAgent = "(unreadable)"

// proven requires of a passport that is bound to a key that its presenter holds that key, which the
// agent still has. A proof counts once.
func (p *Passports) proven(ctx context.Context, by store.Caller, token string, claims cred.PassportClaims, call ToolCall) error {
	switch {
	case claims.JKT == "" && call.Proof == "":
		return nil
	case claims.JKT == "":
		return notProven("a proof was sent, and the passport is bound to no key")
	case call.Proof == "":
		return notProven("the passport is bound to a key: send the DPoP proof that came with it as proof, with htm and htu of that request")
	}
	proof, err := dpop.Check(call.Proof, dpop.Request{Method: call.Method, URL: call.URL, AccessToken: token}, claims.JKT, by.At)
	if err != nil {
		return notProven(err.Error())
	}
	if _, err := p.Keys.live(ctx, by, claims.AgentID, claims.JKT); errors.Is(err, store.ErrNotFound) {
		return notProven("the key that the passport is bound to is no live key of the agent")
	} else if err != nil {
		return err
	}
	err = p.Store.Credentials.Use(ctx, UsedProof(&proof), by.At)
	if errors.Is(err, store.ErrUsed) {
		return notProven("the proof was used before")
	}
	return err
}

func notProven(why string) error {
	return &cred.Error{Code: codeNotProven, Message: "Passport is not proven: " + why}
}

const codeNotProven = "NOT_PROVEN"

// inForce refuses a passport that is revoked, that this company has no record of having issued (it
// may have been issued after the backup that was restored, and revoked too), or that says something
// else than the one that was issued: a holder of the signing key can sign any claims under an ID
// that was issued.
func (p *Passports) inForce(ctx context.Context, by store.Caller, claims cred.PassportClaims) error {
	if !couldIssue(claims) {
		return notAsIssued
	}
	err := p.Store.Passports.Check(ctx, by, recorded(claims))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return notIssued
	case errors.Is(err, store.ErrNotAsIssued):
		return notAsIssued
	case errors.Is(err, store.ErrRevoked):
		return isRevoked
	}
	return err
}

func (p *Passports) receipt(by store.Caller, claims cred.PassportClaims, tool *string, scope string) Receipt {
	checked := noTool
	if tool != nil {
		checked = *tool
	}
	return Receipt{
		V: 1, Type: by.Company.Issuer.Domain.ReceiptType(), PassportID: claims.ID,
		AgentID: claims.AgentID, AgentSPIFFEID: claims.Subject, Org: claims.Org, OrgSPIFFEID: claims.OrgSPIFFEID,
		Tool: checked, ScopeGranted: scope, DelegationChain: claims.DelegationChain, IssuedBy: claims.Issuer,
		PassportIssuedAt: unixTime(claims.IssuedAt), PassportExpiresAt: unixTime(claims.ExpiresAt),
		VerifiedAt: chain.FormatTime(by.At), Verifier: p.Verifier,
	}
}

// status is what is signed of a passport: the canonical form of exactly these members.
type status struct {
	JTI       string  `json:"jti"`
	CompanyID string  `json:"companyId"`
	Status    string  `json:"status"` // valid, revoked or unknown
	CheckedAt string  `json:"checkedAt"`
	RevokedAt string  `json:"revokedAt,omitempty"`
	Reason    *string `json:"reason,omitempty"`
}

// SignedStatus is the status of a passport, signed with the company's key.
type SignedStatus struct {
	status
	CAPublicKey string `json:"caPublicKey"`
	Signature   string `json:"signature"`
}

// IsKnown says whether the company has issued the passport.
func (s SignedStatus) IsKnown() bool { return s.Status != "unknown" }

// newStatus signs the status of a passport, which is never "valid" for what the company has not
// issued.
func newStatus(by store.Caller, jti string, p store.Passport, issued bool) (SignedStatus, error) {
	st := status{JTI: jti, CompanyID: by.Company.ID, Status: "valid", CheckedAt: chain.FormatTime(by.At)}
	switch {
	case !issued:
		st.Status = "unknown"
	case p.RevokedAt != "":
		st.Status, st.RevokedAt, st.Reason = "revoked", p.RevokedAt, p.Reason
	}
	plain, err := json.Marshal(st)
	if err != nil {
		return SignedStatus{}, err
	}
	canonical, err := jcs.Append(nil, plain, MaxDepth)
	if err != nil {
		return SignedStatus{}, err
	}
	issuer := by.Company.Issuer
	return SignedStatus{st, issuer.Public.PEM, issuer.Sign(sha256.Sum256(canonical))}, nil
}
