package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/projection"
)

// ControlAction is what a control record says was done: the actionType of its payload.
type ControlAction string

// All that is recorded in a control log. SVIDs, delegation tokens and access tokens are not: there
// are thousands a second.
const (
	CompanyRegistered  ControlAction = "company.registered"
	APIKeyCreated      ControlAction = "api-key.created"
	APIKeyDeleted      ControlAction = "api-key.deleted"
	OAuthClientCreated ControlAction = "oauth-client.created"
	OAuthClientDeleted ControlAction = "oauth-client.deleted"
	AgentRegistered    ControlAction = "agent.registered"
	AgentDisabled      ControlAction = "agent.disabled"
	AgentEnabled       ControlAction = "agent.enabled"
	PassportIssued     ControlAction = "passport.issued"
	PassportRevoked    ControlAction = "passport.revoked"
	SigningKeyRotated  ControlAction = "signing-key.rotated"
	APIKeyRecovered    ControlAction = "api-key.recovered"
	DatabaseRestored   ControlAction = "database.restored"
	DatabaseRekeyed    ControlAction = "database.rekeyed"
	DatabaseMoved      ControlAction = "database.moved"
	HeadFileMade       ControlAction = "head-file.made"
	RollbackAccepted   ControlAction = "rollback.accepted"
	SettingsChanged    ControlAction = "settings.changed"
	WebhookCreated     ControlAction = "webhook.created"
	WebhookDeleted     ControlAction = "webhook.deleted"
	WebhookEnabled     ControlAction = "webhook.enabled"
	WebhookDisabled    ControlAction = "webhook.disabled"
	WebhookRotated     ControlAction = "webhook.secret-rotated"
	AgentKeyEnrolled   ControlAction = "agent-key.enrolled"
	AgentKeyRevoked    ControlAction = "agent-key.revoked"
	TokenKeyCreated    ControlAction = "token-key.created"
	TokenKeyEnded      ControlAction = "token-key.ended"
	EnrolmentCreated   ControlAction = "enrolment.created"
	FederationCreated  ControlAction = "federation.created"
	FederationDeleted  ControlAction = "federation.deleted"
	FederationUsed     ControlAction = "federation.used"
	AgentPolicy        ControlAction = "agent.policy-changed"
	CompanyPolicy      ControlAction = "company.policy-changed"
	PolicyPut          ControlAction = "policy.put"
	PolicyDeleted      ControlAction = "policy.deleted"
	PersonCreated      ControlAction = "person.created"
	PersonChanged      ControlAction = "person.changed"
	PersonDeleted      ControlAction = "person.deleted"
	PersonSignedIn     ControlAction = "person.signed-in"
	PersonSignedOut    ControlAction = "person.signed-out"
	PasskeyEnrolled    ControlAction = "passkey.enrolled"
	PasskeyRevoked     ControlAction = "passkey.revoked"
	InvitationCreated  ControlAction = "invitation.created"
	ApprovalGranted    ControlAction = "approval.granted"
	ApprovalDenied     ControlAction = "approval.denied"
	ApprovalUsed       ControlAction = "approval.used"
	ApprovalWithdrawn  ControlAction = "approval.withdrawn"
	CompanySuspended   ControlAction = "company.suspended"
	CompanyResumed     ControlAction = "company.resumed"
	CompanyQuota       ControlAction = "company.quota-changed"
	PayloadsPruned     ControlAction = "payloads.pruned"
	BytesRecounted     ControlAction = "bytes.recounted"
	CallDisobeyed      ControlAction = "call.disobeyed"
	RowAdopted         ControlAction = projection.RowAdopted
	RowAccepted        ControlAction = projection.RowAccepted
	TablesAdopted      ControlAction = projection.TablesAdopted
	TablesAccepted     ControlAction = projection.TablesAccepted
)

// The subjects of control records are what these are about, and how they are found: a kind and a
// name. The subjects of a kind of right are defined by its right.
func subjectCompany(id string) string { return "company:" + id }

// subjectFederationUse is of who has used a federation, which changes nothing of it.
func subjectFederationUse(name string) string { return "federation-use:" + name }

// subjectRecovery is of a key that was shown again, which changes nothing of the key: the newest
// record about a row says what the row is.
func subjectRecovery(fingerprint string) string { return "recovery:" + fingerprint }

// The subjects of what an operator has done to the company's records.
const (
	subjectPayloads = "payloads"
	subjectBytes    = "bytes" // as the heads count them
)

// SubjectDatabase is of what concerns all companies of the file alike.
const SubjectDatabase = "database"

// controlEvent is one change, as its record will describe it. details are members of the record's
// payload in addition to subject and by.
type controlEvent struct {
	action  ControlAction
	subject string
	details map[string]any
}

// takesAway says whether something holds no more after the change that servers remember for a
// moment, or must be known to all of them before it is used.
func (e controlEvent) takesAway() bool {
	switch e.action {
	case APIKeyDeleted, OAuthClientDeleted, AgentDisabled, AgentEnabled, PassportRevoked, SigningKeyRotated, WebhookDeleted, WebhookDisabled, WebhookRotated, AgentKeyRevoked, AgentPolicy, CompanyPolicy,
		TokenKeyCreated, TokenKeyEnded, FederationCreated, FederationDeleted, CompanySuspended, CompanyResumed, PolicyPut, PolicyDeleted:
		return true
	}
	return false
}

