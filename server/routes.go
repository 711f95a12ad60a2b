package server

import (
	"net/http"
	"path"
	"slices"
	"strings"

	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/service/telemetry"
	"attestd/web"
)

// Who may call a route.
var (
	public  = httpapi.Need{Who: httpapi.Nobody}
	anyPage = httpapi.Need{Who: httpapi.Nobody, AnyPage: true}
	reader  = httpapi.Need{Who: httpapi.IsReader | httpapi.IsWriter | httpapi.IsAdmin}
	admin   = httpapi.Need{Who: httpapi.IsAdmin}

	readerOrAgent = httpapi.Need{Who: httpapi.IsReader | httpapi.IsWriter | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsPerson}
	writerOrAgent = httpapi.Need{Who: httpapi.IsWriter | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsPerson}
	adminOrAgent  = httpapi.Need{Who: httpapi.IsAdmin | httpapi.IsAgent}
	enrolling     = httpapi.Need{Who: httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsEnrolling}
	enrolmentOnly = httpapi.Need{Who: httpapi.IsEnrolling}
	agentAsks     = httpapi.Need{Who: httpapi.IsWriter | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsPerson, Reads: true}
	adminIssues   = httpapi.Need{Who: httpapi.IsAdmin | httpapi.IsAgent, Issues: true}

	tokenSeeker  = httpapi.Need{Who: httpapi.Nobody | httpapi.IsClient | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsPerson}
	clientRevoke = httpapi.Need{Who: httpapi.IsClient | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsPerson}
	clientAsks   = httpapi.Need{Who: httpapi.IsClient | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsPerson, Reads: true}
	follower     = httpapi.Need{Who: httpapi.Nobody | httpapi.IsReader | httpapi.IsWriter | httpapi.IsAdmin, Socket: true}
)

// A row of the table: path, who may call it, which limit counts it, and what becomes of what its
// handler's form does not declare.
func get(path string, needs httpapi.Need, tier limit.Tier, policy httpapi.Undeclared, h httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: "GET", Path: path, Needs: needs, Tier: tier, Undeclared: policy, Handler: h}
}

func post(path string, needs httpapi.Need, tier limit.Tier, policy httpapi.Undeclared, h httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: "POST", Path: path, Needs: needs, Tier: tier, Undeclared: policy, Handler: h}
}

func put(path string, needs httpapi.Need, tier limit.Tier, policy httpapi.Undeclared, h httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: "PUT", Path: path, Needs: needs, Tier: tier, Undeclared: policy, Handler: h}
}

func del(path string, needs httpapi.Need, tier limit.Tier, policy httpapi.Undeclared, h httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: "DELETE", Path: path, Needs: needs, Tier: tier, Undeclared: policy, Handler: h}
}

// resources are what the routes are about. Each has what it needs and no more.
type resources struct {
	agents       agents
	agentKeys    agentKeys
	attestations attestations
	chains       chains
	clients      clients
	companies    companies
	cosignatures cosignatures
	credentials  credentials
	delegations  delegations
	discoveries  discoveries
	evidences    evidences
	federations  federations
	hooks        hooks
	issuers      issuers
	logs         logs
	otlp         otlp
	passports    passports
	searches     searches
	status       *status
	streams      streams
	tokens       tokens
	webhooks     webhooks
}

