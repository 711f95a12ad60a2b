import type { components, operations as Documented } from "./openapi.js";

/** How an operation is called and what it answers. */
export interface Route {
  call: `${"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} /${string}`;
  /** Of the body; "*" is any. */
  members?: readonly string[];
  query?: readonly string[];
  header?: readonly string[];
  /** JSON unless it says otherwise; text is in the argument text. */
  body?: "form" | "text";
  answer?: "text" | "bytes" | "lines" | "stream";
  /** The one success; 200 unless it says otherwise. */
  status?: 201;
  /** A refusal that says valid: false is an answer too. */
  denies?: true;
  /** No credential is sent. */
  public?: true;
  /** To carry it out twice is no more than once, although it is no GET. */
  safe?: true;
}

const page = ["limit", "cursor"] as const;
const search = ["log", "agent", "action", "delegatedBy", "decision", "policy", "since", "until"] as const;

/** What only the console of a browser does: it takes an authenticator and a cookie. */
type InBrowser = "enrolPasskeyOptions" | "enrolPasskey" | "signInOptions" | "signIn" | "getMe"
  | "addPasskeyOptions" | "addPasskey" | "revokeOwnPasskey" | "reauthenticateOptions"
  | "reauthenticate" | "listOwnSessions" | "endOwnSessions" | "endOwnSession"
  | "approvalOptions" | "decideApproval" | "signInWays" | "beginOidc" | "finishOidc";

