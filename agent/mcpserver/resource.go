package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attestd/agent/localhttp"
	"attestd/crypto/cred/details"
	"attestd/crypto/dpop"
	"attestd/crypto/idtoken"
	"attestd/crypto/jose"
	"attestd/crypto/strictjson"
	"attestd/internal/keysets"
	"attestd/sdk/attestd"
)

// Resource is the server as a protected resource (RFC 9728). It accepts access tokens that the
// company's issuer has issued for its URL, and no other credential. What a token allows, the tools
// do with Service, whose credential is of the same company: no token is handed on.
type Resource struct {
	URL     string // as its clients know it: https, see CheckResource
	Issuer  string // of the company
	Company string // ID of the company
	Keys    Keys
	Service *attestd.Client
}

// maxResource is how many bytes the URL of a resource may have, as for the token endpoint.
const maxResource = 1024

// CheckResource returns what is wrong with the URL of a resource. The token endpoint demands https
// and no fragment.
func CheckResource(text string) error {
	u, err := url.Parse(text)
	visible := strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) < 0
	switch {
	case err != nil || !visible || len(text) > maxResource || u.Scheme != "https" || u.Hostname() == "" || u.User != nil,
		strings.ContainsAny(text, "?#"):
		return errors.New("must be an https URL without a password, a query or a fragment")
	case u.Path != "/" && strings.HasSuffix(u.Path, "/"), strings.Contains(u.Path, "//"), strings.HasPrefix(u.Path, wellKnown):
		return errors.New("must have a path without empty parts, such as /mcp")
	}
	return nil
}

// wellKnown is the path of the metadata of a resource without a path of its own (RFC 9728 §3).
const wellKnown = "/.well-known/oauth-protected-resource"

// is reports whether an audience is this resource. Without a path a URL has two spellings (RFC 3986
// §6.2.3).
func (r *Resource) is(audience string) bool {
	u, err := url.Parse(r.URL)
	if err != nil || u.Path != "" && u.Path != "/" {
		return audience == r.URL
	}
	return strings.TrimSuffix(audience, "/") == strings.TrimSuffix(r.URL, "/")
}

// resourceMetadata is the metadata of a resource (RFC 9728 §2). It lists no scopes, because clients
// then ask for all of them, and no client of attestd has them all.
type resourceMetadata struct {
	Resource       string   `json:"resource"`
	Servers        []string `json:"authorization_servers"`
	Methods        []string `json:"bearer_methods_supported"`
	DPoPAlgorithms []string `json:"dpop_signing_alg_values_supported"`
	Name           string   `json:"resource_name"`
}

