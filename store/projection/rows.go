package projection

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
)

// Rows are those of one table, by their names.
type Rows[R comparable] map[string]Entry[R]

// rows is Rows of any type.
type rows interface {
	set(index int64, d *details, ofCompany bool) error
	take(table, name string, has any) *Difference
	left() iter.Seq2[string, int64]
}

// set enters a row as a record holds it whole: null for one that is gone.
func (rows Rows[R]) set(index int64, d *details, ofCompany bool) error {
	if string(d.Row) == "null" {
		delete(rows, d.Name)
		return nil
	}
	var row R
	err := json.Unmarshal(d.Row, &row)
	if err == nil && d.Name == "" && !ofCompany {
		err = fmt.Errorf("names no row")
	}
	if err == nil {
		rows[d.Name] = Entry[R]{row, index}
	}
	return err
}

// take compares a row with what the log says of it, and forgets that.
func (rows Rows[R]) take(table, name string, has any) *Difference {
	want, is := rows[name]
	delete(rows, name)
	row, isRow := has.(R)
	if !is || !isRow {
		return unrecorded(table, name, has)
	}
	return differs(table, name, row, want)
}

// left are the names of the rows that were not taken, with the indexes of the newest records about
// them.
func (rows Rows[R]) left() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			if !yield(name, rows[name].Index) {
				return
			}
		}
	}
}

// Text is a column that may be absent.
type Text struct {
	Value string `json:"value"`
	Set   bool   `json:"set"`
}

// Company is the row of the company itself.
type Company struct {
	RegisteredAt string `json:"registeredAt"`
	MetadataHash string `json:"metadataHash"` // SHA-256 in hex; "" for none
	Actions      string `json:"actions"`      // origin of the log
	Control      string `json:"control"`
}

// SigningKey is one of the keys that sign the company's records and tokens.
type SigningKey struct {
	Generation  int64  `json:"generation"`
	EndedAt     string `json:"endedAt"` // "" while it signs
	Compromised bool   `json:"compromised"`
}

// Credential is an API key, or an OAuth client.
type Credential struct {
	Fingerprint string `json:"fingerprint"`
	Role        string `json:"role"`
	ExpiresAt   string `json:"expiresAt"` // "" for never
	MadeBy      string `json:"madeBy"`    // "" for the bootstrap key
	// of an OAuth client with keys of its own: a JWK set in the form of RFC 8785, or its URL
	JWKS    string `json:"jwks,omitempty"`
	JWKSURI string `json:"jwksUri,omitempty"`
}

// Agent is a registered agent.
type Agent struct {
	RegisteredAt string `json:"registeredAt"`
	MetadataHash string `json:"metadataHash"`
	DisabledAt   string `json:"disabledAt"` // "" while enabled
}

// Passport is an issued passport. Times are Unix seconds.
type Passport struct {
	AgentID   string `json:"agentId"`
	Scopes    string `json:"scopes"` // a JSON array
	IssuedAt  int64  `json:"issuedAt"`
	ExpiresAt int64  `json:"expiresAt"`
	RevokedAt string `json:"revokedAt"` // "" while valid
	Reason    Text   `json:"reason"`
	JKT       string `json:"jkt,omitempty"` // thumbprint of the key that it is bound to, or ""
}

// Webhook is an endpoint to which records are sent.
type Webhook struct {
	URLHash     string `json:"urlHash"`
	Agents      string `json:"agents"` // a JSON array; "" for all
	Actions     string `json:"actions"`
	Fingerprint string `json:"fingerprint"` // of the secret that signs
	Disabled    string `json:"disabled"`    // the reason; "" while enabled
	MadeBy      string `json:"madeBy"`
}

// AgentKey is a public key of an agent.
type AgentKey struct {
	AgentID   string `json:"agentId"`
	JWK       string `json:"jwk"`       // in the form of RFC 7638
	ExpiresAt string `json:"expiresAt"` // "" for never
	RevokedAt string `json:"revokedAt"` // "" while it is not
	// the oldest version of statements that it may make; 0 for 1, of which older records say
	// nothing
	StatementVersion int `json:"statementVersion,omitempty"`
}

// TokenKey is a key with which the company signs tokens for others.
type TokenKey struct {
	Algorithm   string `json:"alg"`
	JWK         string `json:"jwk"` // in the form of RFC 7638
	SignsFrom   string `json:"signsFrom"`
	EndedAt     string `json:"endedAt"` // "" while no other follows it
	Compromised bool   `json:"compromised"`
}

// Enrolment is a token with which an agent enrols one key.
type Enrolment struct {
	AgentID   string `json:"agentId"`
	ExpiresAt string `json:"expiresAt"`
	Key       string `json:"key"` // thumbprint of the key; "" while it is not spent
}

// Federation is another issuer whose tokens the company trusts.
type Federation struct {
	Issuer   string `json:"issuer"`
	Audience string `json:"audience"`
	JWKS     string `json:"jwks"` // canonical JSON; "" where it is fetched
	JWKSURI  string `json:"jwksUri"`
	Rules    string `json:"rules"` // canonical JSON
}

// Policy says what may be recorded in an agent's name.
type Policy struct {
	Attest string `json:"attest"` // any or key; "" for any
}

// CompanyPolicy is what the company's admins have decided for the whole company, beside Policy.
type CompanyPolicy struct {
	// for which tokens may be exchanged: a JSON array in the form of RFC 8785; "" for none
	ExchangeAudiences string `json:"exchangeAudiences"`
}

// Suspension says whether an operator has suspended the company.
type Suspension struct {
	SuspendedAt string `json:"suspendedAt"` // "" while it is not
	Reason      string `json:"reason"`
}

// Quota is what an operator lets each log of the company have.
type Quota struct {
	MaxRecords int64 `json:"maxRecords"` // 0 for no bound, ServersQuota for that of the server
	MaxBytes   int64 `json:"maxBytes"`
}

// ServersQuota stands for the quota that a server has for companies without their own.
const ServersQuota = -1

// Entry is a row with the newest control record about it.
type Entry[R comparable] struct {
	Row   R
	Index int64 // of the record
}

// The tables, as differences and records name them.
const (
	TableCompany       = "company"
	TableSigningKey    = "company_key"
	TableAPIKey        = "api_key"
	TableClient        = "oauth_client"
	TableAgent         = "agent"
	TablePassport      = "passport"
	TableWebhook       = "webhook"
	TableAgentKey      = "agent_key"
	TableTokenKey      = "token_key"
	TableEnrolment     = "enrolment"
	TableFederation    = "federation"
	TablePolicy        = "attest_policy"
	TableCompanyPolicy = "company_policy"
	TableSuspension    = "company_suspension"
	TableQuota         = "company_quota"
	TableSetting       = "setting"
	// these follow from the records of the actions
	TableName    = "idempotency_key"
	TableSession = "agent_session"
	// access tokens, which have an HMAC in place of a record
	TableToken          = "oauth_token"
	TableFederatedToken = "federated_token"
)
