package cred

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"attestd/crypto/cred/details"
	"attestd/crypto/jcs"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
)

// PassportVersion is the v of the namespaced claims.
const PassportVersion = 1

// PassportClaims are the claims of a CAP+JWT. MarshalJSON writes them exactly as they are in the
// token, the namespaced object under the service's own name.
type PassportClaims struct {
	Issuer    string
	Subject   string // SPIFFE ID of the agent
	Audience  []string
	ID        string // jti
	IssuedAt  int64  // Unix seconds, as the other times
	NotBefore int64
	ExpiresAt int64
	JKT       string // cnf.jkt: thumbprint of the key that the passport is bound to, or ""
	Namespace string // key of the namespaced object

	AgentID         string
	Org             string // companyId
	OrgSPIFFEID     string
	Scopes          []string
	DelegationChain []string // the last is Subject

	// authorization_details (RFC 9396 §9.1): with which arguments, beside the scopes
	Details details.Details
}

// MarshalJSON writes the claims in the order of the token.
func (c PassportClaims) MarshalJSON() ([]byte, error) { return c.append(make([]byte, 0, 768)), nil }

func (c PassportClaims) append(dst []byte) []byte {
	dst = jcs.AppendString(append(dst, `{"iss":`...), c.Issuer)
	dst = jcs.AppendString(append(dst, `,"sub":`...), c.Subject)
	dst = appendStrings(append(dst, `,"aud":`...), c.Audience)
	dst = jcs.AppendString(append(dst, `,"jti":`...), c.ID)
	dst = strconv.AppendInt(append(dst, `,"iat":`...), c.IssuedAt, 10)
	dst = strconv.AppendInt(append(dst, `,"nbf":`...), c.NotBefore, 10)
	dst = strconv.AppendInt(append(dst, `,"exp":`...), c.ExpiresAt, 10)
	if c.JKT != "" {
		dst = append(jcs.AppendString(append(dst, `,"cnf":{"jkt":`...), c.JKT), '}')
	}
	dst = appendDetails(dst, c.Details)
	dst = jcs.AppendString(append(dst, ','), c.Namespace)
	dst = strconv.AppendInt(append(dst, `:{"v":`...), PassportVersion, 10)
	dst = jcs.AppendString(append(dst, `,"agentId":`...), c.AgentID)
	dst = jcs.AppendString(append(dst, `,"org":`...), c.Org)
	dst = jcs.AppendString(append(dst, `,"orgSpiffeId":`...), c.OrgSPIFFEID)
	dst = appendStrings(append(dst, `,"scopes":`...), c.Scopes)
	dst = appendStrings(append(dst, `,"delegationChain":`...), c.DelegationChain)
	return append(dst, "}}"...)
}

// Passport issues a CAP+JWT for an agent of the company. agent MUST pass CheckSegment, scopes MUST
// pass CheckScopes, and ttl, which is what the passport lasts at most, MUST be whole seconds from 1
// to MaxPassportTTL. chain nil means [company, agent]; another chain MUST end in the agent. jkt is
// the thumbprint of the key that the passport is bound to, or "". The only error (type *Error) is a
// token over the size limit.
func (i *Issuer) Passport(agent string, scopes, chain []string, jkt string, ttl time.Duration, now time.Time) (token string, c PassportClaims, err error) {
	sub := i.AgentID(agent)
	if chain == nil {
		chain = []string{i.companyID, sub}
	}
	at := now.Unix()
	c = PassportClaims{
		Issuer:          i.issuer,
		Subject:         sub,
		Audience:        []string{i.passportAud},
		ID:              NewID(),
		IssuedAt:        at,
		NotBefore:       at,
		ExpiresAt:       i.end(now, ttl),
		JKT:             jkt,
		Namespace:       i.Domain.Service,
		AgentID:         agent,
		Org:             i.Company,
		OrgSPIFFEID:     i.companyID,
		Scopes:          scopes,
		DelegationChain: chain,
		Details:         i.limits,
	}
	if token, err = i.sign(i.capHeader, c.append(make([]byte, 0, 768))); err != nil {
		return "", PassportClaims{}, err
	}
	return token, c, nil
}

