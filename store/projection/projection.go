// Package projection says what the tables of a company must hold, from its control log alone.
//
// Every change of rights has a control record, written in the transaction of its rows. So the rows
// that the service obeys follow from the records: State applies a log's records in their order, and
// then has each row as it must be. Package store writes and reads the rows; here is no SQL.
//
// A log that begins with company.registered knows everything of its company. A company that is
// older than its control log has rows that no record describes; a start adopts them once, with a
// row.adopted record for each, and a tables.adopted record behind them. From then on such a log
// knows everything too.
//
// An operator who accepts what the tables say against the log does so by row.accepted records, one
// for each row, and one tables.accepted record with his reason. Both kinds of row records hold the
// whole row, null for one that is gone.
//
// A passport is revoked by its own record, or by that of its agent's disabling. The latter revokes
// what was unrevoked then. Passports that had expired by then may be left as they were: both forms
// of the row agree with the log.
package projection

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
)

// Actions that only this package gives a meaning.
const (
	RowAdopted     = "row.adopted"
	RowAccepted    = "row.accepted"
	TablesAdopted  = "tables.adopted"
	TablesAccepted = "tables.accepted"
)

// State is what the tables of a company must hold after the records that were applied. The zero
// value is not usable: see New.
type State struct {
	Company     Entry[Company]
	SigningKeys Rows[SigningKey] // by the fingerprint of the whole public key
	APIKeys     Rows[Credential]
	Clients     Rows[Credential] // by clientId
	Agents      Rows[Agent]
	// by jti, without what disabling their agents did: see Passport
	Passports   Rows[Passport]
	Webhooks    Rows[Webhook]
	AgentKeys   Rows[AgentKey]   // by thumbprint
	TokenKeys   Rows[TokenKey]   // by kid
	Enrolments  Rows[Enrolment]  // by fingerprint
	Federations Rows[Federation] // by name
	Policies    Rows[Policy]     // by agentId, "" for the company's
	Suspensions Rows[Suspension] // the company's alone, by "", as in the next two
	// in addition to the company's in Policies
	CompanyPolicies  Rows[CompanyPolicy]
	Quotas           Rows[Quota]
	CedarPolicies    Rows[CedarPolicy]    // by policyId
	CedarSets        Rows[CedarSet]       // the company's alone, by ""
	Groups           Rows[AgentGroups]    // by agentId
	DecisionPolicies Rows[DecisionPolicy] // the company's alone, by ""
	People           Rows[Person]         // by personId
	Passkeys         Rows[Passkey]        // by credentialId
	Invitations      Rows[Invitation]     // by fingerprint
	ChangePolicies   Rows[ChangePolicy]   // the company's alone, by ""
	Settings         map[string]string    // that bear on trust
	// time of the record since which the log names the database; "" before
	IdentifiedAt string
	// names of statements that two records have, in hex, which an operator has accepted
	Names map[string]bool

	companyID      string
	whole, adopted bool
	adoptedAt      int64 // Unix seconds
	// fingerprint of the key that signs; "" while no record describes it
	current string
	// keys whose record says no more than that they had ended by its time
	endedBy  map[string]bool
	disabled map[string][]disabling // by agent, in the order of the log
	texts    map[string]string      // one copy of what many rows repeat
}

// New returns the state of a company before the first record of its control log.
func New(companyID string) *State {
	return &State{
		companyID: companyID, SigningKeys: Rows[SigningKey]{}, endedBy: map[string]bool{},
		APIKeys: Rows[Credential]{}, Clients: Rows[Credential]{}, Agents: Rows[Agent]{},
		Passports: Rows[Passport]{}, Webhooks: Rows[Webhook]{},
		AgentKeys: Rows[AgentKey]{}, TokenKeys: Rows[TokenKey]{}, Enrolments: Rows[Enrolment]{},
		Federations: Rows[Federation]{}, Policies: Rows[Policy]{}, Settings: map[string]string{},
		Suspensions: Rows[Suspension]{}, CompanyPolicies: Rows[CompanyPolicy]{}, Quotas: Rows[Quota]{}, Names: map[string]bool{},
		CedarPolicies: Rows[CedarPolicy]{}, CedarSets: Rows[CedarSet]{}, Groups: Rows[AgentGroups]{}, DecisionPolicies: Rows[DecisionPolicy]{},
		People: Rows[Person]{}, Passkeys: Rows[Passkey]{}, Invitations: Rows[Invitation]{}, ChangePolicies: Rows[ChangePolicy]{},
		disabled: map[string][]disabling{}, texts: map[string]string{},
	}
}

