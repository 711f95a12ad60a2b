package projection

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// Latest is the newest control record about one row. It is what a row is held against when it is
// loaded, long before all of the log is replayed. A nil one stands for a row that no record tells
// of.
type Latest struct {
	Index     int64
	Timestamp string
	record
}

// Read reads a control record of a company.
func Read(companyID string, index int64, timestamp string, payload []byte) (*Latest, error) {
	l := &Latest{Index: index, Timestamp: timestamp}
	if err := json.Unmarshal(payload, &l.record); err != nil {
		return nil, &RecordError{index, "cannot be read: " + err.Error()}
	}
	if l.CompanyID != companyID || l.Log != "control" {
		return nil, &RecordError{index, fmt.Sprintf("is of company %q, log %q; it stands in the control log of %q", l.CompanyID, l.Log, companyID)}
	}
	return l, nil
}

// Action is the actionType of the record.
func (l *Latest) Action() string { return l.ActionType }

// row reads the whole row that an adoption or an operator's decision holds; is says whether the
// record is one, gone whether there is none.
func row[R any](l *Latest) (r R, gone, is bool, err error) {
	if l.ActionType != RowAdopted && l.ActionType != RowAccepted {
		return r, false, false, nil
	}
	if string(l.Payload.Row) == "null" {
		return r, true, true, nil
	}
	err = json.Unmarshal(l.Payload.Row, &r)
	return r, false, true, err
}

// against compares a row with the record: with the whole row that it holds, or with what wants says
// of other records. gone says that the record took the row away.
func against[R comparable](l *Latest, table, name string, has R, wants func(*details) (want R, gone bool, err error)) *Difference {
	if l == nil {
		return unrecorded(table, name, has)
	}
	want, gone, is, err := row[R](l)
	if !is && err == nil {
		want, gone, err = wants(&l.Payload)
	}
	return l.compare(table, name, gone, err, func() *Difference { return differs(table, name, has, Entry[R]{want, l.Index}) })
}

// againstOrNone is against for a row that may be missing, for which absent stands.
func againstOrNone[R comparable](l *Latest, table, name string, has, absent R, wants func(*details) R) *Difference {
	if l == nil && has == absent {
		return nil
	}
	if l != nil && string(l.Payload.Row) == "null" && (l.ActionType == RowAdopted || l.ActionType == RowAccepted) {
		return differs(table, name, has, Entry[R]{absent, l.Index})
	}
	return against(l, table, name, has, func(d *details) (R, bool, error) { return wants(d), false, nil })
}

// Credential compares an API key or an OAuth client.
func (l *Latest) Credential(table, name string, has Credential) *Difference {
	return against(l, table, name, has, func(d *details) (Credential, bool, error) {
		want, err := d.credential()
		return want, l.ActionType != "api-key.created" && l.ActionType != "oauth-client.created", err
	})
}

// Agent compares whether an agent is there, and since when it is disabled: all that holds it back.
func (l *Latest) Agent(id string, registered bool, disabledAt string) *Difference {
	type state struct {
		Registered bool   `json:"registered"`
		DisabledAt string `json:"disabledAt"`
	}
	has := state{registered, disabledAt}
	switch {
	case l == nil && !registered:
		return nil
	case l == nil:
		return unrecorded(TableAgent, id, has)
	}
	want := state{true, l.Payload.DisabledAt} // which only agent.disabled has
	accepted, gone, is, err := row[Agent](l)
	if is {
		want = state{!gone, accepted.DisabledAt}
	}
	return l.compare(TableAgent, id, false, err, func() *Difference { return differs(TableAgent, id, has, Entry[state]{want, l.Index}) })
}

// Passport compares a passport; disabled is the first disabling of its agent after l, nil for none.
func (l *Latest) Passport(jti string, has Passport, disabled *Latest) *Difference {
	if l == nil {
		return unrecorded(TablePassport, jti, has)
	}
	want, gone, is, err := row[Passport](l)
	switch {
	case err != nil || is:
	case l.ActionType == "passport.issued":
		want, err = l.Payload.passport()
	case l.ActionType == "passport.revoked":
		// it says no more, and nobody asks more of what is revoked
		want = has
		want.AgentID, want.RevokedAt, want.Reason = l.Payload.AgentID, l.Payload.RevokedAt, TextOf(l.Payload.Reason)
	default:
		gone = true
	}
	index := l.Index
	if err == nil && disabled != nil && want.RevokedAt == "" {
		at, timeErr := time.Parse(time.RFC3339, disabled.Payload.DisabledAt)
		err = timeErr
		if has.RevokedAt != "" || want.ExpiresAt > at.Unix() {
			want.RevokedAt, want.Reason, index = disabled.Payload.DisabledAt, Text{DisabledReason, true}, disabled.Index
		}
	}
	return l.compare(TablePassport, jti, gone, err, func() *Difference { return differs(TablePassport, jti, has, Entry[Passport]{want, index}) })
}

// AgentKey compares a key of an agent. The record of a revocation says no more than that, and more
// is asked of no key that is revoked.
func (l *Latest) AgentKey(thumbprint string, has AgentKey) *Difference {
	return against(l, TableAgentKey, thumbprint, has, func(d *details) (want AgentKey, gone bool, err error) {
		switch l.ActionType {
		case "agent-key.enrolled":
			want, err = d.agentKey()
		case "agent-key.revoked":
			want = has
			want.AgentID, want.RevokedAt = d.AgentID, d.RevokedAt
		default:
			gone = true
		}
		return want, gone, err
	})
}

