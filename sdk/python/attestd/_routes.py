"""All operations of the API reference: how each is called, and how its arguments are spelled."""
from __future__ import annotations

import functools, inspect, keyword, re
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from ._text import _encode, _known, _well_formed

@dataclass(frozen=True)
class Route:
    """How an operation is called and what it answers."""

    call: str
    members: tuple = ()  # of the body; "*" is any
    query: tuple = ()
    header: tuple = ()
    body: str = "json"  # or form; or text, which is in the argument text
    status: int = 200  # the one success
    denies: bool = False  # a refusal that says "valid": false is an answer too
    answer: str = "json"  # or text, bytes, lines, stream
    public: bool = False  # no credential is sent
    safe: bool = False  # to carry it out twice is no more than once; GET always is so

_page = ("limit", "cursor")
_search = ("log", "agent", "action", "delegatedBy", "decision", "policy", "since", "until")
OPERATIONS = {  # all of the API reference, by their names there
    "createCompany": Route("POST /v1/companies", members=("companyId", "metadata"), status=201),
    "setup": Route("POST /v1/setup", members=("companyId", "metadata"), status=201),
    "getCompany": Route("GET /v1/company"),
    "recoverKey": Route("POST /v1/recover-key", members=("companyId",), public=True),
    "createCompanySVID": Route("POST /v1/companies/svid", safe=True),
    "rotateKeys": Route("POST /v1/companies/rotate-keys", members=("compromised",)),
    "registerAgent": Route("POST /v1/agents/register", members=("agentId", "metadata"), status=201, header=("If-None-Match",)),
    "listAgents": Route("GET /v1/agents", query=("q", "status", *_page)),
    "getAgent": Route("GET /v1/agents/{agentId}"),
    "disableAgent": Route("POST /v1/agents/{agentId}/disable", safe=True),
    "enableAgent": Route("POST /v1/agents/{agentId}/enable", safe=True),
    "getAgentSVID": Route("GET /v1/agents/{agentId}/svid", query=("audience", "alg")),
    "createAgentToken": Route("POST /v1/agents/{agentId}/token", members=("audience", "ttl", "alg"), status=201, safe=True),
    "issuePassport": Route("POST /v1/agents/{agentId}/passport", members=("scopes", "ttl", "jkt", "authorizationDetails"), status=201),
    "rotatePassport": Route("POST /v1/agents/{agentId}/passport/rotate", header=("Service-Passport", "Attestd-Passport")),
    "enrolAgentKey": Route("POST /v1/agents/{agentId}/keys", members=("jwk", "label", "expiresAt", "proof", "endorsement"), status=201, header=("DPoP",)),
    "listAgentKeys": Route("GET /v1/agents/{agentId}/keys"),
    "revokeAgentKey": Route("DELETE /v1/agents/{agentId}/keys/{thumbprint}", members=("reason", "since")),
    "createEnrolment": Route("POST /v1/agents/{agentId}/enrolments", members=("expiresIn", "label"), status=201),
    "getEnrolment": Route("GET /v1/enrolment"),
    "setAgentPolicy": Route("PUT /v1/agents/{agentId}/policy", members=("attest", "groups", "dryRun"), safe=True),
    "setCompanyPolicy": Route("PUT /v1/company/policy", members=("attest", "exchangeAudiences", "decisions", "changes", "dryRun"), safe=True),
    "listPeople": Route("GET /v1/people"),
    "createPerson": Route("POST /v1/people", members=("personId", "name", "email", "roles", "groups", "subjects"), status=201),
    "getPerson": Route("GET /v1/people/{personId}"),
    "changePerson": Route("PATCH /v1/people/{personId}", members=("name", "email", "roles", "groups", "subjects", "disabled"), safe=True),
    "deletePerson": Route("DELETE /v1/people/{personId}"),
    "invitePerson": Route("POST /v1/people/{personId}/invitations", members=("expiresIn",), status=201),
    "revokePasskey": Route("DELETE /v1/people/{personId}/passkeys/{credentialId}"),
    "listPolicies": Route("GET /v1/policies"),
    "getPolicy": Route("GET /v1/policies/{policyId}"),
    "putPolicy": Route("PUT /v1/policies/{policyId}", members=("cedar", "description"), query=("force",), safe=True),
    "deletePolicy": Route("DELETE /v1/policies/{policyId}"),
    "testPolicies": Route("POST /v1/policies/test", members=("policies", "draft", "remove", "from", "to", "agentId", "limit"), safe=True),
    "requestApproval": Route("POST /v1/approvals", members=("agentId", "actionType", "tool", "arguments", "reason", "expiresIn", "callId"), status=201, safe=True),
    "listApprovals": Route("GET /v1/approvals", query=("state", *_page)),
    "getApproval": Route("GET /v1/approvals/{approvalId}", query=("wait",)),
    "withdrawApproval": Route("DELETE /v1/approvals/{approvalId}"),
    "evaluateAccess": Route("POST /access/v1/evaluation", members=("subject", "action", "resource", "context"), safe=True),
    "evaluateAccesses": Route("POST /access/v1/evaluations", members=("subject", "action", "resource", "context", "evaluations", "options"), safe=True),
    "getAuthzenMetadata": Route("GET /.well-known/authzen-configuration", public=True),
    "getCompanyAuthzenMetadata": Route("GET /.well-known/authzen-configuration/o/{companyId}", public=True),
    "listSessions": Route("GET /v1/sessions", query=("agentId", "sid", "kind", "from", "to", *_page)),
    "getSession": Route("GET /v1/sessions/{agentId}/{sid}", query=("kid", "kind"), answer="lines"),
    "listSessionRecords": Route("GET /v1/sessions/{agentId}/{sid}/records", query=("kid", "kind", "from", "limit")),
    "createKey": Route("POST /v1/keys", members=("label", "role", "expiresAt"), status=201),
    "listKeys": Route("GET /v1/keys"),
    "deleteKey": Route("DELETE /v1/keys/{key}"),
    "createOAuthClient": Route("POST /v1/oauth/clients", members=("role", "expiresAt", "jwks", "jwksUri"), status=201),
    "listOAuthClients": Route("GET /v1/oauth/clients"),
    "deleteOAuthClient": Route("DELETE /v1/oauth/clients/{clientId}"),
    "listCredentials": Route("GET /v1/credentials", query=("madeBy",)),
    "getOAuthToken": Route("POST /v1/oauth/token", members=("grant_type", "client_id", "client_secret", "client_assertion_type", "client_assertion", "assertion", "subject_token", "subject_token_type", "requested_token_type", "actor_token", "actor_token_type", "may_act", "audience", "scope", "authorization_details", "resource"), body="form", public=True, safe=True),
    "getCompanyToken": Route("POST /o/{companyId}/token", members=("grant_type", "client_id", "client_secret", "client_assertion_type", "client_assertion", "assertion", "subject_token", "subject_token_type", "requested_token_type", "actor_token", "actor_token_type", "may_act", "audience", "scope", "authorization_details", "resource"), body="form", public=True, safe=True),
    "introspectToken": Route("POST /o/{companyId}/introspect", members=("token", "token_type_hint", "client_id", "client_secret", "client_assertion_type", "client_assertion"), body="form", safe=True),
    "revokeToken": Route("POST /o/{companyId}/revoke", members=("token", "token_type_hint", "client_id", "client_secret", "client_assertion_type", "client_assertion"), body="form", safe=True),
    "attest": Route("POST /v1/attest", members=("agentId", "actionType", "payload", "delegation", "statement", "decide", "folder", "passport"), status=201, header=("Idempotency-Key",), safe=True),
    "attestBatch": Route("POST /v1/attest/batch", members=("records",), status=201, safe=True),
    "getChain": Route("GET /v1/chain", query=("from", "limit", "log")),
    "searchRecords": Route("GET /v1/records", query=(*_search, "q", "payload", "hash", "order", *_page)),
    "countRecords": Route("GET /v1/records/histogram", query=(*_search, "buckets", "by")),
    "verifyChain": Route("GET /v1/verify", query=("log",)),
    "getProof": Route("GET /v1/proof/{index}", query=("log",)),
    "getAuthority": Route("GET /v1/authority/{index}", query=("jti",)),
    "getEvidence": Route("GET /v1/evidence/{index}", query=("log", "jti")),
    "getReport": Route("GET /v1/report", query=("from", "to"), answer="lines"),
    "getConsistency": Route("GET /v1/consistency", query=("from", "to", "log")),
    "listLogs": Route("GET /v1/logs"),
    "getCheckpoint": Route("GET /v1/log/{logId}/checkpoint", answer="text"),
    "getTile": Route("GET /v1/log/{logId}/tile/{path}", answer="bytes"),
    "getLogProof": Route("GET /v1/log/{logId}/proof/{index}", answer="text"),
    "getLogConsistency": Route("GET /v1/log/{logId}/consistency", query=("from",), answer="text"),
    "addCheckpoint": Route("POST /v1/witness/add-checkpoint", members=("text",), body="text", answer="text", public=True, safe=True),
    "getWitness": Route("GET /v1/witness", public=True),
    "getCosignedCheckpoint": Route("GET /v1/witness/{originHash}/checkpoint", answer="text", public=True),
    "delegate": Route("POST /v1/token-exchange", members=("agentId", "actingOn", "scope", "authorizationDetails"), status=201, safe=True),
    "exchangeToken": Route("POST /v1/token/exchange", members=("grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type", "authorization_details"), safe=True),
    "verifyPassport": Route("POST /v1/passport/verify", members=("passport", "tool", "arguments", "proof", "htm", "htu"), safe=True, denies=True),
    "listPassports": Route("GET /v1/passports", query=("agent", "status", *_page)),
    "listRevokedPassports": Route("GET /v1/passports/revoked"),
    "revokePassport": Route("POST /v1/passports/{jti}/revoke", members=("reason",)),
    "getPassportStatus": Route("GET /v1/ocsp/{jti}"),
    "claudeCodeHook": Route("POST /v1/hooks/claude-code", members=("*",), query=("agent", "askWait", "fail", "redact", "require"), safe=True),
    "exportTraces": Route("POST /v1/otlp/v1/traces", members=("*",), query=("agent", "all", "content"), safe=True),
    "exportLogs": Route("POST /v1/otlp/v1/logs", members=("*",), query=("agent", "all", "content"), safe=True),
    "createFederation": Route("POST /v1/federation", members=("name", "issuer", "audience", "jwks", "jwksUri", "rules"), status=201),
    "listFederations": Route("GET /v1/federation"),
    "getFederation": Route("GET /v1/federation/{name}"),
    "deleteFederation": Route("DELETE /v1/federation/{name}"),
    "createWebhook": Route("POST /v1/webhooks", members=("url", "agents", "actions", "description"), status=201),
    "listWebhooks": Route("GET /v1/webhooks"),
    "getWebhook": Route("GET /v1/webhooks/{webhookId}"),
    "deleteWebhook": Route("DELETE /v1/webhooks/{webhookId}"),
    "enableWebhook": Route("POST /v1/webhooks/{webhookId}/enable", safe=True),
    "disableWebhook": Route("POST /v1/webhooks/{webhookId}/disable", safe=True),
    "rotateWebhookSecret": Route("POST /v1/webhooks/{webhookId}/rotate-secret"),
    "testWebhook": Route("POST /v1/webhooks/{webhookId}/test"),
    "getPublicKey": Route("GET /v1/ca/public-key", query=("companyId",), public=True),
    "getPublicKeys": Route("GET /v1/ca/public-keys", query=("companyId",), public=True),
    "getDiscovery": Route("GET /v1/ca/well-known", query=("companyId",), public=True),
    "getResourceMetadata": Route("GET /.well-known/oauth-protected-resource", public=True),
    "getCompanyResourceMetadata": Route("GET /.well-known/oauth-protected-resource/o/{companyId}", public=True),
    "getIssuerMetadata": Route("GET /.well-known/oauth-authorization-server/o/{companyId}", public=True),
    "getOpenIDMetadata": Route("GET /.well-known/openid-configuration/o/{companyId}", public=True),
    "getOpenIDConfiguration": Route("GET /o/{companyId}/.well-known/openid-configuration", public=True),
    "getTokenKeys": Route("GET /o/{companyId}/jwks", public=True),
    "getSPIFFEBundle": Route("GET /o/{companyId}/spiffe-bundle", public=True),
    "stream": Route("GET /v1/ws", query=("from",), answer="stream"),
    "getHealth": Route("GET /v1/health", public=True),
    "getReadiness": Route("GET /readyz", public=True),
    "getOpenAPI": Route("GET /v1/openapi.json", public=True),
}

