package server

import (
	"net/http"
	"path"
	"strings"

	"attestd/web"
)

// route is one row of the API with its whole policy: whether a credential is needed, and which limit counts it.
type route struct {
	method, path string
	auth         bool
	tier         tier
	handler      handler
}

const public, key = false, true

// routes is the API. A test holds it against web/openapi.yaml both ways.
var routes = []route{
	{"POST", "/v1/companies", public, standard, (*Server).createCompany},
	{"POST", "/v1/setup", public, sensitive, (*Server).createCompany},
	{"GET", "/v1/company", key, standard, (*Server).getCompany},
	{"POST", "/v1/companies/svid", key, standard, (*Server).companySVID},
	{"POST", "/v1/recover-key", public, standard, (*Server).recoverKey},

	{"POST", "/v1/agents/register", key, standard, (*Server).registerAgent},
	{"GET", "/v1/agents", key, standard, (*Server).listAgents},
	{"GET", "/v1/agents/{agentId}", key, standard, (*Server).getAgent},
	{"GET", "/v1/agents/{agentId}/svid", key, standard, (*Server).agentSVID},

	{"POST", "/v1/keys", key, standard, (*Server).createKey},
	{"GET", "/v1/keys", key, standard, (*Server).listKeys},
	{"DELETE", "/v1/keys/{key}", key, standard, (*Server).deleteKey},
	{"POST", "/v1/oauth/clients", key, standard, (*Server).createOAuthClient},
	{"GET", "/v1/oauth/clients", key, standard, (*Server).listOAuthClients},
	{"POST", "/v1/oauth/token", public, sensitive, (*Server).oauthToken},

	{"POST", "/v1/attest", key, attestTier, (*Server).attest},
	{"GET", "/v1/chain", key, standard, (*Server).readChain},
	{"GET", "/v1/verify", key, standard, (*Server).verifyChain},
	{"GET", "/v1/proof/{index}", key, standard, (*Server).prove},

	{"POST", "/v1/token-exchange", key, standard, (*Server).delegate},
	{"POST", "/v1/token/exchange", key, standard, (*Server).exchangeTokens},

	{"POST", "/v1/agents/{agentId}/passport", key, standard, (*Server).issuePassport},
	{"POST", "/v1/agents/{agentId}/passport/rotate", key, standard, (*Server).rotatePassport},
	{"POST", "/v1/passport/verify", key, standard, (*Server).verifyPassport},
	{"GET", "/v1/passports", key, standard, (*Server).listPassports},
	{"POST", "/v1/passports/{jti}/revoke", key, standard, (*Server).revokePassport},
	{"GET", "/v1/passports/revoked", key, standard, (*Server).revokedPassports},
	{"GET", "/v1/ocsp/{jti}", key, standard, (*Server).ocsp},

	{"GET", "/v1/ca/public-key", public, standard, (*Server).publicKey},
	{"GET", "/v1/ca/well-known", public, standard, (*Server).wellKnown},
	{"GET", "/v1/openapi.json", public, standard, (*Server).openAPI},
	{"GET", "/v1/health", public, standard, (*Server).health},
	{"GET", "/v1/ws", public, standard, (*Server).stream},
}

// Handler is the whole service: the API below /v1/, the console elsewhere.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.HandleFunc(rt.method+" "+rt.path, s.handle(rt))
	}
	// Patterns without a method, so that they take what no route does, whatever its method.
	elsewhere := s.handle(route{handler: func(_ *Server, c *call) error { return notFound(mux, c) }})
	mux.HandleFunc("/v1/", elsewhere)
	mux.HandleFunc("/v1", elsewhere) // or ServeMux would redirect it
	console, has := web.Console()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if has(r.URL.Path) {
			console.ServeHTTP(w, r)
			return
		}
		elsewhere(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !clean(r.URL.Path) { // ServeMux would redirect, and a redirected POST becomes a GET
			elsewhere(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func clean(p string) bool { return p == path.Clean(p) || p == "/v1/" }

// notFound answers for what no route takes: a wrong method with the right ones, anything else with 404.
func notFound(mux *http.ServeMux, c *call) error {
	if c.URL.Path == "/v1/passports//revoke" && c.Method == http.MethodPost { // ServeMux has no empty wildcard
		if c.company == nil {
			return unauthorized()
		}
		return c.s.revokePassport(c)
	}
	if !clean(c.URL.Path) {
		return fail(http.StatusNotFound, "Not Found")
	}
	var allowed []string
	for _, m := range []string{"GET", "HEAD", "POST", "DELETE"} {
		probe := &http.Request{Method: m, URL: c.URL, Host: c.Host}
		if _, pattern := mux.Handler(probe); strings.Contains(pattern, " ") { // only routes have a method
			allowed = append(allowed, m)
		}
	}
	if len(allowed) > 0 {
		return fail(http.StatusMethodNotAllowed, "Method Not Allowed").with("Allow", strings.Join(allowed, ", "))
	}
	return fail(http.StatusNotFound, "Not Found")
}
