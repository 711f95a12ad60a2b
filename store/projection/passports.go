package projection

import (
	"time"

	"github.com/go-json-experiment/json"
)

// TablePassport is the table as differences and records name it.
const TablePassport = "passport"

// Passport is an issued passport. Times are Unix seconds.
type Passport struct {
	AgentID   string `json:"agentId"`
	Scopes    string `json:"scopes"` // a JSON array
	IssuedAt  int64  `json:"issuedAt"`
	ExpiresAt int64  `json:"expiresAt"`
	RevokedAt string `json:"revokedAt"` // "" while valid
	Reason    Text   `json:"reason"`
	JKT       string `json:"jkt,omitempty"` // thumbprint of the key that it is bound to, or ""
	// authorization details, a JSON array, or ""
	Details string `json:"authorizationDetails,omitempty"`
}

func (d *details) passport() (p Passport, err error) {
	p = Passport{AgentID: d.AgentID, Scopes: string(d.Scopes), IssuedAt: d.IssuedAt, JKT: d.JKT, Details: string(d.AuthorizationDetails)}
	err = json.Unmarshal(d.ExpiresAt, &p.ExpiresAt)
	return p, err
}

// DisabledReason is the reason of the revocations that come with an agent's disabling.
const DisabledReason = "the agent was disabled"

// Passport returns the row that a passport must have, and reports whether it may also be unrevoked:
// when its agent was disabled, it had expired.
func (s *State) Passport(jti string) (e Entry[Passport], orUnrevoked, is bool) {
	e, is = s.Passports[jti]
	if !is || e.Row.RevokedAt != "" {
		return e, false, is
	}
	for _, d := range s.disabled[e.Row.AgentID] {
		if d.index > e.Index {
			e.Row.RevokedAt, e.Row.Reason, e.Index = d.at, Text{DisabledReason, true}, d.index
			return e, e.Row.ExpiresAt <= d.unix, true
		}
	}
	return e, false, true
}

// passport takes a passport.
func (c Comparison) passport(jti string, has Passport) *Difference {
	want, orUnrevoked, is := c.state.Passport(jti)
	if is && orUnrevoked && has.RevokedAt == "" {
		want.Row.RevokedAt, want.Row.Reason = "", Text{}
	}
	switch {
	case is:
		c.state.Passports[jti] = want
	case c.state.adopted && has.ExpiresAt <= c.state.adoptedAt:
		return nil // expired rows need no adoption
	}
	return c.state.Passports.take(TablePassport, jti, has)
}

// PassportsGone returns a Unix time: a passport that expired by then may be gone from its table: a
// day before the newest record of its company. So whether a row may be missing follows from the
// logs alone, regardless of clocks.
func PassportsGone(newest time.Time) int64 { return newest.Add(-24 * time.Hour).Unix() }

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
		// it has no more details, and a revoked row needs none
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
