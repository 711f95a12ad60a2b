package server

import (
	"errors"
	"net/http"
	"net/url"

	"attestd/crypto/keys"
	"attestd/store"
)

const cacheHour = "public, max-age=3600"

// companyOfQuery finds the company that a discovery request asks about.
func (c *call) companyOfQuery() (*store.Company, error) {
	id := c.query("companyId")
	if id == "" {
		return nil, fail(http.StatusBadRequest, "Missing required query parameter: companyId")
	}
	company, err := c.s.Store.Company(c.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fail(http.StatusNotFound, "Company not found: "+id)
	}
	return company, err
}

func (s *Server) publicKey(c *call) error {
	company, err := c.companyOfQuery()
	if err != nil {
		return err
	}
	public := company.Issuer.Public
	c.w.Header().Set("Cache-Control", cacheHour)
	return c.json(http.StatusOK, struct {
		CompanyID   string     `json:"companyId"`
		SPIFFEID    string     `json:"spiffeId"`
		KID         string     `json:"kid"`
		PEM         string     `json:"pem"`
		JWK         keys.JWK   `json:"jwk"`
		Fingerprint string     `json:"fingerprint"`
		Keys        []keys.JWK `json:"keys"` // makes the whole answer a JWK set
	}{company.ID, company.Issuer.CompanyID(), public.KID, public.PEM, public.JWK, public.Fingerprint, []keys.JWK{public.JWK}})
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

func (s *Server) wellKnown(c *call) error {
	company, err := c.companyOfQuery()
	if err != nil {
		return err
	}
	issuer, public := company.Issuer, company.Issuer.Public
	c.w.Header().Set("Cache-Control", cacheHour)
	return c.json(http.StatusOK, struct {
		Issuer                            string         `json:"issuer"`
		JWKSURI                           string         `json:"jwks_uri"`
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
	}{
		Issuer:                            issuer.Domain.Issuer(),
		JWKSURI:                           c.baseURL() + "/v1/ca/public-key?companyId=" + url.QueryEscape(company.ID),
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
		Keys:                              []keys.JWK{public.JWK},
		PassportFormat: passportFormat{
			Version: 1, TokenType: "CAP+JWT", Audience: issuer.Domain.PassportAudience(),
			ClaimsNamespace: issuer.Domain.Service, ScopeFormat: "category:name", ScopeWildcardsSupported: true,
		},
		ServiceVersion: s.Version,
	})
}

// baseURL is the configured public address, or what the request says of it.
func (c *call) baseURL() string {
	if c.s.BaseURL != "" {
		return c.s.BaseURL
	}
	// An inferred address differs from one Host to the next: a shared cache must not hand one caller's to another.
	c.w.Header().Add("Vary", "Host, X-Forwarded-Proto")
	return forwardedProto(c.Request) + "://" + c.Host
}
