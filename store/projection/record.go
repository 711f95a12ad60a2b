package projection

import (
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

	AuthorizationDetails jsontext.Value `json:"authorizationDetails"`

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
	Groups            jsontext.Value `json:"groups"`
	Decisions         string         `json:"decisions"`

	PolicyID    string  `json:"policyId"`
	SHA256      string  `json:"sha256"`
	Description *string `json:"description"`
	Revision    int64   `json:"revision"`
	Set         string  `json:"set"`

	PersonID  string         `json:"personId"`
	Email     *string        `json:"email"`
	Roles     jsontext.Value `json:"roles"`
	Subjects  jsontext.Value `json:"subjects"`
	CreatedAt string         `json:"createdAt"`
	Changes   string         `json:"changes"`

	CredentialID   string         `json:"credentialId"` // of a passkey
	PublicKey      string         `json:"publicKey"`
	COSEAlgorithm  int64          `json:"algorithm"`
	Transports     jsontext.Value `json:"transports"`
	BackupEligible bool           `json:"backupEligible"`
	BackedUp       bool           `json:"backedUp"`
	AAGUID         string         `json:"aaguid"`
	Invitation     *string        `json:"invitation"`

	ApprovalID string         `json:"approvalId"`
	Object     jsontext.Value `json:"object"` // what a passkey signed for an approval
	// of the assertion, in base64url
	AuthenticatorData string `json:"authenticatorData"`
	ClientDataJSON    string `json:"clientDataJSON"`
	Signature         string `json:"signature"`

	State     string `json:"state"`
	Remaining int64  `json:"remaining"`
	Until     string `json:"until"`

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

// TextOf is a column that is absent where s is nil.
func TextOf(s *string) Text {
	if s == nil {
		return Text{}
	}
	return Text{Value: *s, Set: true}
}

func valueOf(s *string) string { return TextOf(s).Value }
