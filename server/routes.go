package server

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"attestd/server/limit"
	"attestd/service/telemetry"
	"attestd/web"
)

// route is one row of the API with its whole policy: who may call it, which limit counts it, and
// what becomes of members of the query and the body that its handler's form does not declare.
type route struct {
	method, path string
	needs        need
	tier         limit.Tier
	undeclared   undeclared
	handler      handler
}

// need says who may call a route.
type need struct {
	who     kinds // everything else is refused; see call.by
	anyPage bool  // pages of all origins as well (CORS), which read what is public
	socket  bool  // a credential may come as a subprotocol of a WebSocket
	// a suspended company may call it although it is no GET, or not although it is one
	reads, issues bool
}

// isPublic reports whether the handler finds out who calls, if anybody needs to: a credential may
// stand in the body, or be missing.
func (n need) isPublic() bool { return n.who&(nobody|isClient) != 0 }

var (
	public  = need{who: nobody}
	anyPage = need{who: nobody, anyPage: true}
	reader  = need{who: isReader | isWriter | isAdmin}
	admin   = need{who: isAdmin}

	readerOrAgent = need{who: isReader | isWriter | isAdmin | isAgent | isPerson}
	writerOrAgent = need{who: isWriter | isAdmin | isAgent | isPerson}
	adminOrAgent  = need{who: isAdmin | isAgent}
	enrolling     = need{who: isAdmin | isAgent | isEnrolling}
	enrolmentOnly = need{who: isEnrolling}
	agentAsks     = need{who: isWriter | isAdmin | isAgent | isPerson, reads: true}
	adminIssues   = need{who: isAdmin | isAgent, issues: true}

	tokenSeeker  = need{who: nobody | isClient | isAdmin | isAgent | isPerson}
	clientRevoke = need{who: isClient | isAdmin | isAgent | isPerson}
	clientAsks   = need{who: isClient | isAdmin | isAgent | isPerson, reads: true}
	follower     = need{who: nobody | isReader | isWriter | isAdmin, socket: true}
)