// table is the rows of one table.
type table struct {
	name    string
	subject string // of control records about a row, before its name
	rows    rows
	// a row may have the name "", which means the company
	ofCompany bool
}

// tables are all tables but the company's own, in the order in which differences are found.
func (s *State) tables() []table {
	return []table{
		{TableSigningKey, "signing-key:", s.SigningKeys, false},
		{TableAPIKey, "api-key:", s.APIKeys, false},
		{TableClient, "oauth-client:", s.Clients, false},
		{TableAgent, "agent:", s.Agents, false},
		{TablePassport, "passport:", s.Passports, false},
		{TableWebhook, "webhook:", s.Webhooks, false},
		{TableAgentKey, "agent-key:", s.AgentKeys, false},
		{TableTokenKey, "token-key:", s.TokenKeys, false},
		{TableEnrolment, "enrolment:", s.Enrolments, false},
		{TableFederation, "federation:", s.Federations, false},
		{TablePolicy, "policy:", s.Policies, true},
		{TableCompanyPolicy, subjectCompanyPolicy, s.CompanyPolicies, true},
		{TableSuspension, "suspension", s.Suspensions, true},
		{TableQuota, "quota", s.Quotas, true},
		{TableCedarPolicy, "cedar-policy:", s.CedarPolicies, false},
		{TableCedarSet, subjectCedarSet, s.CedarSets, true},
		{TableAgentGroups, subjectAgentGroups, s.Groups, false},
		{TableDecisionPolicy, subjectDecisions, s.DecisionPolicies, true},
		{TablePerson, "person:", s.People, false},
		{TablePasskey, "passkey:", s.Passkeys, false},
		{TableInvitation, "invitation:", s.Invitations, false},
		{TableChangePolicy, subjectChanges, s.ChangePolicies, true},
	}
}

// MarkComplete makes the state that of a log which describes every row, although not all of its
// records are applied.
func (s *State) MarkComplete() { s.whole = true }

// Complete reports whether the log describes every row: a row without a record is then an external
// write.
func (s *State) Complete() bool { return s.whole || s.adopted }

// RecordError is a control record that contradicts its log: it is of another company or log, cannot
// be read, or changes a row that the log does not know.
type RecordError struct {
	Index  int64
	Reason string
}

func (e *RecordError) Error() string { return fmt.Sprintf("control record %d %s", e.Index, e.Reason) }

// Apply applies the next record of the log; *RecordError.
func (s *State) Apply(index int64, timestamp string, payload []byte) error {
	var r record
	if err := json.Unmarshal(payload, &r); err != nil {
		return &RecordError{index, "cannot be read: " + err.Error()}
	}
	return s.apply(index, timestamp, &r)
}

func (s *State) apply(index int64, timestamp string, r *record) error {
	if r.CompanyID != s.companyID || r.Log != "control" {
		return &RecordError{index, fmt.Sprintf("is of company %q, log %q; it stands in the control log of %q", r.CompanyID, r.Log, s.companyID)}
	}
	if err := s.change(index, timestamp, r.ActionType, &r.Payload); err != nil {
		return &RecordError{index, fmt.Sprintf("(%s) %v", r.ActionType, err)}
	}
	return nil
}

