package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/cred/details"
	"attestd/crypto/jcs"
	"attestd/crypto/tokenkey"
	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Issuers are the companies as issuers of tokens for others.
type Issuers struct {
	API     *httpapi.API
	Store   *store.Store
	Issuers *service.Issuers
	Agents  *service.Agents
}

// cacheFiveMinutes is for what verifiers read of an issuer: a key is published longer than that
// before it signs.
const cacheFiveMinutes = "public, max-age=300"

// Header values of the documents of issuers, which are shared; see httpapi.noStore.
var (
	fiveMinutes  = []string{cacheFiveMinutes}
	hostAndProto = []string{"Host, X-Forwarded-Proto"}
)

// issuerRequest is a request about a company's issuer.
type issuerRequest struct {
	CompanyID string `path:"companyId"`
	*http.Request
}

// issuerOf returns the company of such a request as the one that is asked, without a credential.
func (s *Issuers) issuerOf(ctx context.Context, by store.Caller, companyID string) (store.Caller, error) {
	company, err := s.Store.Companies.Get(ctx, companyID)
	if errors.Is(err, store.ErrNotFound) {
		return by, httpapi.Fail(http.StatusNotFound, "Company not found: "+companyID)
	}
	return store.Caller{Company: company, At: by.At}, err
}