// CheckPassport makes every check from CodeMalformedToken to CodeChainIncoherent, in that order,
// offline. The caller MUST check revocation. Its errors have the type *Error.
func (i *Issuer) CheckPassport(token string, now time.Time) (PassportClaims, error) {
	raw, err := i.open(token, TypePassport, now)
	if err != nil {
		return PassportClaims{}, err
	}
	if err := i.checkCommon(raw, i.passportAud, now); err != nil {
		return PassportClaims{}, err
	}
	sub, ok := strictjson.AsString(raw.sub)
	company, agent, isID := i.Domain.splitID(sub)
	if !ok || !isID || company != i.Company || agent == "" {
		return PassportClaims{}, refuse(CodeInvalidSubject, "passport subject is no agent of the company")
	}
	l, err := readLifetime(raw, MaxPassportTTL)
	if err != nil {
		return PassportClaims{}, err
	}
	jkt, err := readConfirmation(raw.cnf)
	if err != nil {
		return PassportClaims{}, err
	}
	limits, err := readDetails(raw.details)
	if err != nil {
		return PassportClaims{}, err
	}
	ns, err := readNamespaced(raw.namespaced)
	if err != nil {
		return PassportClaims{}, err
	}
	c := PassportClaims{
		Issuer:          i.issuer,
		Subject:         sub,
		Audience:        []string{i.passportAud},
		ID:              l.id,
		IssuedAt:        l.iat,
		NotBefore:       l.nbf,
		ExpiresAt:       l.exp,
		JKT:             jkt,
		Namespace:       i.Domain.Service,
		AgentID:         ns.agentID,
		Org:             ns.org,
		OrgSPIFFEID:     ns.orgSPIFFEID,
		Scopes:          ns.scopes,
		DelegationChain: ns.chain,
		Details:         limits,
	}
	switch {
	case c.AgentID != agent || c.Org != company || c.OrgSPIFFEID != i.companyID:
		return PassportClaims{}, refuse(CodeMalformedClaims, "agentId, org and orgSpiffeId do not belong to the passport's subject")
	case ns.version != PassportVersion:
		return PassportClaims{}, refuse(CodeUnsupportedVersion, "passport version is not 1")
	case len(c.DelegationChain) == 0 || c.DelegationChain[len(c.DelegationChain)-1] != sub:
		return PassportClaims{}, refuse(CodeChainIncoherent, "delegationChain does not end in the passport's subject")
	}
	return c, nil
}

// readConfirmation reads the claim cnf (RFC 7800) with a jkt alone (RFC 9449 §6.1). It returns ""
// without the claim. What it refuses is CodeMalformedClaims: a passport with a binding that is not
// understood must not pass for one without.
func readConfirmation(src []byte) (jkt string, err error) {
	if src == nil {
		return "", nil
	}
	members := 0
	err = strictjson.EachMember(src, maxDepth, func(name, value []byte) {
		members++
		if string(name) == "jkt" {
			jkt, _ = strictjson.AsString(value)
		}
	})
	if err != nil || members != 1 || !jose.IsThumbprint(jkt) {
		return "", refuse(CodeMalformedClaims, "cnf must have the thumbprint of a key as jkt, and nothing else")
	}
	return jkt, nil
}

// namespaced is the object under the service's name.
type namespaced struct {
	version                   int64
	agentID, org, orgSPIFFEID string
	scopes, chain             []string
}

// readNamespaced reads the types of the members. What it refuses is CodeMalformedClaims.
func readNamespaced(src []byte) (namespaced, error) {
	var n namespaced
	var ok [6]bool
	err := strictjson.EachMember(src, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "v":
			n.version, ok[0] = strictjson.AsInteger(value)
		case "agentId":
			n.agentID, ok[1] = strictjson.AsString(value)
		case "org":
			n.org, ok[2] = strictjson.AsString(value)
		case "orgSpiffeId":
			n.orgSPIFFEID, ok[3] = strictjson.AsString(value)
		case "scopes":
			n.scopes, ok[4] = strictjson.AsStrings(value)
		case "delegationChain":
			n.chain, ok[5] = strictjson.AsStrings(value)
		}
	})
	if err != nil || ok != [6]bool{true, true, true, true, true, true} {
		return n, refuse(CodeMalformedClaims, "passport claims lack a member or have one of another type")
	}
	return n, CheckScopes(n.scopes)
}

