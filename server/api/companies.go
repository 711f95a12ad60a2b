package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// Companies are what a company is, how one is registered, and how its first key is recovered.
type Companies struct {
	API          *httpapi.API
	Store        *store.Store
	Agents       *service.Agents
	Hub          *stream.Hub
	Registration func() Registration

	MayRecover bool
}

type createCompanyRequest struct {
	CompanyID string          `json:"companyId" must:"segment"`
	Metadata  json.RawMessage `json:"metadata" must:"object"`
}

type companyCreated struct {
	CompanyID    string `json:"companyId"`
	SPIFFEID     string `json:"spiffeId"`
	RegisteredAt string `json:"registeredAt"`
	APIKey       string `json:"apiKey"`
}

func (s *Companies) Create(ctx context.Context, by store.Caller, r createCompanyRequest) (companyCreated, error) {
	company, bootstrap, err := s.Store.Companies.Create(ctx, r.CompanyID, r.Metadata, by.At)
	if errors.Is(err, store.ErrExists) {
		return companyCreated{}, httpapi.Fail(http.StatusConflict, "Company already exists: "+r.CompanyID)
	}
	if err != nil {
		return companyCreated{}, err
	}
	return companyCreated{r.CompanyID, company.Issuer.CompanyID(), company.RegisteredAt, bootstrap.Key}, nil
}

type companyBody struct {
	CompanyID    string          `json:"companyId"`
	SPIFFEID     string          `json:"spiffeId"`
	RegisteredAt string          `json:"registeredAt"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	// "" where Metadata is what was sent
	MetadataAsSent string      `json:"metadataAsSent,omitempty"`
	Suspended      *suspension `json:"suspended,omitempty"`
}

// suspension is an addition to the specification.
type suspension struct {
	Since  string `json:"since"`
	Reason string `json:"reason"`
}

func (s *Companies) Get(ctx context.Context, by store.Caller, _ httpapi.None) (companyBody, error) {
	metadata, err := s.Store.Companies.Metadata(ctx, by)
	body := companyBody{CompanyID: by.Company.ID, SPIFFEID: by.Company.Issuer.CompanyID(),
		RegisteredAt: by.Company.RegisteredAt, Metadata: metadata, MetadataAsSent: service.MetadataAsSent(metadata)}
	found, suspendedErr := s.Store.Companies.Suspension(ctx, by.Company)
	// One that was tampered with makes writes fail; this is no less readable for it.
	if suspendedErr == nil && found.At != "" {
		body.Suspended = &suspension{found.At, found.Reason}
	}
	return body, err
}

type companySVIDBody struct {
	CompanyID string `json:"companyId"`
	SPIFFEID  string `json:"spiffeId"`
	SVID      string `json:"svid"`
}

func (s *Companies) SVID(ctx context.Context, by store.Caller, _ httpapi.None) (companySVIDBody, error) {
	if err := s.Store.Tables.Changeable(ctx, by); err != nil {
		return companySVIDBody{}, err
	}
	id := by.Company.Issuer.CompanyID()
	svid, err := s.Agents.CompanySVID(by)
	return companySVIDBody{by.Company.ID, id, svid}, err
}
