package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Passports are issued, rotated, verified and revoked.
type Passports struct{ Passports *service.Passports }

type issuePassportRequest struct {
	AgentID string          `path:"agentId"`
	Scopes  []string        `json:"scopes" must:"scopes"`
	Details details.Details `json:"authorizationDetails" must:"details"`
	TTL     int64           `json:"ttl" must:"number 1..86400" default:"3600"`
	JKT     string          `json:"jkt" must:"thumbprint"`
}

func (s *Passports) Issue(ctx context.Context, by store.Caller, r issuePassportRequest) (service.Passport, error) {
	return s.Passports.Issue(ctx, by, r.AgentID, r.Scopes, r.Details, r.JKT, time.Duration(r.TTL)*time.Second)
}

type rotatePassportRequest struct {
	AgentID string `path:"agentId"`
	*http.Request
}

// Rotate reads the passport from the header with the service's name, or from
// Attestd-Passport, which is always accepted.
func (s *Passports) Rotate(
	ctx context.Context, by store.Caller, r rotatePassportRequest,
) (service.Passport, error) {
	// for example Service-Passport for the service name "service"
	header := by.Company.Issuer.Domain.Title() + "-Passport"
	presented := cmp.Or(r.Header.Get(header), r.Header.Get("Attestd-Passport"))
	if given := len(r.Header.Values(header)); given > 1 || header != "Attestd-Passport" && given+
		len(r.Header.Values("Attestd-Passport")) > 1 {
		return service.Passport{}, httpapi.GivenTwice(header)
	}
	if presented == "" {
		return service.Passport{}, httpapi.Fail(http.StatusBadRequest, "Missing "+header+" passport header")
	}
	return s.Passports.Rotate(ctx, by, r.AgentID, presented)
}

type verifyPassportRequest struct {
	Passport jsontext.Value `json:"passport" must:"checked"`
	Tool     jsontext.Value `json:"tool"`
	// of the call of the tool, any JSON
	Arguments jsontext.Value `json:"arguments"`
	// of a passport that is bound to a key: the DPoP proof that came with it, and the method and
	// URL of the request that it came with
	Proof jsontext.Value `json:"proof"`
	HTM   jsontext.Value `json:"htm"`
	HTU   jsontext.Value `json:"htu"`
}

// Verify returns every reason to reject a passport, including an invalid request, in one
// format.
func (s *Passports) Verify(
	ctx context.Context, by store.Caller, r verifyPassportRequest,
) (service.VerifiedPassport, error) {
	token, _ := httpapi.AsText(r.Passport)
	var asked *string
	if tool, given := httpapi.AsText(r.Tool); given {
		asked = &tool
	} else if !httpapi.IsAbsent(r.Tool) {
		return service.VerifiedPassport{}, invalidPassport(cred.CodeVerificationError, "tool must be a non-empty string")
	}
	var call service.ToolCall
	if !httpapi.IsAbsent(r.Arguments) {
		if asked == nil {
			return service.VerifiedPassport{}, invalidPassport(cred.CodeVerificationError, "arguments are those of a call: send its tool too")
		}
		call.Arguments = r.Arguments
	}
	for _, m := range []struct {
		name  string
		value jsontext.Value
		into  *string
	}{{"proof", r.Proof, &call.Proof}, {"htm", r.HTM, &call.Method}, {"htu", r.HTU, &call.URL}} {
		var given bool
		if *m.into, given = httpapi.AsText(m.value); !given && !httpapi.IsAbsent(m.value) {
			return service.VerifiedPassport{}, invalidPassport(cred.CodeVerificationError, m.name+" must be a non-empty string")
		}
	}
	verified, err := s.Passports.Verify(ctx, by, token, asked, call)
	var refused *service.Error
	if errors.As(err, &refused) {
		err = invalidPassport(refused.Code, refused.Message)
	}
	return verified, err
}

// invalidPassport is the response for a passport that does not verify.
func invalidPassport(code, message string) error {
	return &httpapi.Error{Status: http.StatusBadRequest, Message: message, Body: struct {
		Valid bool   `json:"valid"`
		Error string `json:"error"`
		Code  string `json:"code"`
	}{false, message, code}}
}

type passportsRequest struct {
	Limit  int    `query:"limit" must:"number 1..1000" default:"100"`
	Cursor string `query:"cursor"`
	Agent  string `query:"agent"`
	Status string `query:"status" must:"oneof valid revoked expired"`
}

// List is an addition to the specification: a page of issued passports, newest first.
func (s *Passports) List(
	ctx context.Context, by store.Caller, r passportsRequest,
) (httpapi.List[service.PassportItem], error) {
	found, rest, err := s.Passports.List(ctx, by, store.PassportFilter{AgentID: r.Agent, Status: r.Status}, r.Cursor)
	return httpapi.List[service.PassportItem]{
		Name: "passports", Items: found,
		Most: r.Limit, Next: func(p service.PassportItem) string { return p.Cursor }, Rest: rest,
	}, err
}