// routes is the API. A test holds it against web/openapi.yaml both ways.
var routes = []route{
	{"POST", "/v1/companies", public, limit.Standard, lenient, guard(mayRegister, endpoint(201, (*Server).createCompany))},
	{"POST", "/v1/setup", public, limit.Sensitive, lenient, guard(mayRegister, endpoint(201, (*Server).createCompany))},
	{"GET", "/v1/company", reader, limit.Standard, lenient, endpoint(200, (*Server).getCompany)},
	{"POST", "/v1/companies/svid", admin, limit.Standard, lenient, endpoint(200, (*Server).companySVID)},
	{"POST", "/v1/companies/rotate-keys", admin, limit.Sensitive, strict, endpoint(200, (*Server).rotateKeys)},
	{"POST", "/v1/recover-key", public, limit.Standard, lenient, guard(localOnly, endpoint(200, (*Server).recoverKey))},

	{"POST", "/v1/agents/register", admin, limit.Standard, lenient, endpoint(201, (*Server).registerAgent)},
	{"GET", "/v1/agents", reader, limit.Standard, strict, endpoint(200, (*Server).listAgents)},
	{"GET", "/v1/agents/{agentId}", reader, limit.Standard, lenient, endpoint(200, (*Server).getAgent)},
	{"POST", "/v1/agents/{agentId}/disable", admin, limit.Standard, strict, endpoint(200, (*Server).disableAgent)},
	{"POST", "/v1/agents/{agentId}/enable", admin, limit.Standard, strict, endpoint(200, (*Server).enableAgent)},
	{"POST", "/v1/agents/{agentId}/keys", enrolling, limit.Standard, strict, handler{enrolKey, enrolForm}},
	{"GET", "/v1/agents/{agentId}/keys", readerOrAgent, limit.Standard, strict, endpoint(200, (*Server).listAgentKeys)},
	{"DELETE", "/v1/agents/{agentId}/keys/{thumbprint}", adminOrAgent, limit.Standard, strict, endpoint(200, (*Server).revokeAgentKey)},
	{"POST", "/v1/agents/{agentId}/enrolments", admin, limit.Sensitive, strict, endpoint(201, (*Server).createEnrolment)},
	{"GET", "/v1/enrolment", enrolmentOnly, limit.Standard, strict, endpoint(200, (*Server).ownEnrolment)},
	{"PUT", "/v1/agents/{agentId}/policy", admin, limit.Standard, strict, endpoint(200, (*Server).setAgentPolicy)},
	{"PUT", "/v1/company/policy", admin, limit.Standard, strict, endpoint(200, (*Server).setCompanyPolicy)},
	{"POST", "/v1/agents/{agentId}/token", adminOrAgent, limit.Standard, strict, endpoint(201, (*Server).agentToken)},
	{"GET", "/v1/agents/{agentId}/svid", adminIssues, limit.Standard, lenient, endpoint(200, (*Server).agentSVID)},

	{"POST", "/v1/keys", admin, limit.Standard, lenient, endpoint(201, (*Server).createKey)},
	{"GET", "/v1/keys", admin, limit.Standard, lenient, endpoint(200, (*Server).listKeys)},
	{"DELETE", "/v1/keys/{key}", admin, limit.Standard, lenient, endpoint(200, (*Server).deleteKey)},
	{"POST", "/v1/oauth/clients", admin, limit.Standard, lenient, endpoint(201, (*Server).createOAuthClient)},
	{"GET", "/v1/oauth/clients", admin, limit.Standard, lenient, endpoint(200, (*Server).listOAuthClients)},
	{"DELETE", "/v1/oauth/clients/{clientId}", admin, limit.Standard, strict, endpoint(200, (*Server).deleteOAuthClient)},
	{"POST", "/v1/federation", admin, limit.Sensitive, strict, endpoint(201, (*Server).createFederation)},
	{"GET", "/v1/federation", admin, limit.Standard, strict, endpoint(200, (*Server).listFederations)},
	{"GET", "/v1/federation/{name}", admin, limit.Standard, strict, endpoint(200, (*Server).getFederation)},
	{"DELETE", "/v1/federation/{name}", admin, limit.Standard, strict, endpoint(200, (*Server).deleteFederation)},
	{"GET", "/v1/credentials", admin, limit.Standard, strict, endpoint(200, (*Server).listCredentials)},
	{"POST", "/v1/oauth/token", tokenSeeker, limit.Sensitive, lenient, handler{oauthToken, tokenForm}},
	{"POST", "/o/{companyId}/token", tokenSeeker, limit.Sensitive, strictQuery, handler{oauthToken, tokenForm.onPath("companyId")}},
	{"POST", "/o/{companyId}/introspect", clientAsks, limit.Standard, strictQuery, handler{introspectToken, aboutTokenForm}},
	{"POST", "/o/{companyId}/revoke", clientRevoke, limit.Standard, strictQuery, handler{revokeToken, aboutTokenForm}},

	{"POST", "/v1/attest", writerOrAgent, limit.Attest, lenient, endpointOf(attestForm, 201, (*Server).attest)},
	// its items count as attest
	{"POST", "/v1/attest/batch", writerOrAgent, limit.Standard, strict, endpoint(201, (*Server).attestBatch)},
	// so do its records
	{"POST", "/v1/hooks/claude-code", writerOrAgent, limit.Standard, strictQuery, claudeCodeHook()},
	{"POST", "/v1/otlp/v1/traces", writerOrAgent, limit.Standard, strictQuery, telemetryExport(telemetry.Traces)},
	{"POST", "/v1/otlp/v1/logs", writerOrAgent, limit.Standard, strictQuery, telemetryExport(telemetry.Logs)},
	{"GET", "/v1/sessions", reader, limit.Standard, strict, endpoint(200, (*Server).listSessions)},
	{"GET", "/v1/sessions/{agentId}/{sid}", reader, limit.Standard, strict, endpoint(200, (*Server).session)},
	{"GET", "/v1/sessions/{agentId}/{sid}/records", reader, limit.Standard, strict, endpoint(200, (*Server).sessionRecords)},
	{"GET", "/v1/chain", reader, limit.Standard, lenient, endpoint(200, (*Server).readChain)},
	{"GET", "/v1/records", reader, limit.Standard, strict, endpoint(200, (*Server).searchRecords)},
	{"GET", "/v1/records/histogram", reader, limit.Standard, strict, endpoint(200, (*Server).countRecords)},
	{"GET", "/v1/verify", reader, limit.Standard, lenient, endpoint(200, (*Server).verifyChain)},
	{"GET", "/v1/proof/{index}", reader, limit.Standard, lenient, endpoint(200, (*Server).prove)},
	{"GET", "/v1/authority/{index}", reader, limit.Standard, strict, endpoint(200, (*Server).authority)},
	{"GET", "/v1/evidence/{index}", reader, limit.Standard, strict, endpoint(200, (*Server).evidence)},
	{"GET", "/v1/report", reader, limit.Standard, strict, endpoint(200, (*Server).report)},
	{"GET", "/v1/consistency", reader, limit.Standard, strict, endpoint(200, (*Server).proveConsistency)},

	{"GET", "/v1/logs", reader, limit.Standard, strict, endpoint(200, (*Server).listLogs)},
	{"GET", "/v1/log/{logId}/checkpoint", reader, limit.Log, strict, endpoint(200, (*Server).logCheckpoint)},
	{"GET", "/v1/log/{logId}/tile/{path...}", reader, limit.Log, strict, endpoint(200, (*Server).logTile)},
	{"GET", "/v1/log/{logId}/proof/{index}", reader, limit.Log, strict, endpoint(200, (*Server).logProof)},
	{"GET", "/v1/log/{logId}/consistency", reader, limit.Log, strict, endpoint(200, (*Server).logConsistency)},

	{"POST", "/v1/witness/add-checkpoint", public, limit.Standard, strictQuery, guard(isWitness, handler{addCheckpoint, formOf[none]()})},
	{"GET", "/v1/witness", public, limit.Standard, strict, guard(isWitness, endpoint(200, (*Server).getWitness))},
	{"GET", "/v1/witness/{originHash}/checkpoint", public, limit.Standard, strict, guard(isWitness, endpoint(200, (*Server).cosignedCheckpoint))},

	{"POST", "/v1/webhooks", admin, limit.Standard, strict, endpoint(201, (*Server).createWebhook)},
	{"GET", "/v1/webhooks", admin, limit.Standard, strict, endpoint(200, (*Server).listWebhooks)},
	{"GET", "/v1/webhooks/{webhookId}", admin, limit.Standard, strict, endpoint(200, (*Server).getWebhook)},
	{"DELETE", "/v1/webhooks/{webhookId}", admin, limit.Standard, strict, endpoint(200, (*Server).deleteWebhook)},
	{"POST", "/v1/webhooks/{webhookId}/enable", admin, limit.Standard, strict, endpoint(200, (*Server).enableWebhook)},
	{"POST", "/v1/webhooks/{webhookId}/disable", admin, limit.Standard, strict, endpoint(200, (*Server).disableWebhook)},
	{"POST", "/v1/webhooks/{webhookId}/rotate-secret", admin, limit.Standard, strict, endpoint(200, (*Server).rotateWebhookSecret)},
	{"POST", "/v1/webhooks/{webhookId}/test", admin, limit.Sensitive, strict, endpoint(200, (*Server).testWebhook)},

	{"POST", "/v1/token-exchange", admin, limit.Standard, lenient, endpoint(201, (*Server).delegate)},
	{"POST", "/v1/token/exchange", admin, limit.Standard, lenient, endpoint(200, (*Server).exchangeTokens)},

	{"POST", "/v1/agents/{agentId}/passport", admin, limit.Standard, lenient, endpoint(201, (*Server).issuePassport)},
	{"POST", "/v1/agents/{agentId}/passport/rotate", adminOrAgent, limit.Standard, lenient, endpoint(200, (*Server).rotatePassport)},
	{"POST", "/v1/passport/verify", agentAsks, limit.Standard, lenient, endpoint(200, (*Server).verifyPassport)},
	{"GET", "/v1/passports", reader, limit.Standard, strict, endpoint(200, (*Server).listPassports)},
	{"POST", "/v1/passports/{jti}/revoke", admin, limit.Standard, lenient, endpoint(200, (*Server).revokePassport)},
	{"GET", "/v1/passports/revoked", reader, limit.Standard, lenient, endpoint(200, (*Server).revokedPassports)},
	{"GET", "/v1/ocsp/{jti}", reader, limit.Standard, lenient, endpoint(200, (*Server).ocsp)},

	{"GET", "/v1/ca/public-key", public, limit.Standard, lenient, endpoint(200, (*Server).publicKey)},
	{"GET", "/v1/ca/public-keys", public, limit.Standard, strict, endpoint(200, (*Server).publicKeys)},
	{"GET", "/v1/ca/well-known", public, limit.Standard, lenient, endpoint(200, (*Server).wellKnown)},

	{"GET", "/.well-known/oauth-authorization-server/o/{companyId}", anyPage, limit.Standard, strict, endpoint(200, (*Server).issuerDocument)},
	{"GET", "/.well-known/oauth-protected-resource", anyPage, limit.Standard, strict, endpoint(200, (*Server).wholeResource)},
	{"GET", "/.well-known/oauth-protected-resource/o/{companyId}", anyPage, limit.Standard, strict, endpoint(200, (*Server).companyResource)},
	{"GET", "/.well-known/openid-configuration/o/{companyId}", anyPage, limit.Standard, strict, endpoint(200, (*Server).issuerDocument)},
	{"GET", "/o/{companyId}/.well-known/openid-configuration", anyPage, limit.Standard, strict, endpoint(200, (*Server).issuerDocument)},
	{"GET", "/o/{companyId}/jwks", anyPage, limit.Standard, strict, endpoint(200, (*Server).issuerKeys)},
	{"GET", "/o/{companyId}/spiffe-bundle", anyPage, limit.Standard, strict, endpoint(200, (*Server).issuerBundle)},

	{"GET", "/v1/openapi.json", public, limit.Standard, strict, endpoint(200, (*Server).openAPI)},
	{"GET", "/v1/health", public, limit.Standard, lenient, endpoint(200, (*Server).health)},
	{"GET", "/readyz", public, limit.Standard, strict, endpoint(200, (*Server).ready)},
	{"GET", "/v1/ws", follower, limit.Standard, lenient, handler{follow, formOf[followRequest]()}},
}