def _arguments(route):  # as Python spells them
    names = (*re.findall(r"{(\w+)}", route.call), *route.query, *route.header, *route.members)
    return [name.replace("-", "_") + "_" * keyword.iskeyword(name) for name in names]

def _snake(name):
    return "dpop" if name == "DPoP" else re.sub("(?<=[a-z])(?=[A-Z])", "_", name.replace("-", "_")).lower()

def _spelled(what, given, names):
    """The arguments under their names of names, which has each name that Python's callers use for the other ones that count, too. Raises a TypeError for others."""
    _known(what, given, [*names, *names.values()])
    plain = {names.get(name, name): value for name, value in given.items()}
    if len(plain) < len(given):
        raise TypeError(f"{what} has an argument twice, under both of its names")
    return plain

def _either(method):
    """A method whose arguments may also be given by their names in the API reference: agentId for agent_id."""
    camel = lambda name: re.sub("_([a-z])", lambda found: found[1].upper(), name)
    names = {name: camel(name) for name in inspect.signature(method).parameters if name != camel(name)}
    wire = {camel: name for name, camel in names.items()}
    @functools.wraps(method)
    def call(*order, **given):
        for name in wire.keys() & given.keys():
            if wire[name] in given:
                raise TypeError(f"{method.__name__} has an argument twice: {name} and {wire[name]}")
            given[wire[name]] = given.pop(name)
        return method(*order, **given)
    return call

