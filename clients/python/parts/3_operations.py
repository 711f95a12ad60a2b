@dataclass(frozen=True)
class Route:
    """How an operation is called and what it answers. Arguments that stand neither in the path nor in query or header are the body's members."""

    call: str
    query: tuple = ()
    header: tuple = ()
    body: str = "json"  # or form; or text, which stands in the argument text
    status: int = 200  # the one success
    denies: bool = False  # a refusal that says "valid": false is an answer too
    answer: str = "json"  # or text, bytes, lines, stream
    public: bool = False  # no credential is sent
    safe: bool = False  # to carry it out twice is no more than once; GET always is so

_page = ("limit", "cursor")
_search = ("log", "agent", "action", "delegatedBy", "since", "until")

OPERATIONS = {  # all of the API reference, by their names there
    "createCompany": Route("POST /v1/companies", status=201),
    "setup": Route("POST /v1/setup", status=201),
    "getCompany": Route("GET /v1/company"),
    "recoverKey": Route("POST /v1/recover-key", public=True),
    "createCompanySVID": Route("POST /v1/companies/svid", safe=True),
    "rotateKeys": Route("POST /v1/companies/rotate-keys"),
    "registerAgent": Route("POST /v1/agents/register", status=201, header=("If-None-Match",)),
    "listAgents": Route("GET /v1/agents", query=("q", "status", *_page)),
    "getAgent": Route("GET /v1/agents/{agentId}"),
    "disableAgent": Route("POST /v1/agents/{agentId}/disable", safe=True),
    "enableAgent": Route("POST /v1/agents/{agentId}/enable", safe=True),
    "getAgentSVID": Route("GET /v1/agents/{agentId}/svid"),
    "issuePassport": Route("POST /v1/agents/{agentId}/passport", status=201),
    "rotatePassport": Route("POST /v1/agents/{agentId}/passport/rotate", header=("Service-Passport", "Attestd-Passport")),
    "createKey": Route("POST /v1/keys", status=201),
    "listKeys": Route("GET /v1/keys"),
    "deleteKey": Route("DELETE /v1/keys/{key}"),
    "createOAuthClient": Route("POST /v1/oauth/clients", status=201),
    "listOAuthClients": Route("GET /v1/oauth/clients"),
    "deleteOAuthClient": Route("DELETE /v1/oauth/clients/{clientId}"),
    "listCredentials": Route("GET /v1/credentials", query=("madeBy",)),
    "getOAuthToken": Route("POST /v1/oauth/token", body="form", public=True, safe=True),
    "attest": Route("POST /v1/attest", status=201, header=("Idempotency-Key",), safe=True),
    "attestBatch": Route("POST /v1/attest/batch", status=201, safe=True),
    "getChain": Route("GET /v1/chain", query=("from", "limit", "log")),
    "searchRecords": Route("GET /v1/records", query=(*_search, "q", "hash", "order", *_page)),
    "countRecords": Route("GET /v1/records/histogram", query=(*_search, "buckets")),
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
    "addCheckpoint": Route("POST /v1/witness/add-checkpoint", body="text", answer="text", public=True, safe=True),
    "getWitness": Route("GET /v1/witness", public=True),
    "getCosignedCheckpoint": Route("GET /v1/witness/{originHash}/checkpoint", answer="text", public=True),
    "delegate": Route("POST /v1/token-exchange", status=201, safe=True),
    "exchangeToken": Route("POST /v1/token/exchange", safe=True),
    "verifyPassport": Route("POST /v1/passport/verify", safe=True, denies=True),
    "listPassports": Route("GET /v1/passports", query=("agent", "status", *_page)),
    "listRevokedPassports": Route("GET /v1/passports/revoked"),
    "revokePassport": Route("POST /v1/passports/{jti}/revoke"),
    "getPassportStatus": Route("GET /v1/ocsp/{jti}"),
    "claudeCodeHook": Route("POST /v1/hooks/claude-code", query=("agent", "redact", "require"), safe=True),
    "createWebhook": Route("POST /v1/webhooks", status=201),
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
    "stream": Route("GET /v1/ws", query=("from",), answer="stream"),
    "getHealth": Route("GET /v1/health", public=True),
    "getReadiness": Route("GET /readyz", public=True),
    "getOpenAPI": Route("GET /v1/openapi.json", public=True),
}

def _snake(name):
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()

def _arrange(route, order, given):
    """Puts the arguments of an operation where they belong: (path, headers, body)."""
    template, rest = route.call.split(" ")[1], {name.rstrip("_"): value for name, value in given.items() if value is not None}
    names = re.findall(r"{(\w+)}", template)
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
    if route.call.startswith(("GET ", "DELETE ")):
        raise TypeError(f"{route.call} has no argument {', '.join(rest)}")
    if route.body == "form":
        return path, headers, urlencode(rest)
    return path, headers, rest["text"] if route.body == "text" else _encode(rest)
