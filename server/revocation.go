package server

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/store"
)

// revocation is the revocation record of the specification.
type revocation struct {
	JTI       string  `json:"jti"`
	RevokedAt string  `json:"revokedAt"`
	Reason    *string `json:"reason,omitempty"`
}

func (s *Server) revokePassport(c *call) error {
	jti := strings.TrimSpace(c.PathValue("jti"))
	if jti == "" {
		return fail(http.StatusBadRequest, "Missing passport ID")
	}
	o, err := c.object()
	if err != nil {
		return err
	}
	reason, err := o.optional("reason")
	if err != nil {
		return err
	}
	p, err := s.Store.RevokePassport(c.Context(), c.company, jti, reason, c.now)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &apiError{Status: http.StatusNotFound, Message: "Passport not found: this company has issued none with that ID", Code: "PASSPORT_NOT_FOUND"}
	case errors.Is(err, store.ErrRevoked):
		return fail(http.StatusConflict, "Passport is already revoked")
	case err != nil:
		return err
	}
	return c.json(http.StatusOK, revocation{p.JTI, p.RevokedAt, p.Reason})
}

func (s *Server) revokedPassports(c *call) error {
	found, err := s.Store.RevokedPassports(c.Context(), c.company)
	if err != nil {
		return err
	}
	revoked := make([]revocation, len(found))
	for i, p := range found {
		revoked[i] = revocation{p.JTI, p.RevokedAt, p.Reason}
	}
	return c.json(http.StatusOK, map[string]any{"revoked": revoked})
}

// listPassports is an addition to the specification: a page of issued passports, the newest first.
func (s *Server) listPassports(c *call) error {
	limit, err := c.number("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	found, next, err := s.Store.Passports(c.Context(), c.company, c.query("cursor"), int(limit))
	if errors.Is(err, store.ErrNotFound) {
		return fail(http.StatusBadRequest, "Invalid query parameter: cursor must be the next of an earlier page")
	}
	if err != nil {
		return err
	}
	type item struct {
		JTI       string   `json:"jti"`
		AgentID   string   `json:"agentId"`
		Scopes    []string `json:"scopes"`
		IssuedAt  string   `json:"issuedAt"`
		ExpiresAt string   `json:"expiresAt"`
		Status    string   `json:"status"`
		RevokedAt string   `json:"revokedAt,omitempty"`
		Reason    *string  `json:"reason,omitempty"`
	}
	page := struct {
		Passports []item `json:"passports"`
		Next      string `json:"next,omitempty"`
	}{make([]item, len(found)), next}
	for i, p := range found {
		status := "valid"
		switch {
		case p.RevokedAt != "":
			status = "revoked"
		case p.ExpiresAt <= c.now.Unix():
			status = "expired"
		}
		page.Passports[i] = item{p.JTI, p.AgentID, p.Scopes, unixTime(p.IssuedAt), unixTime(p.ExpiresAt), status, p.RevokedAt, p.Reason}
	}
	return c.json(http.StatusOK, page)
}

// status is what an OCSP answer says. Its signature covers the canonical form of exactly these members.
type status struct {
	JTI       string  `json:"jti"`
	CompanyID string  `json:"companyId"`
	Status    string  `json:"status"` // valid, revoked or unknown
	CheckedAt string  `json:"checkedAt"`
	RevokedAt string  `json:"revokedAt,omitempty"`
	Reason    *string `json:"reason,omitempty"`
}

// ocsp answers with a signed status, which is never "valid" for what this company has not issued.
func (s *Server) ocsp(c *call) error {
	st := status{JTI: c.PathValue("jti"), CompanyID: c.company.ID, Status: "valid", CheckedAt: chain.FormatTime(c.now)}
	caching := "public, max-age=300"
	p, err := s.Store.Passport(c.Context(), c.company, st.JTI, c.now)
	switch {
	case errors.Is(err, store.ErrNotFound):
		st.Status, caching = "unknown", "no-store"
	case err != nil:
		return err
	case p.RevokedAt != "":
		st.Status, st.RevokedAt, st.Reason = "revoked", p.RevokedAt, p.Reason
	}
	signature, err := c.signStatus(st)
	if err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", caching)
	return c.json(http.StatusOK, struct {
		status
		CAPublicKey string `json:"caPublicKey"`
		Signature   string `json:"signature"`
	}{st, c.company.Issuer.Public.PEM, signature})
}

func (c *call) signStatus(st status) (string, error) {
	plain, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	canonical, err := jcs.Append(nil, plain, maxDepth)
	if err != nil {
		return "", err
	}
	return c.company.Issuer.Sign(sha256.Sum256(canonical)), nil
}