// UnverifiedOrg returns the org in a well-formed passport without verifying the signature. Callers
// MUST use it only to choose a key.
func (d Domain) UnverifiedOrg(token string) (string, bool) {
	t, err := parse(token, d.Service)
	if err != nil || t.Header.Type != TypePassport {
		return "", false
	}
	n, err := readNamespaced(t.claims.namespaced)
	if err != nil || !isSegment(n.org) {
		return "", false
	}
	return n.org, true
}

// CheckScopes refuses an empty list, more than MaxScopes, and anything but *, category:* and
// category:name, where category is [A-Za-z0-9._-]{1,64} and name is 1 to 128 visible ASCII
// characters without *. Its error is an *Error with CodeMalformedClaims that has the position, not
// the text, of the invalid scope.
func CheckScopes(scopes []string) error {
	if len(scopes) == 0 {
		return refuse(CodeMalformedClaims, "at least one scope is required")
	}
	if len(scopes) > MaxScopes {
		return refuse(CodeMalformedClaims, fmt.Sprintf("at most %d scopes are allowed", MaxScopes))
	}
	for n, scope := range scopes {
		if !isScope(scope) {
			return refuse(CodeMalformedClaims, fmt.Sprintf("scopes[%d] is not *, category:* or category:name", n))
		}
	}
	return nil
}

func isScope(scope string) bool {
	if scope == "*" {
		return true
	}
	category, name, _ := strings.Cut(scope, ":")
	return len(category) >= 1 && len(category) <= 64 && only(category, isSegmentByte) &&
		(name == "*" || len(name) >= 1 && len(name) <= 128 && only(name, isScopeNameByte))
}

func isScopeNameByte(c byte) bool { return '!' <= c && c <= '~' && c != '*' }

// Grant returns the first scope that covers tool:<tool>; with tool nil the broadest one: *, else
// the first x:*, else the first scope. The authorization details must cover the call too, whose
// arguments are nil where they are not known. The error is an *Error with CodeScopeDenied or
// CodeDetailsDenied.
func (c PassportClaims) Grant(tool *string, arguments []byte) (string, error) {
	scope, err := c.grantedBy(tool)
	if err == nil && tool != nil && !c.Details.Covers(*tool, arguments) {
		return "", errDetailsDenied
	}
	return scope, err
}

var errDetailsDenied = refuse(CodeDetailsDenied, "no entry of the passport's authorization details covers the call with these arguments")

// GrantOn is Grant for a tool of an MCP server, "" for none. The details may name it server/tool
// too. A name with a slash is not taken for the tool of another server.
func (c PassportClaims) GrantOn(server, tool string, arguments []byte) (string, error) {
	if server == "" {
		return c.Grant(&tool, arguments)
	}
	scope, err := c.grantedBy(&tool)
	if err == nil && !c.Details.Covers(server+"/"+tool, arguments) && (strings.Contains(tool, "/") || !c.Details.Covers(tool, arguments)) {
		return "", errDetailsDenied
	}
	return scope, err
}

func (c PassportClaims) grantedBy(tool *string) (string, error) {
	if tool == nil {
		return broadest(c.Scopes)
	}
	for _, scope := range c.Scopes {
		if scope == "*" || scope == "tool:*" || strings.TrimPrefix(scope, "tool:") == *tool && strings.HasPrefix(scope, "tool:") {
			return scope, nil
		}
	}
	return "", refuse(CodeScopeDenied, "no scope of the passport covers the tool")
}

// GrantHTTP returns the first scope that covers requests of an HTTP method to other services.
// Authorization details are rights on calls of tools: a passport with some covers no request.
func (c PassportClaims) GrantHTTP(method string) (string, error) {
	at := slices.IndexFunc(c.Scopes, func(scope string) bool { return scope == "*" || scope == "http:*" || scope == "http:"+method })
	switch {
	case at < 0:
		return "", refuse(CodeScopeDenied, "no scope of the passport covers the method")
	case !c.Details.IsZero():
		return "", errDetailsDenied
	}
	return c.Scopes[at], nil
}

func broadest(scopes []string) (string, error) {
	best := ""
	for _, scope := range scopes {
		switch {
		case scope == "*":
			return scope, nil
		case best == "" || strings.HasSuffix(scope, ":*") && !strings.HasSuffix(best, ":*"):
			best = scope
		}
	}
	if best == "" {
		return "", refuse(CodeScopeDenied, "the passport has no scope")
	}
	return best, nil
}
