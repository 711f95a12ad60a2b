package projection

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// record is a control record as it is stored: the union of what the changes say, by the names that
// package store gives them.
type record struct {
	Log        string  `json:"log"`
	CompanyID  string  `json:"companyId"`
	ActionType string  `json:"actionType"`
	Payload    details `json:"payload"`
}

type details struct {
	Subject string  `json:"subject"`
	By      *string `json:"by"`

	Fingerprint  string                   `json:"fingerprint"`
	MetadataHash *string                  `json:"metadataHash"`
	RegisteredAt string                   `json:"registeredAt"`
	Settings     map[string]string        `json:"settings"`
	Logs         jsontext.Value           `json:"logs"`
	Changed      map[string]settingChange `json:"changed"`

	Role string `json:"role"`
	// of a grant a time or null, of a passport Unix seconds
	ExpiresAt jsontext.Value `json:"expiresAt"`
	ClientID  string         `json:"clientId"`
	JWKS      jsontext.Value `json:"jwks"`
	JWKSURI   string         `json:"jwksUri"`

	AgentID    string `json:"agentId"`
	DisabledAt string `json:"disabledAt"`

	JTI       string         `json:"jti"`
	Scopes    jsontext.Value `json:"scopes"`
	IssuedAt  int64          `json:"issuedAt"`
	RevokedAt string         `json:"revokedAt"`
	Reason    *string        `json:"reason"`
	Since     *string        `json:"since"` // from when a revoked key was in other hands
	JKT       string         `json:"jkt"`

	Compromised bool `json:"compromised"`
	// of a token key, or of the signing key before; older records do not say the latter
	EndedAt string `json:"endedAt"`

	WebhookID string         `json:"webhookId"`
	URLHash   string         `json:"urlHash"`
	Agents    jsontext.Value `json:"agents"`
	Actions   jsontext.Value `json:"actions"`

	Thumbprint string         `json:"thumbprint"`
	Version    int            `json:"statementVersion"` // 0 where it does not say
	JWK        jsontext.Value `json:"jwk"`
	Enrolment  *string        `json:"enrolment"`
	Attest     string         `json:"attest"`

	ExchangeAudiences jsontext.Value `json:"exchangeAudiences"`

	SuspendedAt string `json:"suspendedAt"`
	MaxRecords  *int64 `json:"maxRecords"`
	MaxBytes    *int64 `json:"maxBytes"`

	Federation string         `json:"federation"` // its name
	Issuer     string         `json:"issuer"`
	Audience   string         `json:"audience"`
	Rules      jsontext.Value `json:"rules"`

	KID       string `json:"kid"` // of a token key
	Algorithm string `json:"alg"`
	SignsFrom string `json:"signsFrom"`

	Table string         `json:"table"` // of a row that was adopted or accepted
	Name  string         `json:"name"`
	Row   jsontext.Value `json:"row"`
}

type settingChange struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

func (d *details) by() string {
	if d.By == nil {
		return ""
	}
	return *d.By
}

// list is JSON as text, "" for null.
func list(raw jsontext.Value) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// grantEnd is when a credential ends, "" for never.
func (d *details) grantEnd() (end string, err error) {
	if len(d.ExpiresAt) == 0 || string(d.ExpiresAt) == "null" {
		return "", nil
	}
	err = json.Unmarshal(d.ExpiresAt, &end)
	return end, err
}

func (d *details) credential() (Credential, error) {
	end, err := d.grantEnd()
	return Credential{Fingerprint: d.Fingerprint, Role: d.Role, ExpiresAt: end, MadeBy: d.by(), JWKS: string(d.JWKS), JWKSURI: d.JWKSURI}, err
}

func (d *details) passport() (p Passport, err error) {
	p = Passport{AgentID: d.AgentID, Scopes: string(d.Scopes), IssuedAt: d.IssuedAt, JKT: d.JKT}
	err = json.Unmarshal(d.ExpiresAt, &p.ExpiresAt)
	return p, err
}

func (d *details) agentKey() (AgentKey, error) {
	end, err := d.grantEnd()
	return AgentKey{AgentID: d.AgentID, JWK: string(d.JWK), ExpiresAt: end, StatementVersion: d.Version}, err
}

func (d *details) tokenKey() (TokenKey, error) {
	return TokenKey{Algorithm: d.Algorithm, JWK: string(d.JWK), SignsFrom: d.SignsFrom}, nil
}

func (d *details) federation() (Federation, error) {
	return Federation{Issuer: d.Issuer, Audience: d.Audience, JWKS: list(d.JWKS), JWKSURI: d.JWKSURI, Rules: string(d.Rules)}, nil
}

// subjectCompanyPolicy is of company.policy-changed where that is about CompanyPolicy. Without it
// the record is about a Policy.
const subjectCompanyPolicy = "company-policy"

func (d *details) companyPolicy() CompanyPolicy {
	return CompanyPolicy{ExchangeAudiences: list(d.ExchangeAudiences)}
}

func (d *details) suspension() Suspension {
	return Suspension{SuspendedAt: d.SuspendedAt, Reason: valueOf(d.Reason)}
}

func (d *details) quota() Quota {
	return Quota{orServers(d.MaxRecords), orServers(d.MaxBytes)}
}

func orServers(n *int64) int64 {
	if n == nil {
		return ServersQuota
	}
	return *n
}

func (d *details) enrolment() (Enrolment, error) {
	end, err := d.grantEnd()
	return Enrolment{AgentID: d.AgentID, ExpiresAt: end}, err
}

func (d *details) origins() (actions, control string, err error) {
	var origins struct {
		Actions string `json:"actions"`
		Control string `json:"control"`
	}
	if err := json.Unmarshal(d.Logs, &origins); err != nil {
		return "", "", fmt.Errorf("logs: %w", err)
	}
	return origins.Actions, origins.Control, nil
}

// TextOf is a column that is absent where s is nil.
func TextOf(s *string) Text {
	if s == nil {
		return Text{}
	}
	return Text{Value: *s, Set: true}
}

func valueOf(s *string) string { return TextOf(s).Value }
