package attestd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"attestd/internal/bounded"
)

// IssuerMetadata is the metadata of a company's issuer (RFC 8414 and OpenID Connect Discovery).
type IssuerMetadata struct {
	Issuer                 string   `json:"issuer"`
	JWKSURI                string   `json:"jwks_uri"`
	TokenEndpoint          string   `json:"token_endpoint"`
	GrantTypes             []string `json:"grant_types_supported"`
	AuthMethods            []string `json:"token_endpoint_auth_methods_supported"`
	DPoPAlgorithms         []string `json:"dpop_signing_alg_values_supported"`
	IDTokenAlgorithms      []string `json:"id_token_signing_alg_values_supported"`
	AuthorizationEndpoint  string   `json:"authorization_endpoint"` // answers 400
	ResponseTypesSupported []string `json:"response_types_supported"`
}

// IssuerMetadata returns the metadata of a company's issuer, from the place of RFC 8414.
func (c *Client) IssuerMetadata(ctx context.Context, companyID string) (m IssuerMetadata, err error) {
	err = c.get(ctx, "/.well-known/oauth-authorization-server/o/{companyId}", nil, &m, companyID)
	return m, err
}

// OpenIDMetadata returns the same from the place where RFC 8414 puts that of OpenID Connect.
func (c *Client) OpenIDMetadata(ctx context.Context, companyID string) (m IssuerMetadata, err error) {
	err = c.get(ctx, "/.well-known/openid-configuration/o/{companyId}", nil, &m, companyID)
	return m, err
}

// OpenIDConfiguration returns the same from the place of OpenID Connect Discovery.
func (c *Client) OpenIDConfiguration(ctx context.Context, companyID string) (m IssuerMetadata, err error) {
	err = c.get(ctx, "/o/{companyId}/.well-known/openid-configuration", nil, &m, companyID)
	return m, err
}

// KeySet is a JWK set (RFC 7517).
type KeySet struct {
	Keys []json.RawMessage `json:"keys"`
}

// TokenKeys returns the keys with which the tokens of a company for others verify.
func (c *Client) TokenKeys(ctx context.Context, companyID string) (s KeySet, err error) {
	err = c.get(ctx, "/o/{companyId}/jwks", nil, &s, companyID)
	return s, err
}

// SPIFFEBundle is a SPIFFE bundle. It is one company's: a verifier that trusts it must also require
// that a SPIFFE ID begins with the path of that company.
type SPIFFEBundle struct {
	KeySet
	Sequence    int64 `json:"spiffe_sequence"`
	RefreshHint int   `json:"spiffe_refresh_hint"` // seconds
}

// SPIFFEBundle returns the bundle with which a company's JWT-SVIDs verify.
func (c *Client) SPIFFEBundle(ctx context.Context, companyID string) (b SPIFFEBundle, err error) {
	err = c.get(ctx, "/o/{companyId}/spiffe-bundle", nil, &b, companyID)
	return b, err
}

// AgentSVIDFor returns a JWT-SVID of an agent for an audience, for SPIFFE software. algorithm is
// ES256, RS256, or "" for the default.
func (c *Client) AgentSVIDFor(ctx context.Context, agentID, audience, algorithm string) (s SVID, err error) {
	q := url.Values{"audience": {audience}}
	if algorithm != "" {
		q.Set("alg", algorithm)
	}
	err = c.get(ctx, "/v1/agents/{agentId}/svid", q, &s, agentID)
	return s, err
}

// TokenRequest asks for a token that says to an audience who an agent is.
type TokenRequest struct {
	AgentID   string   // "" for the agent of an Identity
	Audience  []string // 1 to 10
	Algorithm string   // ES256, RS256 or EdDSA; "" for ES256
	Lifetime  time.Duration
}

// IssuedToken is a token for others: a JWT of the company's issuer.
type IssuedToken struct {
	Token     string `json:"token"`
	TokenType string `json:"tokenType"`
	ExpiresAt string `json:"expiresAt"`
}

// Format prints a placeholder instead of the token.
func (t IssuedToken) Format(s fmt.State, _ rune) { fmt.Fprint(s, "(token until "+t.ExpiresAt+")") }

// defaultTokenLife is the service's.
const defaultTokenLife = 5 * time.Minute

// CreateAgentToken gets a new token at each call; see [Client.Token].
func (c *Client) CreateAgentToken(ctx context.Context, r TokenRequest) (t IssuedToken, err error) {
	body := struct {
		Audience  []string `json:"audience"`
		Algorithm string   `json:"alg,omitempty"`
		TTL       int64    `json:"ttl,omitempty"`
	}{r.Audience, r.Algorithm, int64(r.Lifetime / time.Second)}
	raw, err := json.Marshal(body)
	if err == nil {
		err = c.do(ctx, request{method: http.MethodPost, route: "/v1/agents/{agentId}/token", path: []string{c.agentOf(r)},
			safe: true, status: http.StatusCreated, body: raw}, &t)
	}
	return t, err
}

func (c *Client) agentOf(r TokenRequest) string {
	if i, is := c.credential.(*Identity); is && r.AgentID == "" {
		return i.agentID
	}
	return r.AgentID
}

// Token returns a token for others that is valid for a while: the one that it got for the same
// request before, or a new one a minute before that ends. Of many calls at once, one asks the
// service. Call it for each use. Where the service gives no new one, the one before is returned
// while it is valid.
func (c *Client) Token(ctx context.Context, r TokenRequest) (IssuedToken, error) {
	r.AgentID = c.agentOf(r)
	name := strings.Join(append([]string{r.AgentID, r.Algorithm, r.Lifetime.String()}, r.Audience...), "\n")
	t := c.tokens.named(name)
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return IssuedToken{}, ctx.Err()
	}
	now := time.Now()
	if now.Before(t.renew) {
		return t.token, nil
	}
	made, err := c.CreateAgentToken(ctx, r)
	if err != nil {
		if now.Before(t.ends) && ctx.Err() == nil {
			return t.token, nil
		}
		return IssuedToken{}, err
	}
	life := r.Lifetime
	if life == 0 {
		life = defaultTokenLife
	}
	t.token, t.renew, t.ends = made, now.Add(life-min(early, life/2)), now.Add(life-min(5*time.Second, life/2))
	return made, nil
}

// issuedTokens remembers tokens for others by what was asked for.
type issuedTokens struct {
	mu     sync.Mutex
	byName *bounded.Map[string, *issuedToken]
}

// issuedToken is one of them; turn guards it.
type issuedToken struct {
	turn        chan struct{}
	token       IssuedToken
	renew, ends time.Time
}

// maxIssuedTokens bounds how many are remembered: a program has few audiences.
const maxIssuedTokens = 1000

func (s *issuedTokens) named(name string) *issuedToken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, is := s.byName.Get(name)
	if !is {
		if s.byName == nil {
			s.byName = bounded.NewMap[string, *issuedToken](maxIssuedTokens)
		}
		t = &issuedToken{turn: make(chan struct{}, 1)}
		s.byName.Put(name, t)
	}
	return t
}
