package mcpserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"attestd/agent/localhttp"
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
