package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"attestd/crypto/keys"
	"attestd/server/httpapi"
	"attestd/store"
)

// PublicKeys are the public keys of companies, as anybody may read them.
type PublicKeys struct {
	API     *httpapi.API
	Store   *store.Store
	Version string
}

const cacheHour = "public, max-age=3600"

// companyQuery is a request about the company in the query.
type companyQuery struct {
	CompanyID string `query:"companyId"`
	*http.Request
}

// companyOf returns the company of a discovery request.
func (s *PublicKeys) companyOf(ctx context.Context, r companyQuery) (*store.Company, error) {
	if r.CompanyID == "" {
		return nil, httpapi.Fail(http.StatusBadRequest, "Missing required query parameter: companyId")
	}
	company, err := s.Store.Companies.Get(ctx, r.CompanyID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, httpapi.Fail(http.StatusNotFound, "Company not found: "+r.CompanyID)
	}
	return company, err
}

type publicKeyBody struct {
	CompanyID   string     `json:"companyId"`
	SPIFFEID    string     `json:"spiffeId"`
	KID         string     `json:"kid"`
	PEM         string     `json:"pem"`
	JWK         keys.JWK   `json:"jwk"`
	Fingerprint string     `json:"fingerprint"`
	Keys        []keys.JWK `json:"keys"` // makes the whole response a JWK set
}

func (publicKeyBody) SetHeader(h http.Header) { h.Set("Cache-Control", cacheHour) }

func (s *PublicKeys) Current(ctx context.Context, by store.Caller, r companyQuery) (publicKeyBody, error) {
	company, err := s.companyOf(ctx, r)
	if err != nil {
		return publicKeyBody{}, err
	}
	public := company.Issuer.Public
	return publicKeyBody{
		company.ID, company.Issuer.CompanyID(), public.KID, public.PEM, public.JWK, public.Fingerprint, jwks(company, by.At),
	}, nil
}

// passportFormat is part of the discovery document.
type passportFormat struct {
	Version                 int    `json:"version"`
	TokenType               string `json:"token_type"`
	Audience                string `json:"audience"`
	ClaimsNamespace         string `json:"claims_namespace"`
	ScopeFormat             string `json:"scope_format"`
	ScopeWildcardsSupported bool   `json:"scope_wildcards_supported"`
}

// discovery is the discovery document of a company.
type discovery struct {
	Issuer                            string         `json:"issuer"`
	JWKSURI                           string         `json:"jwks_uri"`
	TokenEndpoint                     string         `json:"token_endpoint"`
	IDTokenSigningAlgValuesSupported  []string       `json:"id_token_signing_alg_values_supported"`
	ResponseTypesSupported            []string       `json:"response_types_supported"`
	TokenEndpointAuthMethodsSupported []string       `json:"token_endpoint_auth_methods_supported"`
	CompanyID                         string         `json:"company_id"`
	CompanySPIFFEID                   string         `json:"company_spiffe_id"`
	TrustDomain                       string         `json:"trust_domain"`
	AlgorithmsSupported               []string       `json:"algorithms_supported"`
	KeyType                           string         `json:"key_type"`
	Curve                             string         `json:"curve"`
	KID                               string         `json:"kid"`
	Fingerprint                       string         `json:"fingerprint"`
	Keys                              []keys.JWK     `json:"keys"`
	PassportFormat                    passportFormat `json:"passport_format"`
	ServiceVersion                    string         `json:"service_version"`

	inferred bool // the URLs in it are those of the request
}

// SetHeader prevents a shared cache from returning one caller's URLs to another: inferred ones
// depend on the Host.
func (d discovery) SetHeader(h http.Header) {
	h.Set("Cache-Control", cacheHour)
	if d.inferred {
		h.Set("Vary", "Host, X-Forwarded-Proto")
	}
}

func (s *PublicKeys) WellKnown(ctx context.Context, by store.Caller, r companyQuery) (discovery, error) {
	company, err := s.companyOf(ctx, r)
	if err != nil {
		return discovery{}, err
	}
	issuer, public := company.Issuer, company.Issuer.Public
	base := s.API.RequestBase(r.Request)
	return discovery{
		Issuer:                            issuer.Domain.Issuer(),
		JWKSURI:                           base + "/v1/ca/public-key?companyId=" + url.QueryEscape(company.ID),
		TokenEndpoint:                     base + "/v1/oauth/token",
		IDTokenSigningAlgValuesSupported:  []string{"EdDSA"},
		ResponseTypesSupported:            []string{"token"},
		TokenEndpointAuthMethodsSupported: []string{"client_secret_post", "client_secret_basic"},
		CompanyID:                         company.ID,
		CompanySPIFFEID:                   issuer.CompanyID(),
		TrustDomain:                       issuer.Domain.TrustDomain,
		AlgorithmsSupported:               []string{"EdDSA"},
		KeyType:                           "OKP",
		Curve:                             "Ed25519",
		KID:                               public.KID,
		Fingerprint:                       public.Fingerprint,
		Keys:                              jwks(company, by.At),
		PassportFormat: passportFormat{
			Version: 1, TokenType: "CAP+JWT", Audience: issuer.Domain.PassportAudience(),
			ClaimsNamespace: issuer.Domain.Service, ScopeFormat: "category:name", ScopeWildcardsSupported: true,
		},
		ServiceVersion: s.Version,
		inferred:       s.API.BaseURL == "",
	}, nil
}