// writes reports whether the route writes or issues something for a company, and so is closed while
// that is suspended.
func (rt route) writes() bool {
	return (rt.method != "GET" || rt.needs.issues) && !rt.needs.reads
}

// Handler is the whole service: the API below /v1/, the console elsewhere.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.HandleFunc(rt.method+" "+rt.path, s.handle(rt))
		if rt.needs.anyPage {
			asked := route{needs: anyPage, tier: rt.tier, handler: handler{serve: func(c *call) error { return c.preflight(rt.method) }}}
			mux.HandleFunc("OPTIONS "+rt.path, s.handle(asked))
		}
	}
	// which is in the metadata of an issuer and gives nothing: no operation of the reference
	mux.HandleFunc("GET /o/{companyId}/authorize", s.handle(route{needs: anyPage, undeclared: lenient, tier: limit.Standard, handler: endpoint(http.StatusBadRequest, (*Server).authorize)}))
	// Patterns without a method, so that they take what no route does, whatever its method.
	elsewhere := s.handle(route{needs: public, handler: handler{serve: func(c *call) error { return notFound(mux, c) }}})
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

// notFound answers for what no route takes: a wrong method with the right ones, anything else with
// 404.
func notFound(mux *http.ServeMux, c *call) error {
	// ServeMux has no empty wildcard
	if c.URL.Path == "/v1/passports//revoke" && c.Method == http.MethodPost {
		c.needs, c.undeclared = admin, lenient
		if err := c.admitCaller(); err != nil {
			return err
		}
		return endpoint(http.StatusOK, (*Server).revokePassport).serve(c)
	}
	if !clean(c.URL.Path) {
		return fail(http.StatusNotFound, "Not Found")
	}
	var allowed []string
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
		probe := &http.Request{Method: m, URL: c.URL, Host: c.Host}
		// only routes have a method
		if _, pattern := mux.Handler(probe); strings.Contains(pattern, " ") {
			allowed = append(allowed, m)
		}
	}
	// exporters add these to their endpoint, which was then set without our prefix
	if slices.Contains([]string{"/v1/traces", "/v1/logs", "/v1/metrics"}, c.URL.Path) {
		return fail(http.StatusNotFound, "Not Found: OTLP is received below /v1/otlp; set OTEL_EXPORTER_OTLP_ENDPOINT to this server's address and /v1/otlp")
	}
	if len(allowed) > 0 {
		return fail(http.StatusMethodNotAllowed, "Method Not Allowed").with("Allow", strings.Join(allowed, ", "))
	}
	return fail(http.StatusNotFound, "Not Found")
}