// routes returns the API. A test holds it against web/openapi.yaml both ways.
func routes(r *resources) []httpapi.Route {
	return []httpapi.Route{
		post("/v1/companies", public, limit.Standard, httpapi.Lenient, httpapi.Guard(r.companies.mayRegister, httpapi.Endpoint(201, r.companies.createCompany))),
		post("/v1/setup", public, limit.Sensitive, httpapi.Lenient, httpapi.Guard(r.companies.mayRegister, httpapi.Endpoint(201, r.companies.createCompany))),
		get("/v1/company", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.companies.getCompany)),
		post("/v1/companies/svid", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.companies.companySVID)),
		post("/v1/companies/rotate-keys", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.companies.rotateKeys)),
		post("/v1/recover-key", public, limit.Standard, httpapi.Lenient, httpapi.Guard(r.companies.localOnly, httpapi.Endpoint(200, r.companies.recoverKey))),

		post("/v1/agents/register", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.agents.registerAgent)),
		get("/v1/agents", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agents.listAgents)),
		get("/v1/agents/{agentId}", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.agents.getAgent)),
		post("/v1/agents/{agentId}/disable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agents.disableAgent)),
		post("/v1/agents/{agentId}/enable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agents.enableAgent)),
		post("/v1/agents/{agentId}/keys", enrolling, limit.Standard, httpapi.Strict, r.agentKeys.enrolment()),
		get("/v1/agents/{agentId}/keys", readerOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.listAgentKeys)),
		del("/v1/agents/{agentId}/keys/{thumbprint}", adminOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.revokeAgentKey)),
		post("/v1/agents/{agentId}/enrolments", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(201, r.agentKeys.createEnrolment)),
		get("/v1/enrolment", enrolmentOnly, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.ownEnrolment)),
		put("/v1/agents/{agentId}/policy", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.setAgentPolicy)),
		put("/v1/company/policy", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.setCompanyPolicy)),
		post("/v1/agents/{agentId}/token", adminOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(201, r.issuers.agentToken)),
		get("/v1/agents/{agentId}/svid", adminIssues, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.issuers.agentSVID)),

		post("/v1/keys", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.credentials.createKey)),
		get("/v1/keys", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.credentials.listKeys)),
		del("/v1/keys/{key}", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.credentials.deleteKey)),
		post("/v1/oauth/clients", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.clients.createOAuthClient)),
		get("/v1/oauth/clients", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.clients.listOAuthClients)),
		del("/v1/oauth/clients/{clientId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.clients.deleteOAuthClient)),
		post("/v1/federation", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(201, r.federations.createFederation)),
		get("/v1/federation", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.federations.listFederations)),
		get("/v1/federation/{name}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.federations.getFederation)),
		del("/v1/federation/{name}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.federations.deleteFederation)),
		get("/v1/credentials", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.credentials.listCredentials)),
		post("/v1/oauth/token", tokenSeeker, limit.Sensitive, httpapi.Lenient, r.tokens.endpoint()),
		post("/o/{companyId}/token", tokenSeeker, limit.Sensitive, httpapi.StrictQuery, r.tokens.endpointOfCompany()),
		post("/o/{companyId}/introspect", clientAsks, limit.Standard, httpapi.StrictQuery, r.tokens.introspection()),
		post("/o/{companyId}/revoke", clientRevoke, limit.Standard, httpapi.StrictQuery, r.tokens.revocation()),

		post("/v1/attest", writerOrAgent, limit.Attest, httpapi.Lenient, httpapi.EndpointOf(attestForm, 201, r.attestations.attest)),
		// its items count as attest
		post("/v1/attest/batch", writerOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(201, r.attestations.attestBatch)),
		// so do its records
		post("/v1/hooks/claude-code", writerOrAgent, limit.Standard, httpapi.StrictQuery, r.hooks.claudeCodeHook()),
		post("/v1/otlp/v1/traces", writerOrAgent, limit.Standard, httpapi.StrictQuery, r.otlp.telemetryExport(telemetry.Traces)),
		post("/v1/otlp/v1/logs", writerOrAgent, limit.Standard, httpapi.StrictQuery, r.otlp.telemetryExport(telemetry.Logs)),
		get("/v1/sessions", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidences.listSessions)),
		get("/v1/sessions/{agentId}/{sid}", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidences.session)),
		get("/v1/sessions/{agentId}/{sid}/records", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidences.sessionRecords)),
		get("/v1/chain", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.chains.readChain)),
		get("/v1/records", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.searches.searchRecords)),
		get("/v1/records/histogram", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.searches.countRecords)),
		get("/v1/verify", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.chains.verifyChain)),
		get("/v1/proof/{index}", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.chains.prove)),
		get("/v1/authority/{index}", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidences.authority)),
		get("/v1/evidence/{index}", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidences.evidence)),
		get("/v1/report", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidences.report)),
		get("/v1/consistency", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.logs.proveConsistency)),

		get("/v1/logs", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.logs.listLogs)),
		get("/v1/log/{logId}/checkpoint", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.logCheckpoint)),
		get("/v1/log/{logId}/tile/{path...}", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.logTile)),
		get("/v1/log/{logId}/proof/{index}", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.logProof)),
		get("/v1/log/{logId}/consistency", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.logConsistency)),

		post("/v1/witness/add-checkpoint", public, limit.Standard, httpapi.StrictQuery, httpapi.Guard(r.cosignatures.isWitness, r.cosignatures.addition())),
		get("/v1/witness", public, limit.Standard, httpapi.Strict, httpapi.Guard(r.cosignatures.isWitness, httpapi.Endpoint(200, r.cosignatures.getWitness))),
		get("/v1/witness/{originHash}/checkpoint", public, limit.Standard, httpapi.Strict, httpapi.Guard(r.cosignatures.isWitness, httpapi.Endpoint(200, r.cosignatures.cosignedCheckpoint))),

		post("/v1/webhooks", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(201, r.webhooks.createWebhook)),
		get("/v1/webhooks", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.listWebhooks)),
		get("/v1/webhooks/{webhookId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.getWebhook)),
		del("/v1/webhooks/{webhookId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.deleteWebhook)),
		post("/v1/webhooks/{webhookId}/enable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.enableWebhook)),
		post("/v1/webhooks/{webhookId}/disable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.disableWebhook)),
		post("/v1/webhooks/{webhookId}/rotate-secret", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.rotateWebhookSecret)),
		post("/v1/webhooks/{webhookId}/test", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.testWebhook)),

		post("/v1/token-exchange", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.delegations.delegate)),
		post("/v1/token/exchange", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.delegations.exchangeTokens)),

		post("/v1/agents/{agentId}/passport", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.passports.issuePassport)),
		post("/v1/agents/{agentId}/passport/rotate", adminOrAgent, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.rotatePassport)),
		post("/v1/passport/verify", agentAsks, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.verifyPassport)),
		get("/v1/passports", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.passports.listPassports)),
		post("/v1/passports/{jti}/revoke", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.revokePassport)),
		get("/v1/passports/revoked", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.revokedPassports)),
		get("/v1/ocsp/{jti}", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.ocsp)),

		get("/v1/ca/public-key", public, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.discoveries.publicKey)),
		get("/v1/ca/public-keys", public, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.discoveries.publicKeys)),
		get("/v1/ca/well-known", public, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.discoveries.wellKnown)),

		get("/.well-known/oauth-authorization-server/o/{companyId}", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.issuerDocument)),
		get("/.well-known/oauth-protected-resource", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.wholeResource)),
		get("/.well-known/oauth-protected-resource/o/{companyId}", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.companyResource)),
		get("/.well-known/openid-configuration/o/{companyId}", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.issuerDocument)),
		get("/o/{companyId}/.well-known/openid-configuration", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.issuerDocument)),
		get("/o/{companyId}/jwks", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.issuerKeys)),
		get("/o/{companyId}/spiffe-bundle", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.issuerBundle)),

		get("/v1/openapi.json", public, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, openAPI)),
		get("/v1/health", public, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, health)),
		get("/readyz", public, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.status.ready)),
		get("/v1/ws", follower, limit.Standard, httpapi.Lenient, r.streams.endpoint()),
	}
}