// issuerMetadata is the metadata of a company's issuer, for clients of RFC 8414 and of OpenID
// Connect Discovery alike.
type issuerMetadata struct {
	Issuer                 string   `json:"issuer"`
	JWKSURI                string   `json:"jwks_uri"`
	TokenEndpoint          string   `json:"token_endpoint"`
	IntrospectionEndpoint  string   `json:"introspection_endpoint"`
	RevocationEndpoint     string   `json:"revocation_endpoint"`
	AuthorizationEndpoint  string   `json:"authorization_endpoint"`
	ResponseTypesSupported []string `json:"response_types_supported"`
	GrantTypesSupported    []string `json:"grant_types_supported"`
	GrantProfiles          []string `json:"authorization_grant_profiles_supported"`
	AuthMethodsSupported   []string `json:"token_endpoint_auth_methods_supported"`
	AuthAlgorithms         []string `json:"token_endpoint_auth_signing_alg_values_supported"`
	IntrospectionMethods   []string `json:"introspection_endpoint_auth_methods_supported"`
	IntrospectionAlgs      []string `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	RevocationMethods      []string `json:"revocation_endpoint_auth_methods_supported"`
	RevocationAlgs         []string `json:"revocation_endpoint_auth_signing_alg_values_supported"`
	ScopesSupported        []string `json:"scopes_supported"`
	CodeChallengeMethods   []string `json:"code_challenge_methods_supported"`
	DPoPAlgorithms         []string `json:"dpop_signing_alg_values_supported"`
	IDTokenAlgorithms      []string `json:"id_token_signing_alg_values_supported"`
	SubjectTypesSupported  []string `json:"subject_types_supported"`
	ClaimsSupported        []string `json:"claims_supported"`
	DetailTypes            []string `json:"authorization_details_types_supported"` // RFC 9396 §10
}

// metadataOf returns the metadata. Clients of MCP demand an authorization endpoint and the methods
// of PKCE, and those of OpenID Connect a response type, although there is no sign-in with a browser
// here: see authorize.
func metadataOf(issuer string) issuerMetadata {
	methods, algorithms := []string{"client_secret_basic", "client_secret_post", "private_key_jwt"}, assertion.ClientAlgorithms
	return issuerMetadata{
		Issuer:                 issuer,
		JWKSURI:                issuer + "/jwks",
		TokenEndpoint:          issuer + "/token",
		IntrospectionEndpoint:  issuer + "/introspect",
		RevocationEndpoint:     issuer + "/revoke",
		AuthorizationEndpoint:  issuer + "/authorize",
		ResponseTypesSupported: []string{"id_token"},
		GrantTypesSupported:    []string{"client_credentials", jwtBearer, tokenExchange},
		GrantProfiles:          []string{"urn:ietf:params:oauth:grant-profile:id-jag"},
		AuthMethodsSupported:   methods,
		AuthAlgorithms:         algorithms,
		IntrospectionMethods:   methods,
		IntrospectionAlgs:      algorithms,
		RevocationMethods:      methods,
		RevocationAlgs:         algorithms,
		ScopesSupported:        httpapi.ScopesSupported,
		CodeChallengeMethods:   []string{"S256"},
		DPoPAlgorithms:         []string{"ES256", "EdDSA", "Ed25519"},
		IDTokenAlgorithms:      tokenkey.Algorithms,
		SubjectTypesSupported:  []string{"public"},
		ClaimsSupported:        []string{"iss", "sub", "aud", "iat", "nbf", "exp", "jti", "agent_id", "org", "cnf"},
		DetailTypes:            []string{details.Type},
	}
}

// issuerDocument is the text of an issuerMetadata. Verifiers fetch it often, so it is joined from
// metadataPieces.
type issuerDocument struct {
	text     []byte
	inferred bool // the URLs in it are those of the request, as far as they are the server's
}

func (d issuerDocument) SetHeader(h http.Header) { cacheIssuer(h, d.inferred) }

func (d issuerDocument) WriteTo(c *httpapi.Call, status int) error { return c.Bytes(status, d.text) }

// cacheIssuer is for a document about an issuer. Inferred URLs differ by the name in the request.
func cacheIssuer(h http.Header, inferred bool) {
	h["Cache-Control"] = fiveMinutes
	if inferred {
		h["Vary"] = hostAndProto
	}
}

// metadataPieces are the texts between the places of the issuer in its metadata.
var metadataPieces = func() [][]byte {
	const place = "issuer:" // nothing else in it
	var text bytes.Buffer
	if err := httpapi.EncodeJSON(&text, metadataOf(place)); err != nil {
		panic(err)
	}
	return bytes.Split(text.Bytes(), []byte(place))
}()

func (s *Issuers) Metadata(ctx context.Context, by store.Caller, r issuerRequest) (issuerDocument, error) {
	by, err := s.issuerOf(ctx, by, r.CompanyID)
	if err != nil {
		return issuerDocument{}, err
	}
	issuer, err := s.API.OwnIssuer(r.Request, by.Company.ID)
	if err != nil {
		return issuerDocument{}, err
	}
	var space [256]byte
	quoted := jcs.AppendString(space[:0], issuer)
	return issuerDocument{bytes.Join(metadataPieces, quoted[1:len(quoted)-1]), s.API.BaseURL == ""}, nil
}

type authorizeRequest struct {
	CompanyID string `path:"companyId"`
}

// Authorize is named by the metadata and gives nothing: agents get tokens at the token endpoint.
func (s *Issuers) Authorize(ctx context.Context, by store.Caller, r authorizeRequest) (httpapi.None, error) {
	if _, err := s.issuerOf(ctx, by, r.CompanyID); err != nil {
		return httpapi.None{}, err
	}
	return httpapi.None{}, httpapi.Fail(http.StatusBadRequest, "unsupported_response_type")
}

// keySet is the text of a JWK set (RFC 7517 §5), perhaps with more members, which is shared.
type keySet []byte

func (keySet) SetHeader(h http.Header) { cacheIssuer(h, false) }

func (s keySet) WriteTo(c *httpapi.Call, status int) error { return c.Bytes(status, s) }

func (s *Issuers) Keys(ctx context.Context, by store.Caller, r authorizeRequest) (keySet, error) {
	set, err := s.published(ctx, by, r.CompanyID)
	if err != nil {
		return nil, err
	}
	return set.JWKS(), nil
}

func (s *Issuers) published(ctx context.Context, by store.Caller, companyID string) (*tokenkey.Set, error) {
	by, err := s.issuerOf(ctx, by, companyID)
	if err != nil {
		return nil, err
	}
	return s.Issuers.KeySet(ctx, by)
}

func (s *Issuers) Bundle(ctx context.Context, by store.Caller, r authorizeRequest) (keySet, error) {
	set, err := s.published(ctx, by, r.CompanyID)
	if err != nil {
		return nil, err
	}
	return set.Bundle(), nil
}

type agentTokenRequest struct {
	AgentID   string   `path:"agentId"`
	Audience  []string `json:"audience" must:"audience"`
	TTL       int      `json:"ttl" must:"number 1..3600" default:"300"`
	Algorithm string   `json:"alg" must:"signed"`
	*http.Request
}

func (s *Issuers) AgentToken(ctx context.Context, by store.Caller, r agentTokenRequest) (service.AgentToken, error) {
	issuer, err := s.API.OwnIssuer(r.Request, by.Company.ID)
	if err != nil {
		return service.AgentToken{}, err
	}
	return s.Issuers.Token(ctx, by, service.AgentTokenRequest{
		AgentID: r.AgentID, Issuer: issuer, Audience: r.Audience,
		Algorithm: cmp.Or(r.Algorithm, tokenkey.ES256), TTL: time.Duration(r.TTL) * time.Second,
	})
}

type agentSVIDRequest struct {
	AgentID   string `path:"agentId"`
	Audience  string `query:"audience" must:"given"`
	Algorithm string `query:"alg" must:"given"`
	*http.Request
}

// AgentSVID issues the SVID of the specification, or for an audience one that SPIFFE software
// accepts.
func (s *Issuers) AgentSVID(ctx context.Context, by store.Caller, r agentSVIDRequest) (service.AgentSVID, error) {
	query := r.URL.Query()
	switch {
	case !query.Has("audience") && !query.Has("alg"):
		return s.Agents.SVID(ctx, by, r.AgentID)
	case r.Audience == "" || len(query["audience"]) > 1 || !httpapi.IsAudience(r.Audience):
		return service.AgentSVID{}, httpapi.BadQuery("audience must be one audience" + httpapi.AudienceForm)
	}
	issuer, err := s.API.OwnIssuer(r.Request, by.Company.ID)
	if err != nil {
		return service.AgentSVID{}, err
	}
	return s.Issuers.SVID(ctx, by, service.AgentTokenRequest{
		AgentID: r.AgentID, Issuer: issuer, Audience: []string{r.Audience},
		Algorithm: cmp.Or(r.Algorithm, tokenkey.ES256),
	})
}
