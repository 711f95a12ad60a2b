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
func routes(r *resources) []route {
	return []route{
		{"POST", "/v1/companies", public, limit.Standard, lenient, guard(r.companies.mayRegister, endpoint(201, r.companies.createCompany))},
		{"POST", "/v1/setup", public, limit.Sensitive, lenient, guard(r.companies.mayRegister, endpoint(201, r.companies.createCompany))},
		{"GET", "/v1/company", reader, limit.Standard, lenient, endpoint(200, r.companies.getCompany)},
		{"POST", "/v1/companies/svid", admin, limit.Standard, lenient, endpoint(200, r.companies.companySVID)},
		{"POST", "/v1/companies/rotate-keys", admin, limit.Sensitive, strict, endpoint(200, r.companies.rotateKeys)},
		{"POST", "/v1/recover-key", public, limit.Standard, lenient, guard(r.companies.localOnly, endpoint(200, r.companies.recoverKey))},

		{"POST", "/v1/agents/register", admin, limit.Standard, lenient, endpoint(201, r.agents.registerAgent)},
		{"GET", "/v1/agents", reader, limit.Standard, strict, endpoint(200, r.agents.listAgents)},
		{"GET", "/v1/agents/{agentId}", reader, limit.Standard, lenient, endpoint(200, r.agents.getAgent)},
		{"POST", "/v1/agents/{agentId}/disable", admin, limit.Standard, strict, endpoint(200, r.agents.disableAgent)},
		{"POST", "/v1/agents/{agentId}/enable", admin, limit.Standard, strict, endpoint(200, r.agents.enableAgent)},
		{"POST", "/v1/agents/{agentId}/keys", enrolling, limit.Standard, strict, r.agentKeys.enrolment()},
		{"GET", "/v1/agents/{agentId}/keys", readerOrAgent, limit.Standard, strict, endpoint(200, r.agentKeys.listAgentKeys)},
		{"DELETE", "/v1/agents/{agentId}/keys/{thumbprint}", adminOrAgent, limit.Standard, strict, endpoint(200, r.agentKeys.revokeAgentKey)},
		{"POST", "/v1/agents/{agentId}/enrolments", admin, limit.Sensitive, strict, endpoint(201, r.agentKeys.createEnrolment)},
		{"GET", "/v1/enrolment", enrolmentOnly, limit.Standard, strict, endpoint(200, r.agentKeys.ownEnrolment)},
		{"PUT", "/v1/agents/{agentId}/policy", admin, limit.Standard, strict, endpoint(200, r.agentKeys.setAgentPolicy)},
		{"PUT", "/v1/company/policy", admin, limit.Standard, strict, endpoint(200, r.agentKeys.setCompanyPolicy)},
		{"POST", "/v1/agents/{agentId}/token", adminOrAgent, limit.Standard, strict, endpoint(201, r.issuers.agentToken)},
		{"GET", "/v1/agents/{agentId}/svid", adminIssues, limit.Standard, lenient, endpoint(200, r.issuers.agentSVID)},

		{"POST", "/v1/keys", admin, limit.Standard, lenient, endpoint(201, r.credentials.createKey)},
		{"GET", "/v1/keys", admin, limit.Standard, lenient, endpoint(200, r.credentials.listKeys)},
		{"DELETE", "/v1/keys/{key}", admin, limit.Standard, lenient, endpoint(200, r.credentials.deleteKey)},
		{"POST", "/v1/oauth/clients", admin, limit.Standard, lenient, endpoint(201, r.clients.createOAuthClient)},
		{"GET", "/v1/oauth/clients", admin, limit.Standard, lenient, endpoint(200, r.clients.listOAuthClients)},
		{"DELETE", "/v1/oauth/clients/{clientId}", admin, limit.Standard, strict, endpoint(200, r.clients.deleteOAuthClient)},
		{"POST", "/v1/federation", admin, limit.Sensitive, strict, endpoint(201, r.federations.createFederation)},
		{"GET", "/v1/federation", admin, limit.Standard, strict, endpoint(200, r.federations.listFederations)},
		{"GET", "/v1/federation/{name}", admin, limit.Standard, strict, endpoint(200, r.federations.getFederation)},
		{"DELETE", "/v1/federation/{name}", admin, limit.Standard, strict, endpoint(200, r.federations.deleteFederation)},
		{"GET", "/v1/credentials", admin, limit.Standard, strict, endpoint(200, r.credentials.listCredentials)},
		{"POST", "/v1/oauth/token", tokenSeeker, limit.Sensitive, lenient, r.tokens.endpoint()},
		{"POST", "/o/{companyId}/token", tokenSeeker, limit.Sensitive, strictQuery, r.tokens.endpointOfCompany()},
		{"POST", "/o/{companyId}/introspect", clientAsks, limit.Standard, strictQuery, r.tokens.introspection()},
		{"POST", "/o/{companyId}/revoke", clientRevoke, limit.Standard, strictQuery, r.tokens.revocation()},

		{"POST", "/v1/attest", writerOrAgent, limit.Attest, lenient, endpointOf(attestForm, 201, r.attestations.attest)},
		// its items count as attest
		{"POST", "/v1/attest/batch", writerOrAgent, limit.Standard, strict, endpoint(201, r.attestations.attestBatch)},
		// so do its records
		{"POST", "/v1/hooks/claude-code", writerOrAgent, limit.Standard, strictQuery, r.hooks.claudeCodeHook()},
		{"POST", "/v1/otlp/v1/traces", writerOrAgent, limit.Standard, strictQuery, r.otlp.telemetryExport(telemetry.Traces)},
		{"POST", "/v1/otlp/v1/logs", writerOrAgent, limit.Standard, strictQuery, r.otlp.telemetryExport(telemetry.Logs)},
		{"GET", "/v1/sessions", reader, limit.Standard, strict, endpoint(200, r.evidences.listSessions)},
		{"GET", "/v1/sessions/{agentId}/{sid}", reader, limit.Standard, strict, endpoint(200, r.evidences.session)},
		{"GET", "/v1/sessions/{agentId}/{sid}/records", reader, limit.Standard, strict, endpoint(200, r.evidences.sessionRecords)},
		{"GET", "/v1/chain", reader, limit.Standard, lenient, endpoint(200, r.chains.readChain)},
		{"GET", "/v1/records", reader, limit.Standard, strict, endpoint(200, r.searches.searchRecords)},
		{"GET", "/v1/records/histogram", reader, limit.Standard, strict, endpoint(200, r.searches.countRecords)},
		{"GET", "/v1/verify", reader, limit.Standard, lenient, endpoint(200, r.chains.verifyChain)},
		{"GET", "/v1/proof/{index}", reader, limit.Standard, lenient, endpoint(200, r.chains.prove)},
		{"GET", "/v1/authority/{index}", reader, limit.Standard, strict, endpoint(200, r.evidences.authority)},
		{"GET", "/v1/evidence/{index}", reader, limit.Standard, strict, endpoint(200, r.evidences.evidence)},
		{"GET", "/v1/report", reader, limit.Standard, strict, endpoint(200, r.evidences.report)},
		{"GET", "/v1/consistency", reader, limit.Standard, strict, endpoint(200, r.logs.proveConsistency)},

		{"GET", "/v1/logs", reader, limit.Standard, strict, endpoint(200, r.logs.listLogs)},
		{"GET", "/v1/log/{logId}/checkpoint", reader, limit.Log, strict, endpoint(200, r.logs.logCheckpoint)},
		{"GET", "/v1/log/{logId}/tile/{path...}", reader, limit.Log, strict, endpoint(200, r.logs.logTile)},
		{"GET", "/v1/log/{logId}/proof/{index}", reader, limit.Log, strict, endpoint(200, r.logs.logProof)},
		{"GET", "/v1/log/{logId}/consistency", reader, limit.Log, strict, endpoint(200, r.logs.logConsistency)},

		{"POST", "/v1/witness/add-checkpoint", public, limit.Standard, strictQuery, guard(r.cosignatures.isWitness, r.cosignatures.addition())},
		{"GET", "/v1/witness", public, limit.Standard, strict, guard(r.cosignatures.isWitness, endpoint(200, r.cosignatures.getWitness))},
		{"GET", "/v1/witness/{originHash}/checkpoint", public, limit.Standard, strict, guard(r.cosignatures.isWitness, endpoint(200, r.cosignatures.cosignedCheckpoint))},

		{"POST", "/v1/webhooks", admin, limit.Standard, strict, endpoint(201, r.webhooks.createWebhook)},
		{"GET", "/v1/webhooks", admin, limit.Standard, strict, endpoint(200, r.webhooks.listWebhooks)},
		{"GET", "/v1/webhooks/{webhookId}", admin, limit.Standard, strict, endpoint(200, r.webhooks.getWebhook)},
		{"DELETE", "/v1/webhooks/{webhookId}", admin, limit.Standard, strict, endpoint(200, r.webhooks.deleteWebhook)},
		{"POST", "/v1/webhooks/{webhookId}/enable", admin, limit.Standard, strict, endpoint(200, r.webhooks.enableWebhook)},
		{"POST", "/v1/webhooks/{webhookId}/disable", admin, limit.Standard, strict, endpoint(200, r.webhooks.disableWebhook)},
		{"POST", "/v1/webhooks/{webhookId}/rotate-secret", admin, limit.Standard, strict, endpoint(200, r.webhooks.rotateWebhookSecret)},
		{"POST", "/v1/webhooks/{webhookId}/test", admin, limit.Sensitive, strict, endpoint(200, r.webhooks.testWebhook)},

		{"POST", "/v1/token-exchange", admin, limit.Standard, lenient, endpoint(201, r.delegations.delegate)},
		{"POST", "/v1/token/exchange", admin, limit.Standard, lenient, endpoint(200, r.delegations.exchangeTokens)},

		{"POST", "/v1/agents/{agentId}/passport", admin, limit.Standard, lenient, endpoint(201, r.passports.issuePassport)},
		{"POST", "/v1/agents/{agentId}/passport/rotate", adminOrAgent, limit.Standard, lenient, endpoint(200, r.passports.rotatePassport)},
		{"POST", "/v1/passport/verify", agentAsks, limit.Standard, lenient, endpoint(200, r.passports.verifyPassport)},
		{"GET", "/v1/passports", reader, limit.Standard, strict, endpoint(200, r.passports.listPassports)},
		{"POST", "/v1/passports/{jti}/revoke", admin, limit.Standard, lenient, endpoint(200, r.passports.revokePassport)},
		{"GET", "/v1/passports/revoked", reader, limit.Standard, lenient, endpoint(200, r.passports.revokedPassports)},
		{"GET", "/v1/ocsp/{jti}", reader, limit.Standard, lenient, endpoint(200, r.passports.ocsp)},

		{"GET", "/v1/ca/public-key", public, limit.Standard, lenient, endpoint(200, r.discoveries.publicKey)},
		{"GET", "/v1/ca/public-keys", public, limit.Standard, strict, endpoint(200, r.discoveries.publicKeys)},
		{"GET", "/v1/ca/well-known", public, limit.Standard, lenient, endpoint(200, r.discoveries.wellKnown)},

		{"GET", "/.well-known/oauth-authorization-server/o/{companyId}", anyPage, limit.Standard, strict, endpoint(200, r.issuers.issuerDocument)},
		{"GET", "/.well-known/oauth-protected-resource", anyPage, limit.Standard, strict, endpoint(200, r.issuers.wholeResource)},
		{"GET", "/.well-known/oauth-protected-resource/o/{companyId}", anyPage, limit.Standard, strict, endpoint(200, r.issuers.companyResource)},
		{"GET", "/.well-known/openid-configuration/o/{companyId}", anyPage, limit.Standard, strict, endpoint(200, r.issuers.issuerDocument)},
		{"GET", "/o/{companyId}/.well-known/openid-configuration", anyPage, limit.Standard, strict, endpoint(200, r.issuers.issuerDocument)},
		{"GET", "/o/{companyId}/jwks", anyPage, limit.Standard, strict, endpoint(200, r.issuers.issuerKeys)},
		{"GET", "/o/{companyId}/spiffe-bundle", anyPage, limit.Standard, strict, endpoint(200, r.issuers.issuerBundle)},

		{"GET", "/v1/openapi.json", public, limit.Standard, strict, endpoint(200, openAPI)},
		{"GET", "/v1/health", public, limit.Standard, lenient, endpoint(200, health)},
		{"GET", "/readyz", public, limit.Standard, strict, endpoint(200, r.status.ready)},
		{"GET", "/v1/ws", follower, limit.Standard, lenient, r.streams.endpoint()},
	}
}

// Handler is the whole service: the API below /v1/, the console elsewhere.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes(&s.resources) {
		mux.HandleFunc(rt.method+" "+rt.path, s.api.handle(rt))
		if rt.needs.anyPage {
			asked := route{needs: anyPage, tier: rt.tier, handler: preflight(rt.method)}
			mux.HandleFunc("OPTIONS "+rt.path, s.api.handle(asked))
		}
	}
	// which is in the metadata of an issuer and gives nothing: no operation of the reference
	mux.HandleFunc("GET /o/{companyId}/authorize", s.api.handle(route{needs: anyPage, undeclared: lenient, tier: limit.Standard, handler: endpoint(http.StatusBadRequest, s.resources.issuers.authorize)}))
	// Patterns without a method, so that they take what no route does, whatever its method.
	elsewhere := s.api.handle(route{needs: public, handler: handler{serve: func(c *call) error { return notFound(mux, c) }}})
	// ServeMux has no empty wildcard
	revoke := s.api.handle(route{needs: admin, undeclared: lenient, tier: limit.Standard, handler: endpoint(http.StatusOK, s.resources.passports.revokePassport)})
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
func notFound(mux *http.ServeMux, c *call) error {
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
