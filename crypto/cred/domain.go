// Package cred issues and checks the three kinds of token of a company: JWT-SVIDs, delegation
// tokens and passports.
//
// All are JWTs in compact form (RFC 7519, RFC 7515), signed with Ed25519 (RFC 8037) by the key of
// the company, with a header of exactly alg, kid and typ:
//
//	SVID        typ JWT      {"iss","sub","aud":[service],"iat","nbf","exp","jti"}
//	delegation  typ JWT      the same and "act":{"sub","act":{…}}, and "scope" where one was given
//	passport    typ CAP+JWT  {"iss","sub","aud":[service:passport:v1],"jti","iat","nbf","exp",
//	                          service:{"v":1,"agentId","org","orgSpiffeId","scopes":[…],"delegationChain":[…]}}
//
// Each may have "authorization_details" (package details) too, which limit what its scopes allow.
//
// One key signs every kind, so each check requires the typ, the audience and the claims of its own
// kind. From the outside in, act names the principals from the one after the subject to the
// proximate actor, which holds the token.
package cred

import (
	"errors"
	"strings"
)

// Domain has the trust domain and the service's name on the wire, which all tokens of a service
// share. The zero value is invalid.
type Domain struct {
	TrustDomain string // see DefaultTrustDomain
	Service     string // e.g. service
}

// Check refuses a trust domain outside [a-z0-9._-]{1,255} and a service name outside
// ^[a-z][a-z0-9]{1,31}$, or a reserved one: the name is the prefix of API keys (where oauth_ and
// cc_ have another meaning) and a claim of passports.
func (d Domain) Check() error {
	if n := len(d.TrustDomain); n < 1 || n > 255 || !only(d.TrustDomain, isTrustDomainByte) {
		return errors.New("the trust domain must be 1 to 255 characters of a-z, 0-9, '.', '_' and '-'")
	}
	s := d.Service
	if len(s) < 2 || len(s) > 32 || s[0] < 'a' || s[0] > 'z' || !only(s, isServiceByte) {
		return errors.New("the service name must be a letter a-z and then 1 to 31 characters of a-z and 0-9")
	}
	switch s {
	case "oauth", "cc", "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "act", "scope", "cnf":
		return errors.New("the service name must not be " + s + ", which has another meaning in keys or tokens")
	}
	return nil
}

// DefaultTrustDomain is the trust domain of services that were given none. So it names no single
// one of them.
const DefaultTrustDomain = "attestd.local"

// Issuer is the CA issuer, spiffe://{td}/ca.
func (d Domain) Issuer() string { return "spiffe://" + d.TrustDomain + "/ca" }

// CompanyID is the SPIFFE ID of a company, spiffe://{td}/company/{company}. company must pass
// CheckSegment.
func (d Domain) CompanyID(company string) string {
	return "spiffe://" + d.TrustDomain + "/company/" + company
}

// AgentID is the SPIFFE ID of an agent, spiffe://{td}/company/{company}/agent/{agent}. Both must
// pass CheckSegment.
func (d Domain) AgentID(company, agent string) string {
	return "spiffe://" + d.TrustDomain + "/company/" + company + "/agent/" + agent
}

// SplitAgentID returns the company and the agent of the SPIFFE ID of an agent of this trust domain.
func (d Domain) SplitAgentID(id string) (company, agent string, ok bool) {
	company, agent, ok = d.splitID(id)
	return company, agent, ok && agent != ""
}

// PassportAudience is the aud of passports, service:passport:v1 for a service named service.
func (d Domain) PassportAudience() string { return d.Service + ":passport:v1" }

// ReceiptType is the type of receipts, ServiceAttestationReceipt for a service named service.
func (d Domain) ReceiptType() string { return d.Title() + "AttestationReceipt" }

// Title is the service's name with a capital, Service for a service named service.
func (d Domain) Title() string {
	if d.Service == "" {
		return ""
	}
	return strings.ToUpper(d.Service[:1]) + d.Service[1:]
}

// splitID parses a SPIFFE ID of this trust domain; agent is "" in the ID of a company.
func (d Domain) splitID(id string) (company, agent string, ok bool) {
	id, ok1 := strings.CutPrefix(id, "spiffe://")
	id, ok2 := strings.CutPrefix(id, d.TrustDomain)
	id, ok3 := strings.CutPrefix(id, "/company/")
	if !ok1 || !ok2 || !ok3 {
		return "", "", false
	}
	company, agent, isAgent := strings.Cut(id, "/agent/")
	if !isSegment(company) || isAgent && !isSegment(agent) {
		return "", "", false
	}
	return company, agent, true
}

// IsID reports whether a text is the SPIFFE ID of a company of this trust domain, or of an agent.
func (d Domain) IsID(id string) bool {
	_, _, ok := d.splitID(id)
	return ok
}

// CheckSegment returns an error unless s is a valid SPIFFE path segment: [A-Za-z0-9._-]{1,128}, not
// "." or "..". The error lists the allowed characters.
func CheckSegment(s string) error {
	if !isSegment(s) {
		return errors.New(`must be 1 to 128 characters of A-Z, a-z, 0-9, '.', '_' and '-', and not "." or ".."`)
	}
	return nil
}

func isSegment(s string) bool {
	return len(s) >= 1 && len(s) <= 128 && s != "." && s != ".." && only(s, isSegmentByte)
}

func only(s string, allowed func(byte) bool) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func isServiceByte(c byte) bool     { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
func isTrustDomainByte(c byte) bool { return isServiceByte(c) || c == '.' || c == '_' || c == '-' }
func isSegmentByte(c byte) bool     { return isTrustDomainByte(c) || 'A' <= c && c <= 'Z' }