/** All operations of the API reference, by their names there. */
export const operations = {
  createCompany: { call: "POST /v1/companies", members: ["companyId", "metadata"], status: 201 },
  setup: { call: "POST /v1/setup", members: ["companyId", "metadata"], status: 201 },
  getCompany: { call: "GET /v1/company" },
  recoverKey: { call: "POST /v1/recover-key", members: ["companyId"], public: true },
  createCompanySVID: { call: "POST /v1/companies/svid", safe: true },
  rotateKeys: { call: "POST /v1/companies/rotate-keys", members: ["compromised"] },

  registerAgent: { call: "POST /v1/agents/register", members: ["agentId", "metadata"], status: 201, header: ["If-None-Match"] },
  listAgents: { call: "GET /v1/agents", query: ["q", "status", ...page] },
  getAgent: { call: "GET /v1/agents/{agentId}" },
  disableAgent: { call: "POST /v1/agents/{agentId}/disable", safe: true },
  enableAgent: { call: "POST /v1/agents/{agentId}/enable", safe: true },
  getAgentSVID: { call: "GET /v1/agents/{agentId}/svid", query: ["audience", "alg"] },
  createAgentToken: { call: "POST /v1/agents/{agentId}/token", members: ["audience", "ttl", "alg"], status: 201, safe: true },
  issuePassport: { call: "POST /v1/agents/{agentId}/passport", members: ["scopes", "ttl", "jkt", "authorizationDetails"], status: 201 },
  rotatePassport: { call: "POST /v1/agents/{agentId}/passport/rotate", header: ["Service-Passport", "Attestd-Passport"] },

  enrolAgentKey: { call: "POST /v1/agents/{agentId}/keys", members: ["jwk", "label", "expiresAt", "proof", "endorsement"], status: 201, header: ["DPoP"] },
  listAgentKeys: { call: "GET /v1/agents/{agentId}/keys" },
  revokeAgentKey: { call: "DELETE /v1/agents/{agentId}/keys/{thumbprint}", members: ["reason", "since"] },
  createEnrolment: { call: "POST /v1/agents/{agentId}/enrolments", members: ["expiresIn", "label"], status: 201 },
  getEnrolment: { call: "GET /v1/enrolment" },
  setAgentPolicy: { call: "PUT /v1/agents/{agentId}/policy", members: ["attest", "groups", "dryRun"], safe: true },
  setCompanyPolicy: { call: "PUT /v1/company/policy", members: ["attest", "exchangeAudiences", "decisions", "changes", "dryRun"], safe: true },
  listPeople: { call: "GET /v1/people" },
  createPerson: { call: "POST /v1/people", members: ["personId", "name", "email", "roles", "groups", "subjects"], status: 201 },
  getPerson: { call: "GET /v1/people/{personId}" },
  changePerson: { call: "PATCH /v1/people/{personId}", members: ["name", "email", "roles", "groups", "subjects", "disabled"], safe: true },
  deletePerson: { call: "DELETE /v1/people/{personId}" },
  invitePerson: { call: "POST /v1/people/{personId}/invitations", members: ["expiresIn"], status: 201 },
  revokePasskey: { call: "DELETE /v1/people/{personId}/passkeys/{credentialId}" },
  listPolicies: { call: "GET /v1/policies" },
  getPolicy: { call: "GET /v1/policies/{policyId}" },
  putPolicy: { call: "PUT /v1/policies/{policyId}", members: ["cedar", "description"], query: ["force"], safe: true },
  deletePolicy: { call: "DELETE /v1/policies/{policyId}" },
  testPolicies: { call: "POST /v1/policies/test", members: ["policies", "draft", "remove", "from", "to", "agentId", "limit"], safe: true },
  requestApproval: { call: "POST /v1/approvals", members: ["agentId", "actionType", "tool", "arguments", "reason", "expiresIn", "callId"], status: 201, safe: true },
  listApprovals: { call: "GET /v1/approvals", query: ["state", ...page] },
  getApproval: { call: "GET /v1/approvals/{approvalId}", query: ["wait"] },
  withdrawApproval: { call: "DELETE /v1/approvals/{approvalId}" },
  evaluateAccess: { call: "POST /access/v1/evaluation", members: ["subject", "action", "resource", "context"], safe: true },
  evaluateAccesses: { call: "POST /access/v1/evaluations", members: ["subject", "action", "resource", "context", "evaluations", "options"], safe: true },
  getAuthzenMetadata: { call: "GET /.well-known/authzen-configuration", public: true },
  getCompanyAuthzenMetadata: { call: "GET /.well-known/authzen-configuration/o/{companyId}", public: true },
  listSessions: { call: "GET /v1/sessions", query: ["agentId", "sid", "kind", "from", "to", ...page] },
  getSession: { call: "GET /v1/sessions/{agentId}/{sid}", query: ["kid", "kind"], answer: "lines" },
  listSessionRecords: { call: "GET /v1/sessions/{agentId}/{sid}/records", query: ["kid", "kind", "from", "limit"] },

  createKey: { call: "POST /v1/keys", members: ["label", "role", "expiresAt"], status: 201 },
  listKeys: { call: "GET /v1/keys" },
  deleteKey: { call: "DELETE /v1/keys/{key}" },
  createOAuthClient: { call: "POST /v1/oauth/clients", members: ["role", "expiresAt", "jwks", "jwksUri"], status: 201 },
  listOAuthClients: { call: "GET /v1/oauth/clients" },
  deleteOAuthClient: { call: "DELETE /v1/oauth/clients/{clientId}" },
  listCredentials: { call: "GET /v1/credentials", query: ["madeBy"] },
  getOAuthToken: { call: "POST /v1/oauth/token", members: ["grant_type", "client_id", "client_secret", "client_assertion_type", "client_assertion", "assertion", "subject_token", "subject_token_type", "requested_token_type", "actor_token", "actor_token_type", "may_act", "audience", "scope", "authorization_details", "resource"], body: "form", public: true, safe: true },
  getCompanyToken: { call: "POST /o/{companyId}/token", members: ["grant_type", "client_id", "client_secret", "client_assertion_type", "client_assertion", "assertion", "subject_token", "subject_token_type", "requested_token_type", "actor_token", "actor_token_type", "may_act", "audience", "scope", "authorization_details", "resource"], body: "form", public: true, safe: true },
  introspectToken: { call: "POST /o/{companyId}/introspect", members: ["token", "token_type_hint", "client_id", "client_secret", "client_assertion_type", "client_assertion"], body: "form", safe: true },
  revokeToken: { call: "POST /o/{companyId}/revoke", members: ["token", "token_type_hint", "client_id", "client_secret", "client_assertion_type", "client_assertion"], body: "form", safe: true },

  attest: { call: "POST /v1/attest", members: ["agentId", "actionType", "payload", "delegation", "statement", "decide", "folder", "passport"], status: 201, header: ["Idempotency-Key"], safe: true },
  attestBatch: { call: "POST /v1/attest/batch", members: ["records"], status: 201, safe: true },
  getChain: { call: "GET /v1/chain", query: ["from", "limit", "log"] },
  searchRecords: { call: "GET /v1/records", query: [...search, "q", "payload", "hash", "order", ...page] },
  countRecords: { call: "GET /v1/records/histogram", query: [...search, "buckets", "by"] },
  verifyChain: { call: "GET /v1/verify", query: ["log"] },
  getProof: { call: "GET /v1/proof/{index}", query: ["log"] },
  getAuthority: { call: "GET /v1/authority/{index}", query: ["jti"] },
  getEvidence: { call: "GET /v1/evidence/{index}", query: ["log", "jti"] },
  getReport: { call: "GET /v1/report", query: ["from", "to"], answer: "lines" },
  getConsistency: { call: "GET /v1/consistency", query: ["from", "to", "log"] },

  listLogs: { call: "GET /v1/logs" },
  getCheckpoint: { call: "GET /v1/log/{logId}/checkpoint", answer: "text" },
  getTile: { call: "GET /v1/log/{logId}/tile/{path}", answer: "bytes" },
  getLogProof: { call: "GET /v1/log/{logId}/proof/{index}", answer: "text" },
  getLogConsistency: { call: "GET /v1/log/{logId}/consistency", query: ["from"], answer: "text" },
  addCheckpoint: { call: "POST /v1/witness/add-checkpoint", members: ["text"], body: "text", answer: "text", public: true, safe: true },
  getWitness: { call: "GET /v1/witness", public: true },
  getCosignedCheckpoint: { call: "GET /v1/witness/{originHash}/checkpoint", answer: "text", public: true },

  delegate: { call: "POST /v1/token-exchange", members: ["agentId", "actingOn", "scope", "authorizationDetails"], status: 201, safe: true },
  exchangeToken: { call: "POST /v1/token/exchange", members: ["grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type", "authorization_details"], safe: true },
  verifyPassport: { call: "POST /v1/passport/verify", members: ["passport", "tool", "arguments", "proof", "htm", "htu"], safe: true, denies: true },
  listPassports: { call: "GET /v1/passports", query: ["agent", "status", ...page] },
  listRevokedPassports: { call: "GET /v1/passports/revoked" },
  revokePassport: { call: "POST /v1/passports/{jti}/revoke", members: ["reason"] },
  getPassportStatus: { call: "GET /v1/ocsp/{jti}" },

  claudeCodeHook: { call: "POST /v1/hooks/claude-code", members: ["*"], query: ["agent", "askWait", "fail", "redact", "require"], safe: true },
  exportTraces: { call: "POST /v1/otlp/v1/traces", members: ["*"], query: ["agent", "all", "content"], safe: true },
  exportLogs: { call: "POST /v1/otlp/v1/logs", members: ["*"], query: ["agent", "all", "content"], safe: true },
  createFederation: { call: "POST /v1/federation", members: ["name", "issuer", "audience", "jwks", "jwksUri", "rules"], status: 201 },
  listFederations: { call: "GET /v1/federation" },
  getFederation: { call: "GET /v1/federation/{name}" },
  deleteFederation: { call: "DELETE /v1/federation/{name}" },
  createWebhook: { call: "POST /v1/webhooks", members: ["url", "agents", "actions", "description"], status: 201 },
  listWebhooks: { call: "GET /v1/webhooks" },
  getWebhook: { call: "GET /v1/webhooks/{webhookId}" },
  deleteWebhook: { call: "DELETE /v1/webhooks/{webhookId}" },
  enableWebhook: { call: "POST /v1/webhooks/{webhookId}/enable", safe: true },
  disableWebhook: { call: "POST /v1/webhooks/{webhookId}/disable", safe: true },
  rotateWebhookSecret: { call: "POST /v1/webhooks/{webhookId}/rotate-secret" },
  testWebhook: { call: "POST /v1/webhooks/{webhookId}/test" },

  getPublicKey: { call: "GET /v1/ca/public-key", query: ["companyId"], public: true },
  getPublicKeys: { call: "GET /v1/ca/public-keys", query: ["companyId"], public: true },
  getDiscovery: { call: "GET /v1/ca/well-known", query: ["companyId"], public: true },
  getResourceMetadata: { call: "GET /.well-known/oauth-protected-resource", public: true },
  getCompanyResourceMetadata: { call: "GET /.well-known/oauth-protected-resource/o/{companyId}", public: true },
  getIssuerMetadata: { call: "GET /.well-known/oauth-authorization-server/o/{companyId}", public: true },
  getOpenIDMetadata: { call: "GET /.well-known/openid-configuration/o/{companyId}", public: true },
  getOpenIDConfiguration: { call: "GET /o/{companyId}/.well-known/openid-configuration", public: true },
  getTokenKeys: { call: "GET /o/{companyId}/jwks", public: true },
  getSPIFFEBundle: { call: "GET /o/{companyId}/spiffe-bundle", public: true },
  stream: { call: "GET /v1/ws", query: ["from"], answer: "stream" },
  getHealth: { call: "GET /v1/health", public: true },
  getReadiness: { call: "GET /readyz", public: true },
  getOpenAPI: { call: "GET /v1/openapi.json", public: true },
} as const satisfies Record<Exclude<keyof Documented, InBrowser>, Route>;