_SIGNATURES = {}  # of the operations that are made of the reference

def _operation(name):
    """The method of an operation, of a function with its signature and docstring."""
    route = OPERATIONS[name]
    names = {_snake(wire.rstrip("_")) + "_" * keyword.iskeyword(wire.rstrip("_")): wire for wire in _arguments(route)}
    def made(method):
        _SIGNATURES[name] = inspect.signature(method)
        @functools.wraps(method)
        def call(self, *order, **given):
            return self._call(name, order, given)
        call.__qualname__ = f"Client.{method.__name__}"
        return call
    _NAMES[name] = names
    return made

_NAMES = {}  # of the arguments of these operations, by Python's

def _bound(name, order, given):
    """The arguments of an operation by their names in the reference, as its signature has them."""
    if name not in _SIGNATURES or "*" in OPERATIONS[name].members:
        return order, given
    names, call = _NAMES[name], OPERATIONS[name].call
    python = {wire: own for own, wire in names.items()}
    given = _spelled(call, given, python)
    try:
        bound = _SIGNATURES[name].bind(None, *order, **given).arguments
    except TypeError as wrong:
        raise TypeError(f"{call}: {wrong}") from None
    return (), {names[own]: value for own, value in bound.items() if own != "self"}

def _arrange(route, order, given):
    """Puts the arguments of an operation where they belong: (path, headers, body)."""
    template, rest = route.call.split(" ")[1], {name.rstrip("_"): value for name, value in given.items() if value is not None}
    names = re.findall(r"{(\w+)}", template)
    if "*" not in route.members:
        _known(route.call, given, _arguments(route))
    if len(order) > len(names):
        raise TypeError(f"{route.call} takes {len(names)} arguments by their order")
    rest.update(zip(names, order))
    path = template
    for name in names:
        value = str(rest.pop(name, ""))
        if value == "":
            raise TypeError(f"{route.call}: {name} is missing")
        if {".", ".."} & set(value.split("/") if name == "path" else [value]):
            raise ValueError(f"{route.call}: {name} is not {value}, which would lead to another path")
        path = path.replace("{" + name + "}", quote(_well_formed(value), safe="/" if name == "path" else ""))
    query = [(name, _well_formed(str(rest.pop(name)))) for name in route.query if name in rest]
    headers = {name: str(rest.pop(name.replace("-", "_"))) for name in route.header if name.replace("-", "_") in rest}
    path += "?" + urlencode(query) if query else ""
    if not rest:
        return path, headers, None
    if route.body == "form":
        # what is no text in a form is its JSON
        return path, headers, urlencode({name: _encode(value) if name == "authorization_details" and type(value) is not str else value for name, value in rest.items()})
    return path, headers, rest["text"] if route.body == "text" else _encode(rest)
