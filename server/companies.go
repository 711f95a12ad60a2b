package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"attestd/crypto/cred"
	"attestd/store"
)

func (s *Server) createCompany(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	id, err := o.segment("companyId")
	if err != nil {
		return err
	}
	metadata, err := o.metadata()
	if err != nil {
		return err
	}
	company, bootstrap, err := s.Store.CreateCompany(c.Context(), id, metadata, c.now)
	if errors.Is(err, store.ErrExists) {
		return fail(http.StatusConflict, "Company already exists: "+id)
	}
	if err != nil {
		return err
	}
	return c.secret(http.StatusCreated, struct {
		CompanyID    string `json:"companyId"`
		SPIFFEID     string `json:"spiffeId"`
		RegisteredAt string `json:"registeredAt"`
		APIKey       string `json:"apiKey"`
	}{id, company.Issuer.CompanyID(), company.RegisteredAt, bootstrap.Key})
}

// segment returns a member that becomes one segment of a SPIFFE ID.
func (o object) segment(name string) (string, error) {
	value, err := o.need(name)
	if err != nil {
		return "", err
	}
	if err := cred.CheckSegment(value); err != nil {
		return "", fail(http.StatusBadRequest, "Missing or invalid field: "+name+": "+err.Error())
	}
	return value, nil
}

func (s *Server) getCompany(c *call) error {
	return c.json(http.StatusOK, struct {
		CompanyID    string          `json:"companyId"`
		SPIFFEID     string          `json:"spiffeId"`
		RegisteredAt string          `json:"registeredAt"`
		Metadata     json.RawMessage `json:"metadata,omitempty"`
	}{c.company.ID, c.company.Issuer.CompanyID(), c.company.RegisteredAt, c.company.Metadata})
}

func (s *Server) companySVID(c *call) error {
	id := c.company.Issuer.CompanyID()
	return c.secret(http.StatusOK, struct {
		CompanyID string `json:"companyId"`
		SPIFFEID  string `json:"spiffeId"`
		SVID      string `json:"svid"`
	}{c.company.ID, id, c.company.Issuer.SVID(id, c.now)})
}
