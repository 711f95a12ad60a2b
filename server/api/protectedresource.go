package api

import (
	"context"
	"net/http"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// protectedResource is the metadata of this API as a resource (RFC 9728 §2): of one company, or of
// the server, which has no authorization server of its own.
type protectedResource struct {
	Resource       string   `json:"resource"`
	Servers        []string `json:"authorization_servers,omitempty"`
	JWKSURI        string   `json:"jwks_uri,omitempty"`
	Scopes         []string `json:"scopes_supported"`
	Methods        []string `json:"bearer_methods_supported"`
	DPoPAlgorithms []string `json:"dpop_signing_alg_values_supported"`
	Name           string   `json:"resource_name"`

	inferred bool // the URLs in it are those of the request, as far as they are the server's
}

func (p protectedResource) SetHeader(h http.Header) { cacheIssuer(h, p.inferred) }

type serverResourceRequest struct{ *http.Request }

func (s *Issuers) ServerResource(_ context.Context, _ store.Caller, r serverResourceRequest) (protectedResource, error) {
	base := s.API.OwnBase(r.Request)
	if base == "" {
		return protectedResource{}, httpapi.Misdirected()
	}
	return protectedResource{
		Resource: base, Scopes: httpapi.ScopesSupported, Methods: []string{"header"},
		DPoPAlgorithms: []string{"ES256", "EdDSA", "Ed25519"}, Name: "attestd", inferred: s.API.BaseURL == "",
	}, nil
}

func (s *Issuers) CompanyResource(ctx context.Context, by store.Caller, r issuerRequest) (protectedResource, error) {
	by, err := s.issuerOf(ctx, by, r.CompanyID)
	if err != nil {
		return protectedResource{}, err
	}
	p, err := s.ServerResource(ctx, by, serverResourceRequest{r.Request})
	issuer := service.IssuerOf(p.Resource, by.Company.ID)
	p.Resource, p.Servers, p.JWKSURI = issuer, []string{issuer}, issuer+"/jwks"
	return p, err
}

// ownResources are the names under which this API is a resource for a company: those that the
// metadata have as resource, where the name in the request is the server's. URL libraries write the
// one without a path with a slash.
func ownResources(c *httpapi.Call, companyID string) []string {
	base := c.OwnBase()
	if base == "" {
		return nil
	}
	return []string{service.IssuerOf(base, companyID), base, base + "/"}
}