// Protected serves the tools as a resource, at the path of its URL, and the resource's metadata. It
// listens on port of the loopback interface, behind a proxy that has the certificate.
func (f *Factory) Protected(r *Resource, port string) http.Handler {
	at, err := url.Parse(r.URL)
	if err != nil {
		return http.NotFoundHandler() // see CheckResource
	}
	path := at.EscapedPath()
	p := &protected{Resource: r, factory: f, metadataURL: at.Scheme + "://" + at.Host + wellKnown + strings.TrimSuffix(path, "/")}
	if path == "" {
		path = "/"
	}
	tools := localhttp.Only(port, at, http.HandlerFunc(p.serveTools))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case path:
			tools.ServeHTTP(w, r)
		case wellKnown + strings.TrimSuffix(path, "/"):
			p.serveMetadata(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

type protected struct {
	*Resource
	factory     *Factory
	metadataURL string
	proofs      proofs
}

// serveMetadata answers everybody, pages of any origin included: clients in browsers read it first.
func (p *protected) serveMetadata(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "public, max-age=300")
		_ = json.NewEncoder(w).Encode(resourceMetadata{
			p.URL, []string{p.Issuer}, []string{"header"}, []string{"ES256", "EdDSA", "Ed25519"}, "attestd MCP server",
		})
	case http.MethodOptions:
		h.Set("Access-Control-Allow-Methods", http.MethodGet)
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Max-Age", "300")
		w.WriteHeader(http.StatusNoContent)
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

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

// Keys returns key sets of issuers. [keysets.Sets] does, and fetches them in the background.
type Keys interface {
	// Check calls check with the key set at a source, and with a newer one where that has not
	// signed what is checked. The error is that of check, *keysets.Unavailable, or that of ctx.
	Check(ctx context.Context, of int64, from keysets.Source, check func(*idtoken.KeySet) error) error
}

// refusedToken says why an access token is refused. It contains nothing of the token.
type refusedToken string

func (r refusedToken) Error() string { return "the access token " + string(r) }

// authorize checks an access token (RFC 9068 §4) without asking the service: it must be signed with
// ES256 by a key of the company's issuer, for this resource alone, and be valid now. The error is a
// refusedToken, *keysets.Unavailable, or that of ctx.
func (r *Resource) authorize(ctx context.Context, compact string, now time.Time) (rights, error) {
	signed, err := jose.Parse(compact, idtoken.MaxSize)
	if err != nil {
		return rights{}, refusedToken("is not a signed JWT")
	}
	kind := strings.TrimPrefix(strings.ToLower(signed.Header.Type), "application/")
	switch {
	case kind != "at+jwt": // a token that says who an agent is gives no access
		return rights{}, refusedToken("must have the typ at+jwt: ask for one with resource=" + r.URL)
	case signed.Header.Algorithm != jose.ES256:
		return rights{}, refusedToken("must be signed with ES256")
	}
	token, err := idtoken.Parse(compact)
	if err != nil {
		return rights{}, refusedToken("must have iss, sub, exp and exactly one aud, no act, and no key in its header")
	}
	switch {
	case token.Issuer != r.Issuer:
		return rights{}, refusedToken("must be of the issuer " + r.Issuer)
	case !r.is(token.Audience):
		return rights{}, refusedToken("must be for " + r.URL + " alone: ask for one with that as resource")
	case !now.Before(token.Ends):
		return rights{}, refusedToken("has expired")
	}
	err = r.Keys.Check(ctx, 0, keysets.Source{Issuer: r.Issuer}, func(keys *idtoken.KeySet) error {
		return token.Check(keys, idtoken.Wanted{Issuer: r.Issuer, Audience: token.Audience}, now)
	})
	var refused *idtoken.Error
	switch {
	case errors.As(err, &refused):
		return rights{}, refusedToken("is not signed by a key of the issuer, or its times do not hold")
	case err != nil:
		return rights{}, err
	}
	return r.rightsOf(token.Claims)
}

// rightsOf returns what the claims of a verified token allow.
func (r *Resource) rightsOf(claims idtoken.Claims) (rights, error) {
	text := func(name string) string {
		value, _ := claims.At(name)
		s, _ := strictjson.AsString(value)
		return s
	}
	given := rights{limited: true, scopes: strings.Fields(text("scope")), agent: text("agent_id"), jkt: text("/cnf/jkt")}
	_, bound := claims.At("cnf")
	switch {
	case text("org") != r.Company:
		return rights{}, refusedToken("is of another company")
	case bound && given.jkt == "":
		return rights{}, refusedToken("is bound to something else than a key by DPoP")
	}
	if limits, is := claims.At("authorization_details"); is {
		var err error
		if given.details, err = details.Parse(limits); err != nil {
			return rights{}, refusedToken("has authorization_details that are not understood")
		}
	}
	return given, nil
}

// maxProofs bounds how many proofs are remembered, for five minutes each, or ten where a client's
// clock is ahead.
const maxProofs = 200_000

// proofs remembers the DPoP proofs that were used, so that each counts once (RFC 9449 §11.1). It
// forgets them with the process: who serves one resource by several must send a client to one.
// Before they end it forgets none and refuses further ones: a bounded.Map would let them be
// replayed.
type proofs struct {
	mu    sync.Mutex
	ends  map[[sha256.Size]byte]time.Time // of each proof: when it would be refused anyway
	swept time.Time
}

var errProofs = errors.New("too many DPoP proofs at once")

// prove requires a new DPoP proof of the key that an access token is bound to (RFC 9449 §7.1), for
// this request to the resource. The error is a *dpop.Error or errProofs.
func (p *protected) prove(r *http.Request, token, jkt string, now time.Time) error {
	sent := r.Header.Values("DPoP")
	if len(sent) != 1 {
		return &dpop.Error{Message: "DPoP proof is missing, or there are several: send one in the header DPoP"}
	}
	proof, err := dpop.Check(sent[0], dpop.Request{Method: r.Method, URL: p.URL, AccessToken: token}, jkt, now)
	if err != nil {
		return err
	}
	return p.proofs.use(&proof, now)
}

// use uses a proof up.
func (p *proofs) use(proof *dpop.Proof, now time.Time) error {
	name := sha256.Sum256([]byte(proof.Key.Thumbprint + "\n" + proof.ID))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends == nil {
		p.ends = map[[sha256.Size]byte]time.Time{}
	}
	if now.Sub(p.swept) >= time.Minute {
		p.swept = now
		for name, ends := range p.ends {
			if !now.Before(ends) {
				delete(p.ends, name)
			}
		}
	}
	if ends, used := p.ends[name]; used && now.Before(ends) {
		return &dpop.Error{Message: "DPoP proof was used before: make one for each request"}
	}
	if len(p.ends) >= maxProofs {
		return errProofs
	}
	p.ends[name] = proof.IssuedAt.Add(dpop.Window + time.Second)
	return nil
}