// TokenKey compares a token key. The record of its end says no more than that: its name says which
// key it is, and when it began is compared by the replay.
func (l *Latest) TokenKey(kid string, has TokenKey) *Difference {
	return against(l, TableTokenKey, kid, has, func(d *details) (want TokenKey, gone bool, err error) {
		switch l.ActionType {
		case "token-key.created":
			want, err = d.tokenKey()
		case "token-key.ended":
			want = has
			want.EndedAt, want.Compromised = d.EndedAt, d.Compromised
		default:
			gone = true
		}
		return want, gone, err
	})
}

// Enrolment compares an enrolment, all but whether it was spent: that is said by the record of the
// key, and the replay compares it.
func (l *Latest) Enrolment(fingerprint string, has Enrolment) *Difference {
	if l == nil {
		return unrecorded(TableEnrolment, fingerprint, has)
	}
	want, gone, is, err := row[Enrolment](l)
	if !is && err == nil {
		want, err = l.Payload.enrolment()
	}
	want.Key = has.Key
	return l.compare(TableEnrolment, fingerprint, gone, err, func() *Difference { return differs(TableEnrolment, fingerprint, has, Entry[Enrolment]{want, l.Index}) })
}

// Federation compares a federation.
func (l *Latest) Federation(name string, has Federation) *Difference {
	return against(l, TableFederation, name, has, func(d *details) (Federation, bool, error) {
		want, err := d.federation()
		return want, l.ActionType != "federation.created", err
	})
}

// Policy compares a policy; the zero one stands for a row that is missing.
func (l *Latest) Policy(agentID string, has Policy) *Difference {
	return againstOrNone(l, TablePolicy, agentID, has, Policy{}, func(d *details) Policy { return Policy{d.Attest} })
}

// CompanyPolicy compares the policy of the company that is beside that of its agents; the zero one
// stands for a row that is missing.
func (l *Latest) CompanyPolicy(has CompanyPolicy) *Difference {
	return againstOrNone(l, TableCompanyPolicy, "", has, CompanyPolicy{}, (*details).companyPolicy)
}

// Suspension compares a suspension; the zero one stands for a row that is missing.
func (l *Latest) Suspension(has Suspension) *Difference {
	return againstOrNone(l, TableSuspension, "", has, Suspension{}, (*details).suspension)
}

func (l *Latest) suspension() (Suspension, error) {
	want, _, is, err := row[Suspension](l)
	if !is {
		want = l.Payload.suspension()
	}
	return want, err
}

// Suspends reports whether the record says that the company is suspended. One that cannot be read
// does.
func (l *Latest) Suspends() bool {
	if l == nil {
		return false
	}
	want, err := l.suspension()
	return err != nil || want.SuspendedAt != ""
}

// Quota compares a quota; the server's stands for a row that is missing.
func (l *Latest) Quota(has Quota) *Difference {
	return againstOrNone(l, TableQuota, "", has, Quota{ServersQuota, ServersQuota}, (*details).quota)
}

func (l *Latest) quota() (Quota, error) {
	want, gone, is, err := row[Quota](l)
	switch {
	case !is:
		want = l.Payload.quota()
	case gone:
		want = Quota{ServersQuota, ServersQuota}
	}
	return want, err
}

// Quotas returns the quota that the record says: the server's where it says none, or cannot be
// read.
func (l *Latest) Quotas() Quota {
	if l != nil {
		if want, err := l.quota(); err == nil {
			return want
		}
	}
	return Quota{ServersQuota, ServersQuota}
}

// Company compares the row of a company with its registration, or with what was adopted or accepted
// of it since.
func (l *Latest) Company(has Company) *Difference {
	want, err := l.company()
	return l.compare(TableCompany, "", false, err, func() *Difference { return differs(TableCompany, "", has, Entry[Company]{want, l.Index}) })
}

func (l *Latest) company() (want Company, err error) {
	if l.ActionType != "company.registered" {
		err = json.Unmarshal(l.Payload.Row, &want)
		return want, err
	}
	want = Company{RegisteredAt: l.Payload.RegisteredAt, MetadataHash: valueOf(l.Payload.MetadataHash)}
	want.Actions, want.Control, err = l.Payload.origins()
	return want, err
}

// Tells says whether a log that has this record about its company tells of every row.
func (l *Latest) Tells() bool {
	return l != nil && (l.ActionType == "company.registered" || l.ActionType == TablesAdopted || l.ActionType == TablesAccepted)
}

// KeyOrigin is what the record that brought a signing key says of it, and of the key before.
type KeyOrigin struct {
	Fingerprint string
	// the row as it was adopted; nil for a key that a registration or a rotation brought
	Adopted *SigningKey
	// when the key before ended: at the latest, where Exact does not hold; "" where nobody knows
	PreviousEnded string
	Exact         bool
	Compromised   bool // the rotation was one after a theft
}

// KeyOrigin reads the record that brought a signing key.
func (l *Latest) KeyOrigin() (o KeyOrigin, err error) {
	adopted, _, is, err := row[SigningKey](l)
	if is {
		return KeyOrigin{Fingerprint: l.Payload.Name, Adopted: &adopted}, err
	}
	o = KeyOrigin{Fingerprint: l.Payload.Fingerprint, PreviousEnded: l.Payload.EndedAt, Exact: true, Compromised: l.Payload.Compromised}
	if o.PreviousEnded == "" {
		o.PreviousEnded, o.Exact = l.Timestamp, false
	}
	return o, nil
}

// compare returns what a comparison says, unless there is nothing to compare with.
func (l *Latest) compare(table, name string, gone bool, err error, compare func() *Difference) *Difference {
	switch {
	case err != nil:
		return &Difference{Table: table, Row: name, Index: l.Index, What: fmt.Sprintf("control record %d cannot be read: %v", l.Index, err)}
	case gone:
		return &Difference{Table: table, Row: name, Index: l.Index, What: fmt.Sprintf("is there, and control record %d (%s) took it away", l.Index, l.ActionType)}
	}
	return compare()
}