// Handler is the whole service: the API below /v1/, the console elsewhere.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes(&s.resources) {
		mux.HandleFunc(rt.Method+" "+rt.Path, s.api.Handle(rt))
		if rt.Needs.AnyPage {
			asked := httpapi.Route{Needs: anyPage, Tier: rt.Tier, Handler: httpapi.Preflight(rt.Method)}
			mux.HandleFunc("OPTIONS "+rt.Path, s.api.Handle(asked))
		}
	}
	// which is in the metadata of an issuer and gives nothing: no operation of the reference
	mux.HandleFunc("GET /o/{companyId}/authorize", s.api.Handle(httpapi.Route{Needs: anyPage, Undeclared: httpapi.Lenient, Tier: limit.Standard, Handler: httpapi.Endpoint(http.StatusBadRequest, s.resources.issuers.authorize)}))
	// Patterns without a method, so that they take what no route does, whatever its method.
	elsewhere := s.api.Handle(httpapi.Route{Needs: public, Handler: httpapi.Handler{Serve: func(c *httpapi.Call) error { return notFound(mux, c) }}})
	// ServeMux has no empty wildcard
	revoke := s.api.Handle(httpapi.Route{Needs: admin, Undeclared: httpapi.Lenient, Tier: limit.Standard, Handler: httpapi.Endpoint(http.StatusOK, s.resources.passports.revokePassport)})
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
		switch {
		case r.URL.Path == "/v1/passports//revoke" && r.Method == http.MethodPost:
			revoke(w, r)
		case !clean(r.URL.Path): // ServeMux would redirect, and a redirected POST becomes a GET
			elsewhere(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

func clean(p string) bool { return p == path.Clean(p) || p == "/v1/" }

// notFound answers for what no route takes: a wrong method with the right ones, anything else with
// 404.
func notFound(mux *http.ServeMux, c *httpapi.Call) error {
	if !clean(c.URL.Path) {
		return httpapi.Fail(http.StatusNotFound, "Not Found")
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
		return httpapi.Fail(http.StatusNotFound, "Not Found: OTLP is received below /v1/otlp; set OTEL_EXPORTER_OTLP_ENDPOINT to this server's address and /v1/otlp")
	}
	if len(allowed) > 0 {
		return httpapi.Fail(http.StatusMethodNotAllowed, "Method Not Allowed").With("Allow", strings.Join(allowed, ", "))
	}
	return httpapi.Fail(http.StatusNotFound, "Not Found")
}