// change applies one kind of change. What is not listed changes no row that the service obeys.
func (s *State) change(index int64, timestamp, action string, d *details) (err error) {
	switch action {
	case "company.registered":
		return s.registered(index, d)
	case "settings.changed":
		return s.changeSettings(timestamp, d)
	case "signing-key.rotated":
		return s.rotated(index, timestamp, d)
	case "api-key.created":
		return put(s.APIKeys, d.Fingerprint, index, d.credential)
	case "api-key.deleted":
		delete(s.APIKeys, d.Fingerprint)
	case "oauth-client.created":
		return put(s.Clients, d.ClientID, index, d.credential)
	case "oauth-client.deleted":
		delete(s.Clients, d.ClientID)
	case "agent.registered":
		disabledAt := s.Agents[d.AgentID].Row.DisabledAt
		s.Agents[s.shared(d.AgentID)] = Entry[Agent]{Agent{d.RegisteredAt, valueOf(d.MetadataHash), disabledAt}, index}
	case "agent.disabled", "agent.enabled":
		return s.agentChanged(index, action, d)
	case "passport.issued":
		return put(s.Passports, d.JTI, index, func() (Passport, error) {
			p, err := d.passport()
			p.AgentID, p.Scopes = s.shared(p.AgentID), s.shared(p.Scopes)
			return p, err
		})
	case "passport.revoked":
		return alter(s, s.Passports, d.JTI, index, func(p *Passport) { p.RevokedAt, p.Reason = d.RevokedAt, TextOf(d.Reason) })
	case "webhook.created":
		return put(s.Webhooks, d.WebhookID, index, func() (Webhook, error) {
			return Webhook{URLHash: d.URLHash, Agents: list(d.Agents), Actions: list(d.Actions), Fingerprint: d.Fingerprint, MadeBy: d.by()}, nil
		})
	case "webhook.deleted":
		delete(s.Webhooks, d.WebhookID)
	case "webhook.enabled":
		return alter(s, s.Webhooks, d.WebhookID, index, func(h *Webhook) { h.Disabled = "" })
	case "webhook.disabled":
		return alter(s, s.Webhooks, d.WebhookID, index, func(h *Webhook) { h.Disabled = valueOf(d.Reason) })
	case "webhook.secret-rotated":
		return alter(s, s.Webhooks, d.WebhookID, index, func(h *Webhook) { h.Fingerprint = d.Fingerprint })
	case "agent-key.enrolled":
		err := put(s.AgentKeys, d.Thumbprint, index, d.agentKey)
		if err == nil && d.Enrolment != nil {
			err = s.spend(*d.Enrolment, d.Thumbprint, index)
		}
		return err
	case "agent-key.revoked":
		return alter(s, s.AgentKeys, d.Thumbprint, index, func(k *AgentKey) { k.RevokedAt = d.RevokedAt })
	case "token-key.created":
		return put(s.TokenKeys, d.KID, index, d.tokenKey)
	case "token-key.ended":
		return alter(s, s.TokenKeys, d.KID, index, func(k *TokenKey) { k.EndedAt, k.Compromised = d.EndedAt, d.Compromised })
	case "enrolment.created":
		return put(s.Enrolments, d.Fingerprint, index, d.enrolment)
	case "federation.created":
		return put(s.Federations, d.Federation, index, d.federation)
	case "federation.deleted":
		delete(s.Federations, d.Federation)
	case "agent.policy-changed", "company.policy-changed":
		switch {
		case d.Subject == subjectCompanyPolicy:
			s.CompanyPolicies[""] = Entry[CompanyPolicy]{d.companyPolicy(), index}
		case d.Subject == subjectDecisions:
			s.DecisionPolicies[""] = Entry[DecisionPolicy]{d.decisionPolicy(), index}
		case d.Subject == subjectChanges:
			s.ChangePolicies[""] = Entry[ChangePolicy]{d.changePolicy(), index}
		case strings.HasPrefix(d.Subject, subjectAgentGroups):
			s.Groups[d.AgentID] = Entry[AgentGroups]{d.agentGroups(), index}
		default:
			s.Policies[d.AgentID] = Entry[Policy]{Policy{d.Attest}, index}
		}
	case "policy.put", "policy.deleted":
		return s.putCedar(index, action, d)
	case "person.created", "person.changed", "person.deleted", "passkey.enrolled", "passkey.revoked", "invitation.created":
		return s.changePeople(index, action, d)
	case "company.suspended", "company.resumed":
		s.Suspensions[""] = Entry[Suspension]{d.suspension(), index}
	case "company.quota-changed":
		s.Quotas[""] = Entry[Quota]{d.quota(), index}
	case RowAdopted, RowAccepted:
		return s.set(index, d)
	case TablesAdopted, TablesAccepted:
		return s.adopt(index, timestamp, action, d)
	}
	return nil
}

const milliseconds = "2006-01-02T15:04:05.000Z"

// shared returns one copy of a text that many rows repeat.
func (s *State) shared(text string) string {
	if known, is := s.texts[text]; is {
		return known
	}
	s.texts[text] = text
	return text
}
