package attestd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"attestd/crypto/dpop"
)

// EnrolledKey is a public key of an agent.
type EnrolledKey struct {
	Thumbprint string          `json:"thumbprint"` // RFC 7638
	AgentID    string          `json:"agentId"`
	Algorithm  string          `json:"alg"` // EdDSA or ES256
	Label      string          `json:"label,omitempty"`
	CreatedAt  string          `json:"createdAt"`
	ExpiresAt  string          `json:"expiresAt,omitempty"` // "" never
	RevokedAt  string          `json:"revokedAt,omitempty"` // "" while it is not
	JWK        json.RawMessage `json:"jwk"`
	// Log is the origin of the company's log of actions, for [IdentityConfig].Log; only in the
	// answer to the enrolment.
	Log string `json:"log,omitempty"`
}

// NewEnrolledKey is the request to enrol a key.
type NewEnrolledKey struct {
	Label     string // for people
	ExpiresAt string // 2026-03-02T09:00:00.000Z; "" never
}

// EnrolKey makes a key an agent's, and proves possession of it. The credential is an admin's, an
// enrolment token of the agent ([Key]), or the agent itself: then its present key endorses this
// one, so that a verifier that knows the present key knows the next.
func (c *Client) EnrolKey(ctx context.Context, agentID string, key *AgentKey, n NewEnrolledKey) (made EnrolledKey, err error) {
	body := struct {
		JWK         json.RawMessage `json:"jwk"`
		Label       string          `json:"label,omitempty"`
		ExpiresAt   string          `json:"expiresAt,omitempty"`
		Proof       string          `json:"proof,omitempty"`
		Endorsement string          `json:"endorsement,omitempty"`
	}{JWK: key.JWK(), Label: n.Label, ExpiresAt: n.ExpiresAt}
	r := request{method: http.MethodPost, route: "/v1/agents/{agentId}/keys", path: []string{agentID}, status: http.StatusCreated}
	identity, itself := c.credential.(*Identity)
	if itself {
		// to hear first which log the service has
		if _, err := identity.bearer(ctx, c, ""); err != nil {
			return made, &CredentialError{err}
		}
		if body.Endorsement, err = identity.endorse(ctx, key); err != nil {
			return made, err
		}
	}
	// a proof counts once, so each attempt makes another
	r.proves = func(ctx context.Context, r *request) error {
		proof, err := dpop.Make(ctx, key.signer, dpop.Request{Method: r.method, URL: r.target(c.base), Nonce: r.nonce}, time.Now())
		if err != nil {
			return err
		}
		if itself && identity.config.DPoP { // then the header proves the present key
			body.Proof = proof
		} else {
			r.header = http.Header{"Dpop": {proof}}
		}
		r.body, err = json.Marshal(body)
		return err
	}
	err = c.do(ctx, r, &made)
	if err == nil && itself {
		identity.addKnown(made.Thumbprint)
	}
	return made, err
}

// AgentKeys lists the keys of an agent in the order of their enrolment, revoked ones too.
func (c *Client) AgentKeys(ctx context.Context, agentID string) ([]EnrolledKey, error) {
	list, _, err := c.agentKeys(ctx, agentID)
	return list, err
}

// agentKeys lists the keys of an agent, and returns the origin of the log that the service names
// beside them; "" where it names none.
func (c *Client) agentKeys(ctx context.Context, agentID string) (list []EnrolledKey, log string, err error) {
	var answer struct {
		Keys []EnrolledKey
		Log  string
	}
	err = c.get(ctx, "/v1/agents/{agentId}/keys", nil, &answer, agentID)
	return answer.Keys, answer.Log, err
}

// KeyRevocation says why a key of an agent is revoked. Both may be "".
type KeyRevocation struct {
	Reason string `json:"reason,omitempty"` // for people
	// Since is from when on the key was in other hands: 2026-03-02T09:00:00.000Z. Every verdict on
	// what was recorded since then says so.
	Since string `json:"since,omitempty"`
}