// gives reports whether the change gives a right, and so is refused beyond a quota. What ends a
// right is always possible, and so are rotations, with the token keys that they bring: the rate
// limits bound those.
func (e controlEvent) gives() bool {
	switch e.action {
	case CompanyRegistered, CompanyListed, APIKeyCreated, OAuthClientCreated, AgentRegistered, AgentEnabled, PassportIssued, WebhookCreated,
		WebhookEnabled, WebhookRotated, AgentKeyEnrolled, EnrolmentCreated, FederationCreated, FederationUsed, PolicyPut,
		PersonCreated, PasskeyEnrolled, InvitationCreated:
		return true
	case AgentPolicy, CompanyPolicy:
		_, attest := e.details["attest"].(narrower)
		_, audiences := e.details["exchangeAudiences"].(narrower)
		_, decisions := e.details["decisions"]
		_, changes := e.details["changes"]
		return !attest && !audiences && !decisions && !changes
	}
	return false
}

// narrower is the detail of a change that gives nothing, although others of its action may.
type narrower struct{ json.RawMessage }

// controlled makes a change durable together with the control records of the company that it
// concerns: both, or neither. by is read after the rows are written, because a company that is
// being made has its number from then on. Rows that change nothing return no events. A change that
// removes a right is visible on all servers when controlled returns. So is one that was already
// made, because another server may just have made it.
func (s *base) controlled(ctx context.Context, by Caller, rows func(*db.Conn) ([]controlEvent, error)) error {
	if err := s.intact(by.Company.Chain); err != nil {
		return err
	}
	return s.recorded(ctx, by, s.Change, rows)
}

// recorded is controlled with its own way to write, for changes that must work even where nothing
// else of the company may be changed; see Changeable.
func (s *base) recorded(ctx context.Context, by Caller, write ledger.WriteFunc, rows func(*db.Conn) ([]controlEvent, error)) error {
	c := rightsChange{base: s, by: by, rows: rows}
	_, err := write(ctx, c.drafts)
	if err == nil && c.takesAway || errors.Is(err, ErrRevoked) {
		s.WaitPropagation(ctx)
	}
	return err
}

// rightsChange is a change of rows with the control records about them.
type rightsChange struct {
	base      *base
	by        Caller
	rows      func(*db.Conn) ([]controlEvent, error)
	takesAway bool // set by drafts
}

// drafts writes the rows, and returns the drafts of their control records.
func (c *rightsChange) drafts(w *db.Conn) ([]chain.Draft, error) {
	events, err := c.rows(w)
	if err != nil {
		return nil, err
	}
	if err := c.base.admit(w, c.by, events); err != nil {
		return nil, err
	}
	c.takesAway = len(events) == 0 || slices.ContainsFunc(events, controlEvent.takesAway)
	return c.base.controlDrafts(c.by, events...)
}

func (s *base) controlDrafts(by Caller, events ...controlEvent) (drafts []chain.Draft, err error) {
	drafts = make([]chain.Draft, len(events))
	for i, e := range events {
		if drafts[i], err = s.controlDraft(by, e); err != nil {
			return nil, err
		}
	}
	return drafts, nil
}

// controlDraft has the form of every record: the service is the agent, and the payload names who
// requested the change. Its member log, which no action has, prevents that an action whose payload
// a company chooses passes for a control record: both logs have the same keys.
func (s *base) controlDraft(by Caller, e controlEvent) (chain.Draft, error) {
	members := map[string]any{"subject": e.subject, "by": textOrNil(by.Credential)}
	if by.Session != "" {
		members["signedIn"], members["passkey"] = by.SignedIn, textOrNil(by.Passkey)
	}
	maps.Copy(members, e.details)
	text := jcs.AppendString(append(make([]byte, 0, 512), `{"actionType":`...), string(e.action))
	text = jcs.AppendString(append(text, `,"agentId":`...), s.Domain().Service)
	text = jcs.AppendString(append(text, `,"companyId":`...), by.Company.ID)
	text = jcs.AppendString(append(text, `,"log":`...), string(db.Control))
	text = append(text, `,"payload":{`...)
	for i, name := range slices.Sorted(maps.Keys(members)) { // names are ASCII
		if i > 0 {
			text = append(text, ',')
		}
		var err error
		if text, err = appendMember(append(jcs.AppendString(text, name), ':'), members[name]); err != nil {
			return chain.Draft{}, fmt.Errorf("control record %s: %s: %w", e.action, name, err)
		}
	}
	text = append(text, "}}"...)
	return chain.Draft{Chain: by.Company.Control.Chain, Payload: text, Canonical: text, Exempt: !e.gives()}, nil
}

// appendMember appends the canonical form of a member's value. The most frequent types take the
// short way.
func appendMember(dst []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return jcs.AppendString(dst, v), nil
	case int64:
		if v > -maxExact && v < maxExact {
			return strconv.AppendInt(dst, v, 10), nil
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return dst, err
	}
	return jcs.Append(dst, text, maxControlDepth)
}

// maxExact bounds the whole numbers that RFC 8785 writes as they are.
const maxExact = 1 << 53

// maxControlDepth is more than what a control record nests.
const maxControlDepth = 8

// hashOf is how a control record names what may be long or private: by its SHA-256 in hex, ""
// for nil.
func hashOf(text []byte) string {
	if text == nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// hashOrNil is hashOf as a member of a control record: null for nil.
func hashOrNil(text []byte) any { return textOrNil(hashOf(text)) }

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}
