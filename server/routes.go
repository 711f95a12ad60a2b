package server

import (
	"attestd/server/api"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/service/telemetry"
)

// Who may call a route.
var (
	public  = httpapi.Need{Who: httpapi.Anonymous}
	anyPage = httpapi.Need{Who: httpapi.Anonymous, AnyPage: true}
	reader  = httpapi.Need{Who: httpapi.IsReader | httpapi.IsWriter | httpapi.IsAdmin}
	admin   = httpapi.Need{Who: httpapi.IsAdmin}
	person  = httpapi.Need{Who: httpapi.IsPerson}

	adminSees = httpapi.Need{Who: httpapi.IsAdmin, Secrets: true}

	readerOrAgent = httpapi.Need{Who: httpapi.IsReader | httpapi.IsWriter | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsForPerson}
	writerOrAgent = httpapi.Need{Who: httpapi.IsWriter | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsForPerson}
	adminOrAgent  = httpapi.Need{Who: httpapi.IsAdmin | httpapi.IsAgent}
	enrolling     = httpapi.Need{Who: httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsEnrolling}
	enrolmentOnly = httpapi.Need{Who: httpapi.IsEnrolling}
	agentAsks     = httpapi.Need{Who: httpapi.IsWriter | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsForPerson, Reads: true}
	mayAsk        = httpapi.Need{Who: readerOrAgent.Who, Reads: true}
	adminIssues   = httpapi.Need{Who: httpapi.IsAdmin | httpapi.IsAgent, Issues: true}

	tokenSeeker  = httpapi.Need{Who: httpapi.Anonymous | httpapi.IsClient | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsForPerson}
	clientRevoke = httpapi.Need{Who: httpapi.IsClient | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsForPerson}
	clientAsks   = httpapi.Need{Who: httpapi.IsClient | httpapi.IsAdmin | httpapi.IsAgent | httpapi.IsForPerson, Reads: true}
	follower     = httpapi.Need{Who: httpapi.Anonymous | httpapi.IsReader | httpapi.IsWriter | httpapi.IsAdmin, Socket: true}
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

func patch(path string, needs httpapi.Need, tier limit.Tier, policy httpapi.Undeclared, h httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: "PATCH", Path: path, Needs: needs, Tier: tier, Undeclared: policy, Handler: h}
}

func del(path string, needs httpapi.Need, tier limit.Tier, policy httpapi.Undeclared, h httpapi.Handler) httpapi.Route {
	return httpapi.Route{Method: "DELETE", Path: path, Needs: needs, Tier: tier, Undeclared: policy, Handler: h}
}

// resources are what the routes are about. Each has what it needs and no more.
type resources struct {
	agents       api.Agents
	approvals    api.Approvals
	agentKeys    api.AgentKeys
	attestations api.Attestations
	authzen      api.AuthZEN
	chains       api.Chains
	clients      api.Clients
	companies    api.Companies
	witness      api.Witness
	credentials  api.Credentials
	delegations  api.Delegations
	publicKeys   api.PublicKeys
	evidence     api.Evidence
	federations  api.Federations
	hooks        api.Hooks
	issuers      api.Issuers
	logs         api.Logs
	telemetry    api.Telemetry
	passports    api.Passports
	people       api.People
	policies     api.Policies
	searches     api.Searches
	status       *status
	streams      api.Streams
	tokens       api.Tokens
	webhooks     api.Webhooks
}