// RevokeAgentKey revokes a key of an agent for good.
func (c *Client) RevokeAgentKey(ctx context.Context, agentID, thumbprint string, why KeyRevocation) (k EnrolledKey, err error) {
	r := request{
		method: http.MethodDelete, route: "/v1/agents/{agentId}/keys/{thumbprint}", path: []string{agentID, thumbprint}, status: http.StatusOK,
	}
	if why != (KeyRevocation{}) {
		if r.body, err = json.Marshal(why); err != nil {
			return k, err
		}
	}
	err = c.do(ctx, r, &k)
	return k, err
}

// NewEnrolment is the request for an enrolment token.
type NewEnrolment struct {
	ExpiresIn int64  `json:"expiresIn,omitempty"` // seconds; 0 is 600
	Label     string `json:"label,omitempty"`     // for people
}

// Enrolment is a token with which an agent enrols one key. It is shown once.
type Enrolment struct {
	Token     string `json:"token"`
	ExpiresAt string `json:"expiresAt"`
}

// Format prints a placeholder instead of the token.
func (e Enrolment) Format(s fmt.State, _ rune) {
	_, _ = io.WriteString(s, "(enrolment until "+e.ExpiresAt+")")
}

// CreateEnrolment makes a token with which an agent enrols one key.
func (c *Client) CreateEnrolment(ctx context.Context, agentID string, n NewEnrolment) (e Enrolment, err error) {
	err = c.post(ctx, "/v1/agents/{agentId}/enrolments", http.StatusCreated, n, &e, agentID)
	return e, err
}

// EnrolmentInfo is what an enrolment token allows.
type EnrolmentInfo struct {
	AgentID   string `json:"agentId"`
	SPIFFEID  string `json:"spiffeId"` // of the agent
	CompanyID string `json:"companyId"`
	ExpiresAt string `json:"expiresAt"`
	Log       string `json:"log,omitempty"` // origin of the company's log of actions
}

// Enrolment returns what the client's credential, an enrolment token, allows.
func (c *Client) Enrolment(ctx context.Context) (e EnrolmentInfo, err error) {
	err = c.get(ctx, "/v1/enrolment", nil, &e)
	return e, err
}

// AttestPolicy says what may be recorded in an agent's name: "any" of a credential with the right
// to attest, or with "key" only what a key of the agent has signed.
type AttestPolicy string

// The two policies.
const (
	AttestAny AttestPolicy = "any"
	AttestKey AttestPolicy = "key"
)

// SetAgentPolicy sets the policy of an agent. The stricter one of agent and company holds.
func (c *Client) SetAgentPolicy(ctx context.Context, agentID string, p AttestPolicy) error {
	return c.put(ctx, "/v1/agents/{agentId}/policy", map[string]AttestPolicy{"attest": p}, nil, agentID)
}

// SetAgentGroups sets the groups of an agent, which policies name as Group::"…", in place of those
// before.
func (c *Client) SetAgentGroups(ctx context.Context, agentID string, groups []string) error {
	if groups == nil {
		groups = []string{}
	}
	return c.put(ctx, "/v1/agents/{agentId}/policy", map[string][]string{"groups": groups}, nil, agentID)
}

// SetCompanyPolicy sets the policy of the company, for all its agents. It leaves the audiences of
// exchanges as they are.
func (c *Client) SetCompanyPolicy(ctx context.Context, p AttestPolicy) error {
	return c.put(ctx, "/v1/company/policy", map[string]AttestPolicy{"attest": p}, nil)
}

// RecordDecisions sets which decisions of the company become records where no record of the agent
// holds them: "denied" or "all".
func (c *Client) RecordDecisions(ctx context.Context, which string) error {
	return c.put(ctx, "/v1/company/policy", map[string]string{"decisions": which}, nil)
}

// SetExchangeAudiences names all audiences for which tokens of the company may be exchanged, in
// place of those that were named before: https URLs, and other names. Those who take such a token
// must read its act, which says who presents it, or refuse it.
func (c *Client) SetExchangeAudiences(ctx context.Context, audiences []string) error {
	if audiences == nil {
		audiences = []string{}
	}
	return c.put(ctx, "/v1/company/policy", map[string][]string{"exchangeAudiences": audiences}, nil)
}

