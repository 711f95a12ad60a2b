package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/crypto/dpop"
	"attestd/internal/keysets"
)

func (p *protected) serveTools(w http.ResponseWriter, r *http.Request) {
	scheme, token := tokenOf(r)
	if scheme != "bearer" && scheme != "dpop" {
		p.challenge(w, http.StatusUnauthorized, challenge{scheme: "Bearer", why: "an access token is required: Authorization: Bearer …"})
		return
	}
	given, err := p.admit(r, scheme == "dpop", token, time.Now())
	refusal := challenge{scheme: "Bearer"}
	if scheme == "dpop" || given.jkt != "" {
		refusal.scheme = "DPoP"
	}
	var refused refusedToken
	var proof *dpop.Error
	var unavailable *keysets.Unavailable
	switch {
	case errors.As(err, &refused):
		refusal.code, refusal.why = "invalid_token", refused.Error()
		p.challenge(w, http.StatusUnauthorized, refusal)
	case errors.As(err, &proof):
		refusal.code, refusal.why = "invalid_dpop_proof", proof.Error()
		p.challenge(w, http.StatusUnauthorized, refusal)
	case errors.As(err, &unavailable):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the keys of the issuer are not available: "+unavailable.Error(), http.StatusServiceUnavailable)
	case err != nil: // too many proofs, or the client has left
		w.Header().Set("Retry-After", "60")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case given.none():
		refusal.code, refusal.why, refusal.scope = "insufficient_scope", "the access token has no scope with which a tool may be called", scopeReader
		p.challenge(w, http.StatusForbidden, refusal)
	default:
		if tool := calledTool(r); given.lacks(tool) != "" {
			refusal.code, refusal.why, refusal.scope = "insufficient_scope", given.check(tool).Error(), given.lacks(tool)
			p.challenge(w, http.StatusForbidden, refusal)
			return
		}
		server := p.factory.server(p.Service, given)
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody,
			DisableLocalhostProtection: true, // see localhttp.Only
		}).ServeHTTP(w, r)
	}
}

// admit returns what a request may do by its token. The rights that come with an error are none,
// and say at most to which key the token is bound.
func (p *protected) admit(r *http.Request, byDPoP bool, token string, now time.Time) (rights, error) {
	given, err := p.authorize(r.Context(), token, now)
	switch {
	case err != nil:
		return rights{}, err
	case byDPoP && given.jkt == "":
		return rights{}, refusedToken("is bound to no key: send it as Bearer")
	case byDPoP:
		err = p.prove(r, token, given.jkt, now)
	case given.jkt != "": // worth nothing without a proof of its key
		err = refusedToken("is bound to a key: send it by the scheme DPoP, with a proof")
	}
	if err != nil {
		return rights{limited: true, jkt: given.jkt}, err
	}
	return given, nil
}

// challenge says what is wrong with a request (RFC 6750 §3, RFC 9449 §7.1).
type challenge struct{ scheme, code, why, scope string }

// challenge refuses a request and names the metadata, by which a client finds the issuer (RFC 9728
// §5.1).
func (p *protected) challenge(w http.ResponseWriter, status int, c challenge) {
	why := strings.NewReplacer(`"`, "'", `\`, "'").Replace(c.why)
	params := []string{fmt.Sprintf(`resource_metadata="%s"`, p.metadataURL)}
	if c.code != "" {
		params = append(params, fmt.Sprintf(`error="%s"`, c.code), fmt.Sprintf(`error_description="%s"`, why))
	}
	if c.scope != "" {
		params = append(params, fmt.Sprintf(`scope="%s"`, c.scope))
	}
	if c.scheme == "DPoP" {
		params = append(params, `algs="ES256 EdDSA Ed25519"`)
	}
	w.Header().Set("WWW-Authenticate", c.scheme+" "+strings.Join(params, ", "))
	http.Error(w, c.why, status)
}

// calledTool returns the name of the tool that a request calls, "" where it calls none, or in a
// batch. That a client learns at once which scope it lacks is all that depends on it: the tools
// check it again.
func calledTool(r *http.Request) string {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), failing{err}, r.Body), r.Body}
	var call struct {
		Method string
		Params struct{ Name string }
	}
	if err != nil || json.Unmarshal(body, &call) != nil || call.Method != "tools/call" {
		return ""
	}
	return call.Params.Name
}

// failing returns an error at the place where it happened, or is at its end.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}