// routes returns the API. A test holds it against web/openapi.yaml both ways.
func routes(r *resources) []httpapi.Route {
	return []httpapi.Route{
		post("/v1/companies", public, limit.Standard, httpapi.Lenient, httpapi.Guard(r.companies.MayRegister, httpapi.Endpoint(201, r.companies.Create))),
		post("/v1/setup", public, limit.Sensitive, httpapi.Lenient, httpapi.Guard(r.companies.MayRegister, httpapi.Endpoint(201, r.companies.Create))),
		get("/v1/company", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.companies.Get)),
		post("/v1/companies/svid", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.companies.SVID)),
		post("/v1/companies/rotate-keys", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.companies.RotateKeys)),
		post("/v1/recover-key", public, limit.Standard, httpapi.Lenient, httpapi.Guard(r.companies.LocalOnly, httpapi.Endpoint(200, r.companies.RecoverKey))),

		post("/v1/agents/register", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.agents.Register)),
		get("/v1/agents", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agents.List)),
		get("/v1/agents/{agentId}", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.agents.Get)),
		post("/v1/agents/{agentId}/disable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agents.Disable)),
		post("/v1/agents/{agentId}/enable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agents.Enable)),
		post("/v1/agents/{agentId}/keys", enrolling, limit.Standard, httpapi.Strict, r.agentKeys.Enrolling()),
		get("/v1/agents/{agentId}/keys", readerOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.List)),
		del("/v1/agents/{agentId}/keys/{thumbprint}", adminOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.Revoke)),
		post("/v1/agents/{agentId}/enrolments", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(201, r.agentKeys.CreateEnrolment)),
		get("/v1/enrolment", enrolmentOnly, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.OwnEnrolment)),
		put("/v1/agents/{agentId}/policy", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.SetAgentPolicy)),
		put("/v1/company/policy", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.agentKeys.SetCompanyPolicy)),
		post("/v1/agents/{agentId}/token", adminOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(201, r.issuers.AgentToken)),
		get("/v1/agents/{agentId}/svid", adminIssues, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.issuers.AgentSVID)),

		get("/v1/policies", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.policies.List)),
		post("/v1/policies/test", reader, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.policies.Try)),
		get("/v1/policies/{policyId}", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.policies.Get)),
		put("/v1/policies/{policyId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.policies.Put)),
		del("/v1/policies/{policyId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.policies.Delete)),

		post("/v1/approvals", writerOrAgent, limit.Attest, httpapi.Strict, httpapi.Endpoint(201, r.approvals.Request)),
		get("/v1/approvals", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.approvals.List)),
		get("/v1/approvals/{approvalId}", readerOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.approvals.Get)),
		del("/v1/approvals/{approvalId}", writerOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.approvals.Withdraw)),
		post("/v1/approvals/{approvalId}/options", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.approvals.Options)),
		post("/v1/approvals/{approvalId}/decision", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.approvals.Decide)),

		post("/access/v1/evaluation", mayAsk, limit.Standard, httpapi.StrictQuery, r.authzen.Evaluation()),
		post("/access/v1/evaluations", mayAsk, limit.Standard, httpapi.StrictQuery, r.authzen.Evaluations()),
		get("/.well-known/authzen-configuration", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.authzen.Metadata)),
		get("/.well-known/authzen-configuration/o/{companyId}", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.authzen.CompanyMetadata)),

		post("/v1/people", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(201, r.people.Create)),
		get("/v1/people", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.List)),
		post("/v1/people/enrol/options", public, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.people.EnrolOptions)),
		post("/v1/people/enrol", public, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(201, r.people.Enrol)),
		post("/v1/people/sign-in/options", public, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.people.SignInOptions)),
		post("/v1/people/sign-in", public, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.people.SignIn)),
		get("/v1/people/me", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.Me)),
		post("/v1/people/me/passkeys/options", person, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.people.AddOptions)),
		post("/v1/people/me/passkeys", person, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(201, r.people.Add)),
		del("/v1/people/me/passkeys/{credentialId}", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.RevokeOwn)),
		post("/v1/people/me/reauthenticate/options", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.ReauthenticateOptions)),
		post("/v1/people/me/reauthenticate", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.Reauthenticate)),
		get("/v1/people/me/sessions", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.Sessions)),
		del("/v1/people/me/sessions", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.EndSessions)),
		del("/v1/people/me/sessions/{sessionId}", person, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.EndSession)),
		get("/v1/people/{personId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.Get)),
		patch("/v1/people/{personId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.Change)),
		del("/v1/people/{personId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.Delete)),
		post("/v1/people/{personId}/invitations", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(201, r.people.Invite)),
		del("/v1/people/{personId}/passkeys/{credentialId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.people.RevokePasskey)),

		post("/v1/keys", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.credentials.CreateKey)),
		get("/v1/keys", adminSees, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.credentials.ListKeys)),
		del("/v1/keys/{key}", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.credentials.DeleteKey)),
		post("/v1/oauth/clients", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.clients.Create)),
		get("/v1/oauth/clients", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.clients.List)),
		del("/v1/oauth/clients/{clientId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.clients.Delete)),
		post("/v1/federation", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(201, r.federations.Create)),
		get("/v1/federation", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.federations.List)),
		get("/v1/federation/{name}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.federations.Get)),
		del("/v1/federation/{name}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.federations.Delete)),
		get("/v1/credentials", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.credentials.ListCredentials)),
		post("/v1/oauth/token", tokenSeeker, limit.Sensitive, httpapi.Lenient, r.tokens.Endpoint()),
		post("/o/{companyId}/token", tokenSeeker, limit.Sensitive, httpapi.StrictQuery, r.tokens.CompanyEndpoint()),
		post("/o/{companyId}/introspect", clientAsks, limit.Standard, httpapi.StrictQuery, r.tokens.Introspection()),
		post("/o/{companyId}/revoke", clientRevoke, limit.Standard, httpapi.StrictQuery, r.tokens.Revocation()),

		post("/v1/attest", writerOrAgent, limit.Attest, httpapi.Lenient, httpapi.EndpointOf(api.AttestForm, 201, r.attestations.Attest)),
		// its items count as attest
		post("/v1/attest/batch", writerOrAgent, limit.Standard, httpapi.Strict, httpapi.Endpoint(201, r.attestations.AttestBatch)),
		// so do its records
		post("/v1/hooks/claude-code", writerOrAgent, limit.Standard, httpapi.StrictQuery, r.hooks.ClaudeCode()),
		post("/v1/otlp/v1/traces", writerOrAgent, limit.Standard, httpapi.StrictQuery, r.telemetry.Export(telemetry.Traces)),
		post("/v1/otlp/v1/logs", writerOrAgent, limit.Standard, httpapi.StrictQuery, r.telemetry.Export(telemetry.Logs)),
		get("/v1/sessions", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidence.Sessions)),
		get("/v1/sessions/{agentId}/{sid}", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidence.Session)),
		get("/v1/sessions/{agentId}/{sid}/records", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidence.SessionRecords)),
		get("/v1/chain", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.chains.Read)),
		get("/v1/records", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.searches.Search)),
		get("/v1/records/histogram", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.searches.Count)),
		get("/v1/verify", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.chains.Verify)),
		get("/v1/proof/{index}", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.chains.Prove)),
		get("/v1/authority/{index}", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidence.Authority)),
		get("/v1/evidence/{index}", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidence.File)),
		get("/v1/report", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.evidence.Report)),
		get("/v1/consistency", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.logs.ProveConsistency)),

		get("/v1/logs", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.logs.List)),
		get("/v1/log/{logId}/checkpoint", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.Checkpoint)),
		get("/v1/log/{logId}/tile/{path...}", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.Tile)),
		get("/v1/log/{logId}/proof/{index}", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.Proof)),
		get("/v1/log/{logId}/consistency", reader, limit.Log, httpapi.Strict, httpapi.Endpoint(200, r.logs.Consistency)),

		post("/v1/witness/add-checkpoint", public, limit.Standard, httpapi.StrictQuery, httpapi.Guard(r.witness.IsWitness, r.witness.AddCheckpoint())),
		get("/v1/witness", public, limit.Standard, httpapi.Strict, httpapi.Guard(r.witness.IsWitness, httpapi.Endpoint(200, r.witness.Get))),
		get("/v1/witness/{originHash}/checkpoint", public, limit.Standard, httpapi.Strict, httpapi.Guard(r.witness.IsWitness, httpapi.Endpoint(200, r.witness.Checkpoint))),

		post("/v1/webhooks", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(201, r.webhooks.Create)),
		get("/v1/webhooks", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.List)),
		get("/v1/webhooks/{webhookId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.Get)),
		del("/v1/webhooks/{webhookId}", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.Delete)),
		post("/v1/webhooks/{webhookId}/enable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.Enable)),
		post("/v1/webhooks/{webhookId}/disable", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.Disable)),
		post("/v1/webhooks/{webhookId}/rotate-secret", admin, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.RotateSecret)),
		post("/v1/webhooks/{webhookId}/test", admin, limit.Sensitive, httpapi.Strict, httpapi.Endpoint(200, r.webhooks.Test)),

		post("/v1/token-exchange", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.delegations.Delegate)),
		post("/v1/token/exchange", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.delegations.ExchangeTokens)),

		post("/v1/agents/{agentId}/passport", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(201, r.passports.Issue)),
		post("/v1/agents/{agentId}/passport/rotate", adminOrAgent, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.Rotate)),
		post("/v1/passport/verify", agentAsks, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.Verify)),
		get("/v1/passports", reader, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.passports.List)),
		post("/v1/passports/{jti}/revoke", admin, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.Revoke)),
		get("/v1/passports/revoked", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.Revoked)),
		get("/v1/ocsp/{jti}", reader, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.passports.OCSP)),

		get("/v1/ca/public-key", public, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.publicKeys.Current)),
		get("/v1/ca/public-keys", public, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.publicKeys.All)),
		get("/v1/ca/well-known", public, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, r.publicKeys.WellKnown)),

		get("/.well-known/oauth-authorization-server/o/{companyId}", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.Metadata)),
		get("/.well-known/oauth-protected-resource", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.ServerResource)),
		get("/.well-known/oauth-protected-resource/o/{companyId}", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.CompanyResource)),
		get("/.well-known/openid-configuration/o/{companyId}", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.Metadata)),
		get("/o/{companyId}/.well-known/openid-configuration", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.Metadata)),
		get("/o/{companyId}/jwks", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.Keys)),
		get("/o/{companyId}/spiffe-bundle", anyPage, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.issuers.Bundle)),

		get("/v1/openapi.json", public, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, api.OpenAPI)),
		get("/v1/health", public, limit.Standard, httpapi.Lenient, httpapi.Endpoint(200, api.Health)),
		get("/readyz", public, limit.Standard, httpapi.Strict, httpapi.Endpoint(200, r.status.ready)),
		get("/v1/ws", follower, limit.Standard, httpapi.Lenient, r.streams.Endpoint()),
	}
}