// SessionInfo describes a session of an agent.
type SessionInfo struct {
	AgentID string     `json:"agentId"`
	Kind    string     `json:"kind"`   // statement, hook, mcp, run or telemetry
	Source  string     `json:"source"` // what recorded it, as its first record says; may be ""
	KeyID   string     `json:"kid"`    // thumbprint; "" unless Kind is statement
	ID      string     `json:"sid"`
	First   int64      `json:"first"`
	Last    int64      `json:"last"`
	FirstAt string     `json:"firstAt"`
	LastAt  string     `json:"lastAt"`
	Records int64      `json:"records"`
	State   string     `json:"state"`   // sealed, open, gap, unproven, pruned or disobeyed
	Ended   bool       `json:"ended"`   // its last record says that it is the last
	Missing [][2]int64 `json:"missing"` // the first ranges of places without a record

	// what State would be if no call had disobeyed a refusal; "" for another State
	Completeness string `json:"completeness"`
	// the first calls that were refused and ran all the same
	Disobeyed []DisobeyedCall `json:"disobeyed"`
}

// DisobeyedCall is a call of a tool that was refused and ran all the same.
type DisobeyedCall struct {
	Refused int64  `json:"refused"` // index of the record that refused it
	Done    int64  `json:"done"`    // index of the record of its outcome
	Tool    string `json:"tool"`    // may be ""
}

// Sessions returns the sessions of an agent, or with "" of all. It fetches one page at a time.
func (c *Client) Sessions(ctx context.Context, agentID string) iter.Seq2[SessionInfo, error] {
	return pages(func(cursor string) ([]SessionInfo, string, error) {
		var page struct {
			Sessions []SessionInfo
			Next     string
		}
		err := c.get(ctx, "/v1/sessions", pageQuery(cursor, "agentId", agentID, "limit", "100"), &page)
		return page.Sessions, page.Next, err
	})
}

// SessionRecords returns the records of a session in the order of the log. It fetches one page at a
// time.
func (c *Client) SessionRecords(ctx context.Context, s SessionInfo) iter.Seq2[Record, error] {
	return pages(func(from string) ([]Record, string, error) {
		query := url.Values{}
		for name, value := range map[string]string{"kind": s.Kind, "kid": s.KeyID, "from": from} {
			if value != "" {
				query.Set(name, value)
			}
		}
		var page struct {
			Records []Record
			Next    int64
		}
		err := c.get(ctx, "/v1/sessions/{agentId}/{sid}/records", query, &page, s.AgentID, s.ID)
		if page.Next == 0 {
			return page.Records, "", err
		}
		return page.Records, strconv.FormatInt(page.Next, 10), err
	})
}

// SessionEvidence returns the evidence file of a session, which `attestd check` checks. Of a
// session without statements that is a report of its time. kid is the thumbprint of its key; "" if
// one key alone has used the ID, or none. The caller MUST close it.
func (c *Client) SessionEvidence(ctx context.Context, agentID, id, kid string) (io.ReadCloser, error) {
	query := url.Values{}
	if kid != "" {
		query.Set("kid", kid)
	}
	return c.open(ctx, request{method: http.MethodGet, route: "/v1/sessions/{agentId}/{sid}", path: []string{agentID, id}, query: query, status: http.StatusOK})
}

// errNoToken reports an answer of the token endpoint that is of no use.
var errNoToken = errors.New("the answer holds no token of the kind that was asked for")

// assertionType is that of RFC 7523 §2.2.
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// AgentToken gets an access token for an agent's assertion (RFC 7523). [Identity] does so
// automatically. proof is a DPoP proof, to which the token is bound, or "".
func (c *Client) AgentToken(ctx context.Context, assertion, proof string) (t Token, err error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_assertion_type": {assertionType}, "client_assertion": {assertion}}
	r := request{
		method: http.MethodPost, route: "/v1/oauth/token", public: true, status: http.StatusOK,
		body: []byte(form.Encode()), contentType: "application/x-www-form-urlencoded",
	}
	want := "bearer"
	if proof != "" {
		r.header, want = http.Header{"Dpop": {proof}}, "dpop"
	}
	err = c.do(ctx, r, &t)
	if err == nil && (t.AccessToken == "" || !strings.EqualFold(t.TokenType, want)) {
		err = errNoToken
	}
	return t, err
}