export type Name = keyof typeof operations;

type Given<T> = [NonNullable<T>] extends [never] ? {} : NonNullable<T>;
type Part<N extends Name, P extends string> = Documented[N] extends { parameters: infer A } ? P extends keyof A ? Given<A[P]> : {} : {};
type BodyOf<N extends Name> = Documented[N] extends { requestBody?: infer B }
  ? NonNullable<B> extends { content: { "application/json": infer J } } ? J
    : NonNullable<B> extends { content: { "text/plain": string } } ? { text: string } : {}
  : {};

/**
 * What an operation is called with, all in one object: the members of its path, its query, its
 * headers and its body.
 */
export type Arguments<N extends Name> = Part<N, "path"> & Part<N, "query"> & Part<N, "header"> & BodyOf<N>;

type Content<R> = R extends { content: { "application/json": infer J } } ? J : never;
type Denial<N extends Name> = (typeof operations)[N] extends { denies: true } ? components["schemas"]["PassportDenied"] : never;
type Success<N extends Name> = Documented[N] extends { responses: infer R } ? Content<R[keyof R & (200 | 201)]> : never;

/** What an operation resolves to. */
export type Answer<N extends Name> = (typeof operations)[N] extends { answer: infer A }
  ? A extends "text" ? string : A extends "bytes" ? Uint8Array : A extends "lines" ? AsyncIterable<string> : never
  : Success<N> | Denial<N>;

type Call<N extends Name> = {} extends Arguments<N>
  ? (args?: Arguments<N>, options?: CallOptions) => Promise<Answer<N>>
  : (args: Arguments<N>, options?: CallOptions) => Promise<Answer<N>>;

/** A method for each operation that is called and answered in the usual way. */
export type Operations = { [N in Exclude<Name, "attest" | "attestBatch" | "stream">]: Call<N> };

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

type Schemas = components["schemas"];
export type Approval = Schemas["Approval"];
export type AttestationRecord = Schemas["AttestationRecord"];
export type StreamMessage = Schemas["StreamMessage"];
