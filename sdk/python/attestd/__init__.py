"""The Python client of attestd, in one module that needs Python 3.9 and its standard library alone.

    import attestd
    client = attestd.Client("http://127.0.0.1:8080", key)
    record = client.attest("bot", "file.written", {"path": "a.txt"})

A Client has a method for each operation of the API reference: its name there in snake case (issuePassport is issue_passport), what it needs by its place, first the parts of its path,
and the rest by name. Names are in snake case (agent_id), or those of the reference (agentId); from is from_. help(Client.issue_passport) says what it takes. Many threads may use one
Client. AsyncClient has the same methods for asyncio.

timeout is one deadline over a whole attempt, from the connection to the end of the answer. Of an answer at most MAX_ANSWER bytes are read.

What an append promises: attest returns when the service has answered 201, that is when the record is on its disk. Every append carries an idempotency key, the same on
all its retries, so a lost answer never makes a second record. After a ConnectionLost, or a ServiceError with a status of 500 or more, nobody knows whether the record is
there: the same attestation with the same key finds out, within 30 days. Spool does so for programs that cannot wait.

Retries: reads and appends are sent again after a lost connection, 408, 409, 429 and 5xx. Other requests would be carried out twice, so they are sent again only where they
cannot have been carried out: no connection was made, 429, or the code NOT_DONE.

Text: the service refuses what is not well-formed Unicode, for canonical JSON (RFC 8785) demands that. Surrogates without their other half, as they stand in text that was cut
inside a character, are replaced by U+FFFD before anything is sent; what is recorded is the replaced text. Integers that no JSON number carries without loss, such as 2**60, are refused
with a PayloadError: give them as strings.

Agents: an Agent has a key of its own, signs in with it and signs what it does, in sessions: Client(url, Agent.read(path)).session().attest("file.written", {"path": "a.txt"}).

verify_record, verify_proof, verify_inclusion, verify_passport, verify_token, verify_status and verify_evidence check without the service, with Keys of which one is pinned by its fingerprint. They need the package
cryptography, for Ed25519, and raise MissingCryptography where it is not installed.

This file is made of sdk/python/parts and web/checkers/python by go generate ./web. Names that are not in __all__ may change.
"""
from __future__ import annotations

import asyncio, base64, difflib, functools, hashlib, http.client, inspect, io, itertools, json, keyword, logging, os, random, re, secrets, select, socket, ssl, stat, struct, sys, threading, time
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
except ImportError:
    Ed25519PublicKey = None

__all__ = [
    "Agent", "AgentKey", "AsyncClient", "AttestdError", "Client", "ConnectionLost", "FullError", "Keys", "OtherLogError", "MissingCryptography", "OAuth", "OPERATIONS", "PayloadError", "RecordMismatchError", "RefusedError", "Retry", "ServiceError",
    "Session", "Signer", "Spool", "SpoolSession", "UnknownKeyError", "VerificationError", "generate_agent_key", "verify_evidence", "verify_inclusion", "verify_passport", "verify_proof", "verify_record", "verify_status", "verify_token",
]

class AttestdError(Exception):
    """What every error of this module is."""

class ServiceError(AttestdError):
    """An answer of the service that is not a success. Programs go by status and code; the codes stand in the API reference. pointer names the member of the request that is
    refused (a JSON Pointer, or ""), request_id finds the cause in the service's log, retry_after are the seconds until a retry is welcome (0 where it does not say). foreign says that
    the answer is not the service's, but that of something before it, such as a gateway's page: it lacks the member error or the header X-Request-ID, and nothing is decided by it."""

    def __init__(self, operation, status, reason, code="", pointer="", request_id="", retry_after=0.0, foreign=False):
        super().__init__(operation, status, reason)
        # method and route, for no path: keys stand in paths
        self.operation, self.status, self.reason = operation, status, reason
        self.code, self.pointer, self.request_id, self.retry_after = code, pointer, request_id, retry_after
        # whether an earlier attempt had no answer, so that it may have had an effect
        self.repeated, self.foreign = False, foreign

    def __str__(self):
        where = (f" at {self.pointer}" if self.pointer else "") + (f" ({self.code})" if self.code else "")
        where += "; that is no answer of attestd, but of something before it" if self.foreign else ""
        return f"{self.operation}: {self.status} {self.reason}{where}" + (f", request {self.request_id}" if self.status >= 500 and self.request_id else "")

class ConnectionLost(AttestdError):
    """A call that got no whole answer. Whether it was carried out is unknown, unless unsent says that no connection was made."""

    def __init__(self, operation, cause, unsent=False):
        super().__init__(f"{operation}: no answer: {cause or type(cause).__name__}")
        self.unsent = unsent

class PayloadError(AttestdError, ValueError):
    """A value that cannot be sent as it is; nothing was sent. pointer is its place in what was given."""

    def __init__(self, pointer, reason):
        super().__init__(f"{pointer}: {reason}" if pointer else reason)
        self.pointer = pointer

class RecordMismatchError(AttestdError):
    """ALARM: the service, or what stands before it, has answered with records of something else than was sent. Whether what was sent is recorded is unknown. places says which of the
    items differ, and in what: agentId, actionType, payload, statement, delegation, companyId or hash."""

    def __init__(self, operation, places):
        at, what = next(iter(places.items()))
        super().__init__(f"ALARM: {operation}: {len(places)} of the records in the answer are not of what was sent: that of item {at} has another {what}. "
                         "Whether it is recorded is unknown. Find out what answers in place of the service")
        self.places = places

class VerificationError(AttestdError):
    """What was checked does not hold. code names the step that failed: for evidence and tokens one of the reference's, else KEY,
    RECORD, PRUNED, PROOF or STATUS."""

    def __init__(self, code, reason):
        super().__init__(f"{code}: {reason}")
        self.code = code

class MissingCryptography(AttestdError, ImportError):
    """The package cryptography is not installed, without which no signature is checked."""

class RefusedError(AttestdError):
    """The service has refused items of a spool for good, or the disk has damaged them: refused is a list of (file, reason). They stand in folder, each with its reason. What was left has
    been sent or, where there is a __cause__, waits for that reason."""

    def __init__(self, folder, refused):
        super().__init__(f"{len(refused)} attestations were refused and stand in {folder}: {refused[0][1]}")
        self.folder, self.refused = folder, refused

class FullError(AttestdError):
    """The spool holds as much as it may. Nothing was added."""

def _service_error(operation, status, headers, body):
    said = _object(body)
    text = lambda name: said[name] if type(said.get(name)) is str else ""
    reason = ": ".join(filter(None, [text("error") or http.client.responses.get(status, "not the answer of the service"), text("error_description")]))
    request_id = headers.get("X-Request-ID", "")
    return ServiceError(operation, status, reason, text("code"), text("pointer"), request_id, _retry_after(headers.get("Retry-After", "")), not (text("error") and request_id))

def _is_page(error):
    """Whether something before the service has refused a request in its place."""
    return error.foreign and 400 <= error.status < 500 and error.status not in (408, 429)

def _wants_nonce(error):
    """Whether a request was refused for the nonce of its proof alone (RFC 9449, section 8): nothing was done."""
    return isinstance(error, ServiceError) and (error.code == "USE_DPOP_NONCE" or error.status == 400 and error.reason.startswith("use_dpop_nonce"))

def _object(body):  # {} of what is none, a proxy's page for example
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if type(said) is dict else {}

def _retry_after(said):  # seconds, or a date
    if re.fullmatch("[0-9]{1,9}", said):
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0

def _encode(value):
    """The JSON of a value, made fit for canonical JSON: see the module's docstring."""
    try:
        _check(value, "")
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as refused:
        raise refused if isinstance(refused, PayloadError) else PayloadError("", f"has no form in JSON: {refused}") from None
    return _well_formed(text)

# two surrogates that belong together become their character, as in UTF-16, and others U+FFFD
def _well_formed(text):
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

def _check(value, at):
    if isinstance(value, dict):
        for name, member in value.items():
            _check(member, at + "/" + str(name).replace("~", "~0").replace("/", "~1"))
    elif isinstance(value, (list, tuple)):
        for i, element in enumerate(value):
            _check(element, f"{at}/{i}")
    elif isinstance(value, float) and value - value != 0:
        raise PayloadError(at, f"{value} has no form in JSON")
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        if value.bit_length() > 1024 or Decimal(repr(float(value))) != value:
            raise PayloadError(at, "an integer beyond 2**53 that JSON numbers do not carry without loss; give it as a string")

def _prepare(attestation):
    """An attestation as it is sent, made once, for all retries. Refuses what could never be
    sent."""
    known = ("agentId", "actionType", "payload", "delegation", "idempotencyKey")
    _known("an attestation", attestation, known)
    body = {name: attestation[name] for name in ("agentId", "actionType", "payload", "delegation") if name in attestation}
    for name in ("agentId", "actionType"):
        if not isinstance(body.get(name), str) or not 1 <= len(body[name]) <= 256:
            raise PayloadError(f"/{name}", "must have 1 to 256 characters")
    if "payload" not in body:
        raise PayloadError("/payload", "is missing; None is a payload")
    if body.get("delegation", "") is None:
        del body["delegation"]
    given = attestation.get("idempotencyKey") or ""
    if given and not re.fullmatch("[ -~]{1,255}", given):
        raise PayloadError("/idempotencyKey", "must have 1 to 255 printable ASCII characters")
    return _Prepared(_encode(body), given or _new_key(), not given)

@dataclass(frozen=True)
class _Prepared:
    text: str  # JSON, without the key
    key: str
    made: bool  # the key is ours, and not the caller's

    def item(self):  # of a batch; a statement is its own key
        return self.text if not self.key else f'{self.text[:-1]},"idempotencyKey":{json.dumps(self.key)}}}'

    def rekeyed(self):
        """The same under another key, which all who have this one choose alike, so that it is
        recorded once."""
        return _Prepared(self.text, f"{self.key[:12]}-{hashlib.sha256(self.item().encode()).hexdigest()[:32]}", True)

def _new_key():
    """A key that nobody else has: the time, and 128 random bits. The time stands first, for the service keeps keys in the order of their beginnings, and those of one time cost it least."""
    return f"{time.time_ns() // 1_000_000:012x}-{secrets.token_hex(16)}"

def _header_key(key):  # bare where it can be, else as a quoted string (RFC 8941, section 3.3.3)
    return '"' + re.sub(r'(["\\])', r"\\\1", key) + '"' if re.search(r'[ "\\]', key) else key

@dataclass(frozen=True)
class Route:
    """How an operation is called and what it answers."""

    call: str
    members: tuple = ()  # of the body; "*" is any
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
    "issuePassport": Route("POST /v1/agents/{agentId}/passport", members=("scopes", "ttl", "jkt"), status=201),
    "rotatePassport": Route("POST /v1/agents/{agentId}/passport/rotate", header=("Service-Passport", "Attestd-Passport")),
    "enrolAgentKey": Route("POST /v1/agents/{agentId}/keys", members=("jwk", "label", "expiresAt", "proof", "endorsement"), status=201, header=("DPoP",)),
    "listAgentKeys": Route("GET /v1/agents/{agentId}/keys"),
    "revokeAgentKey": Route("DELETE /v1/agents/{agentId}/keys/{thumbprint}", members=("reason", "since")),
    "createEnrolment": Route("POST /v1/agents/{agentId}/enrolments", members=("expiresIn", "label"), status=201),
    "getEnrolment": Route("GET /v1/enrolment"),
    "setAgentPolicy": Route("PUT /v1/agents/{agentId}/policy", members=("attest", "dryRun"), safe=True),
    "setCompanyPolicy": Route("PUT /v1/company/policy", members=("attest", "exchangeAudiences", "dryRun"), safe=True),
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
    "getOAuthToken": Route("POST /v1/oauth/token", members=("grant_type", "client_id", "client_secret", "client_assertion_type", "client_assertion", "assertion", "subject_token", "subject_token_type", "requested_token_type", "actor_token", "actor_token_type", "may_act", "audience", "scope", "resource"), body="form", public=True, safe=True),
    "getCompanyToken": Route("POST /o/{companyId}/token", members=("grant_type", "client_id", "client_secret", "client_assertion_type", "client_assertion", "assertion", "subject_token", "subject_token_type", "requested_token_type", "actor_token", "actor_token_type", "may_act", "audience", "scope", "resource"), body="form", public=True, safe=True),
    "introspectToken": Route("POST /o/{companyId}/introspect", members=("token", "token_type_hint", "client_id", "client_secret", "client_assertion_type", "client_assertion"), body="form", safe=True),
    "revokeToken": Route("POST /o/{companyId}/revoke", members=("token", "token_type_hint", "client_id", "client_secret", "client_assertion_type", "client_assertion"), body="form", safe=True),
    "attest": Route("POST /v1/attest", members=("agentId", "actionType", "payload", "delegation", "statement"), status=201, header=("Idempotency-Key",), safe=True),
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
    "delegate": Route("POST /v1/token-exchange", members=("agentId", "actingOn", "scope"), status=201, safe=True),
    "exchangeToken": Route("POST /v1/token/exchange", members=("grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type"), safe=True),
    "verifyPassport": Route("POST /v1/passport/verify", members=("passport", "tool", "proof", "htm", "htu"), safe=True, denies=True),
    "listPassports": Route("GET /v1/passports", query=("agent", "status", *_page)),
    "listRevokedPassports": Route("GET /v1/passports/revoked"),
    "revokePassport": Route("POST /v1/passports/{jti}/revoke", members=("reason",)),
    "getPassportStatus": Route("GET /v1/ocsp/{jti}"),
    "claudeCodeHook": Route("POST /v1/hooks/claude-code", members=("*",), query=("agent", "fail", "redact", "require"), safe=True),
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

def _known(what, given, names):
    """Raises a TypeError for a name that is none of these; it says which one was perhaps meant.
    What is misspelt would be ignored otherwise: an expiry, for example."""
    for name in given:
        if name not in names:
            plain = lambda text: text.replace("_", "").lower()
            close = difflib.get_close_matches(plain(name), map(plain, names), 1, 0.6)
            meant = [f"; did you mean {one}?" for one in names if [plain(one)] == close]
            raise TypeError(f"{what} has no argument {name}" + (meant or [f"; it has {', '.join(names) or 'none'}"])[0])

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
        return path, headers, urlencode(rest)
    return path, headers, rest["text"] if route.body == "text" else _encode(rest)

@dataclass(frozen=True)
class Retry:
    """How often a request is sent again, beyond the first attempt, and after how many seconds: a random time between min and twice min, four times min and so on, at most max. After
    Retry-After it is at least that."""

    times: int = 2
    min: float = 0.5
    max: float = 8.0

    # before retry number n, from 0 on; None when it is not worth to
    def _wait(self, n, error, safe):
        if n >= self.times or not _retryable(error, safe):
            return None
        wait = random.uniform(self.min, max(self.min, min(self.max, self.min * 2 ** (n + 1))))
        wait = max(wait, getattr(error, "retry_after", 0))
        # 60 s: the window of the service's rate limits
        return wait if wait <= max(60, self.max) else None

def _retryable(error, safe):
    if isinstance(error, ConnectionLost):
        return safe or error.unsent
    if not isinstance(error, ServiceError):
        return False
    return error.status == 429 or error.code == "NOT_DONE" or safe and (error.status == 408 or error.status == 409 and error.code != "STATEMENT_REUSED" or error.status >= 500)

class OAuth:
    """The credential of an OAuth client. Its token is fetched at the first call, a minute before it expires, and when the service refuses one."""

    def __init__(self, client_id, client_secret):
        self._id, self._secret = client_id, client_secret
        self._lock, self._token, self._until = threading.Lock(), "", 0.0

    def _bearer(self, client, refused=""):
        with self._lock:
            if self._token in ("", refused) or time.monotonic() >= self._until:
                made = client.get_oauth_token(grant_type="client_credentials", client_id=self._id, client_secret=self._secret)
                life = made["expires_in"]
                self._token, self._until = made["access_token"], time.monotonic() + life - min(60, life / 2)
            return self._token

MAX_REFUSAL = 64 << 10  # the most bytes of an answer that is an error
# The most bytes of an answer that stands in memory, and of a line or message of a long one.
MAX_ANSWER = 64 << 20

class _Socket:
    """A socket with one deadline over all that is sent and read, however slowly it comes. Python's own timeout begins anew with each piece."""

    def __init__(self, sock, deadline):
        self.sock, self.deadline = sock, deadline
        self.more = False  # behind an answer came what nobody has asked for

    def within(self, seconds):
        """Ends the deadline: from now on each piece has so many seconds."""
        self.deadline = None
        self.sock.settimeout(seconds)

    def limit(self):
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout("timed out")
            self.sock.settimeout(left)

    def sendall(self, data):
        left = memoryview(data)
        while left:
            self.limit()
            left = left[self.sock.send(left):]

    def makefile(self, mode):
        return _Answer(_Pieces(self))

    def close(self):
        self.sock.close()

    def is_usable(self):
        """Whether a connection that was kept may be used again: nothing came on it since its last answer, and it was not closed."""
        if self.more or getattr(self.sock, "pending", int)():
            return False
        if hasattr(select, "poll"):  # select has no room for high numbers
            asked = select.poll()
            asked.register(self.sock, select.POLLIN)
            return not asked.poll(0)
        return not select.select([self.sock], [], [], 0)[0]

class _Pieces(io.RawIOBase):
    """What comes on a _Socket."""

    def __init__(self, bounded):
        # it holds the socket open until it is closed itself
        self.bounded, self.file, self.ended = bounded, bounded.sock.makefile("rb", 0), False

    def readable(self):
        return True

    def readinto(self, into):
        if self.ended:
            return 0
        self.bounded.limit()
        return self.file.readinto(into)

    def close(self):
        self.file.close()
        super().close()

class _Answer(io.BufferedReader):
    """The file of an answer. It tells its socket of what came behind the answer and would be lost with this buffer."""

    def close(self):
        if not self.closed:
            self.raw.ended = True
            self.raw.bounded.more = self.raw.bounded.more or len(self.peek(1)) > 0
        super().close()

class _Connections:
    """Connections to one service. One that is kept may have been closed by the other side meanwhile, which may show only when it is used, so requests that must not be carried out twice
    always get a new one. One on which something came since its last answer is dropped: it would be taken for the next answer. Redirects are not followed: a redirected POST becomes a GET.
    Proxies of the environment are not used."""

    def __init__(self, url, timeout, context):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
            raise AttestdError("the URL must look like https://attest.example.com, without a password or a query")
        self.prefix, self.timeout = parts.path.rstrip("/"), timeout
        self._context = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        kind = functools.partial(http.client.HTTPSConnection, context=self._context) if self._context else http.client.HTTPConnection
        self._new = lambda: kind(parts.hostname, parts.port)
        self._idle, self._lock = [], threading.Lock()
        self.heard = lambda headers: None  # is told the headers of each answer

    def _kept(self):
        """A connection that is kept and may be used; None where there is none."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None or connection.sock.is_usable():
                return connection
            connection.close()

    def _connect(self, connection, deadline):
        """Connects, at one of the addresses of the name, before the deadline. Nothing bounds how long the system looks the name up."""
        failed = OSError("the name has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(connection.host, connection.port, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            try:
                bounded = _Socket(sock, deadline)
                bounded.limit()
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._context:
                    bounded.limit()
                    bounded.sock = self._context.wrap_socket(sock, server_hostname=connection.host)
                connection.sock = bounded
                return
            except OSError as cause:
                sock.close()
                failed = cause
                if isinstance(cause, ssl.SSLError):
                    break
        raise failed

    def open(self, operation, path, headers, body, kept=False, deadline=None):
        """Sends a request: (connection, its socket, response). All of it, and reading what comes, ends at one deadline, unless the caller ends that."""
        deadline = deadline or time.monotonic() + self.timeout
        connection = self._kept() if kept else None
        used, connection = connection is not None, connection or self._new()
        try:
            if not used:
                self._connect(connection, deadline)
        except OSError as cause:
            connection.close()
            raise ConnectionLost(operation, cause, unsent=True) from None
        sock, lost = connection.sock, None
        sock.deadline = deadline
        try:
            try:
                connection.request(operation.split(" ")[0], self.prefix + path, None if body is None else body.encode(), headers)
            except OSError as cause:
                # The other side may have answered before the end of the request, and closed:
                # what is too large for it, for example. The connection is not used again.
                lost, sock.more = cause, True
            try:
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as cause:
                raise lost or cause
            self.heard(answer.headers)
            return connection, sock, answer
        except (OSError, http.client.HTTPException) as cause:
            connection.close()
            if used and time.monotonic() < deadline:
                return self.open(operation, path, headers, body, deadline=deadline)
            raise ConnectionLost(operation, cause) from None

    def whole(self, operation, path, headers, body, safe):
        """Sends a request and reads its answer whole: (status, headers, body)."""
        connection, sock, answer = self.open(operation, path, headers, body, kept=safe)
        parts, size = [], 0
        try:
            for part in _parts(answer):
                parts.append(part)
                size += len(part)
                if answer.status >= 300 and size > MAX_REFUSAL:  # of no error of the service
                    _end(answer, connection)
                    return answer.status, answer.headers, b""
                if size > MAX_ANSWER:
                    raise OSError(f"the answer is longer than {MAX_ANSWER} bytes")
        except (OSError, http.client.HTTPException) as cause:
            _end(answer, connection)
            raise ConnectionLost(operation, cause) from None
        with self._lock:
            if connection.sock is not None and not sock.more and len(self._idle) < 64:
                self._idle.append(connection)
                connection = None
        if connection:
            connection.close()
        return answer.status, answer.headers, b"".join(parts)

    def close(self):
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

def _end(answer, connection):
    """Ends an answer that nobody reads on, and then its connection. The answer goes first: it
    flushes its file, which from Python 3.13 on complains when that is closed."""
    answer.close()
    connection.close()

def _refusal(operation, answer, connection):
    """The error that an answer is which was not read yet; its connection is ended."""
    try:
        return _service_error(operation, answer.status, answer.headers, answer.read(MAX_REFUSAL))
    except (OSError, http.client.HTTPException) as cause:
        return ConnectionLost(operation, cause)
    finally:
        _end(answer, connection)

def _parts(answer):  # of its body, as they come; http.client itself takes an early end for the end
    while True:
        part = answer.read1(65536)
        if not part:
            break
        yield part
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    answer.close()

# Made of the API reference by go generate ./web.

class _Operations:
    """The operations of the API reference that are called in the usual way."""

    @_operation("createCompany")
    def create_company(self, company_id, *, metadata=None):
        """Register a company.

        POST /v1/companies, createCompany of the API reference. Creates the company, its key pair, an empty chain and its first API key (label bootstrap) in one transaction.

        company_id (or companyId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        metadata: Union[dict[str, Any], None]. Stored unchanged.
        """

    @_operation("rotateKeys")
    def rotate_keys(self, *, compromised=None):
        """Give the company a new signing key.

        POST /v1/companies/rotate-keys, rotateKeys of the API reference. After this response, a new key signs the company's tokens and statuses, and its records from index on.

        compromised: Union[bool, None]. If true, all tokens signed so far are refused immediately.
        """

    @_operation("createCompanySVID")
    def create_company_svid(self):
        """Get an SVID of the company.

        POST /v1/companies/svid, createCompanySVID of the API reference. A fresh SVID whose subject is the company itself, signed with the company's key, valid for 3600 seconds.
        """

    @_operation("getCompany")
    def get_company(self):
        """Read the company.

        GET /v1/company, getCompany of the API reference. The company that the credential belongs to.
        """

    @_operation("recoverKey")
    def recover_key(self, company_id):
        """Read a company's first key, on the same machine.

        POST /v1/recover-key, recoverKey of the API reference. Returns the oldest existing API key of a company that has the role admin and no expiry.

        company_id (or companyId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        """

    @_operation("setup")
    def setup(self, company_id, *, metadata=None):
        """Register a company (alias).

        POST /v1/setup, setup of the API reference. The same as POST /v1/companies, except that it is in the rate tier sensitive.

        company_id (or companyId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        metadata: Union[dict[str, Any], None]. Stored unchanged.
        """

    @_operation("listAgents")
    def list_agents(self, *, q=None, status=None, limit=None, cursor=None):
        """List agents.

        GET /v1/agents, listAgents of the API reference. The company's agents, ordered by agentId, in pages.

        q: str. Only agents with this in their agentId; A to Z in either case.
        status: Literal["active", "disabled"]. Only agents that are enabled, or that are disabled.
        limit: int. Largest number of entries in the page.
        cursor: str. next of the previous page.
        """

    @_operation("registerAgent")
    def register_agent(self, agent_id, *, if_none_match=None, metadata=None):
        """Register an agent.

        POST /v1/agents/register, registerAgent of the API reference. Registers an agent and issues its first SVID.

        agent_id (or agentId): Segment. A name that becomes one segment of a SPIFFE ID; not . or ...
        if_none_match (or If_None_Match): Literal["*"]. * demands that the agent is new; any other value is 400.
        metadata: Union[dict[str, Any], None]. Stored unchanged; replaces the previous value.
        """

    @_operation("getAgent")
    def get_agent(self, agent_id):
        """Read an agent.

        GET /v1/agents/{agentId}, getAgent of the API reference. One agent of the company.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("disableAgent")
    def disable_agent(self, agent_id):
        """Disable an agent.

        POST /v1/agents/{agentId}/disable, disableAgent of the API reference. After this response, the agent gets no SVID, passport, delegation or token exchange, and nobody can attest for it.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("enableAgent")
    def enable_agent(self, agent_id):
        """Enable an agent.

        POST /v1/agents/{agentId}/enable, enableAgent of the API reference. The service issues tokens to the agent again.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("getAgentSVID")
    def get_agent_svid(self, agent_id, *, audience=None, alg=None):
        """Get an SVID of an agent.

        GET /v1/agents/{agentId}/svid, getAgentSVID of the API reference. A fresh SVID, signed with the company's key, valid for 3600 seconds.

        agent_id (or agentId): str. The agent's name in its company.
        audience: str. Who is to accept the SVID.
        alg: Literal["ES256", "RS256", "EdDSA"]. With audience.
        """

    @_operation("listCredentials")
    def list_credentials(self, *, made_by=None):
        """List keys and clients without their secrets.

        GET /v1/credentials, listCredentials of the API reference. Lists the company's API keys and then its OAuth clients, each in the order of creation, with creator, creation time, hour of the last use, role and expiry.

        made_by (or madeBy): str. Only what the credential with this fingerprint has made.
        """

    @_operation("listKeys")
    def list_keys(self):
        """List API keys.

        GET /v1/keys, listKeys of the API reference. All keys of the company in full, ordered by creation.
        """

    @_operation("createKey")
    def create_key(self, *, expires_at=None, label=None, role=None):
        """Create an API key.

        POST /v1/keys, createKey of the API reference. Creates another key of the company.

        expires_at (or expiresAt): NewExpiry. Time of expiry, in the future, in UTC with milliseconds; null or absent means never.
        label: Union[str, None]. Display name.
        role: NewRole. The role of the credential; null or absent means admin.
        """

    @_operation("deleteKey")
    def delete_key(self, key):
        """Delete an API key.

        DELETE /v1/keys/{key}, deleteKey of the API reference. The key is refused from its next use on.

        key: str. The full key.
        """

    @_operation("createEnrolment")
    def create_enrolment(self, agent_id, *, expires_in=None, label=None):
        """Create an enrolment token.

        POST /v1/agents/{agentId}/enrolments, createEnrolment of the API reference. A token with which the agent's machine enrols one key.

        agent_id (or agentId): str. The agent's name in its company.
        expires_in (or expiresIn): Union[int, None]. Seconds.
        label: Union[str, None].
        """

    @_operation("listAgentKeys")
    def list_agent_keys(self, agent_id):
        """List the keys of an agent.

        GET /v1/agents/{agentId}/keys, listAgentKeys of the API reference. All keys of the agent in the order of their enrolment, revoked ones too.

        agent_id (or agentId): str. The agent's name in its company.
        """

    @_operation("enrolAgentKey")
    def enrol_agent_key(self, agent_id, jwk, *, dpop=None, endorsement=None, expires_at=None, label=None, proof=None):
        """Enrol a key of an agent.

        POST /v1/agents/{agentId}/keys, enrolAgentKey of the API reference. Adds a public key of the agent.

        agent_id (or agentId): str. The agent's name in its company.
        jwk: dict[str, Any]. OKP/Ed25519 or EC/P-256, public members only.
        dpop (or DPoP): str. The proof of possession.
        endorsement: Union[str, None]. What the present key has signed of this one; see *Agent keys*.
        expires_at (or expiresAt): Union[str, None]. When the key ends; null for never.
        label: Union[str, None].
        proof: Union[str, None]. The proof of possession, in place of the header.
        """

    @_operation("revokeAgentKey")
    def revoke_agent_key(self, agent_id, thumbprint, *, reason=None, since=None):
        """Revoke a key of an agent.

        DELETE /v1/agents/{agentId}/keys/{thumbprint}, revokeAgentKey of the API reference. From this response on, nothing that the key signs is taken, on any server.

        agent_id (or agentId): str. The agent's name in its company.
        thumbprint: str. The thumbprint of the key.
        reason: Union[str, None]. At most 16 KiB.
        since: Union[Timestamp, None]. When the key came into other hands.
        """

    @_operation("setAgentPolicy")
    def set_agent_policy(self, agent_id, attest, *, dry_run=None):
        """Set the policy of an agent.

        PUT /v1/agents/{agentId}/policy, setAgentPolicy of the API reference. key.

        agent_id (or agentId): str. The agent's name in its company.
        attest: Literal["any", "key"].
        dry_run (or dryRun): Union[bool, None].
        """

    @_operation("setCompanyPolicy")
    def set_company_policy(self, *, attest=None, dry_run=None, exchange_audiences=None):
        """Set the policy of the company.

        PUT /v1/company/policy, setCompanyPolicy of the API reference. Changes the members that it names, and leaves the others.

        attest: Literal["any", "key", None].
        dry_run (or dryRun): Union[bool, None].
        exchange_audiences (or exchangeAudiences): ExchangeAudiences. For whom a token may be exchanged, at most 16,384 bytes together.
        """

    @_operation("getEnrolment")
    def get_enrolment(self):
        """What an enrolment token is good for.

        GET /v1/enrolment, getEnrolment of the API reference. The agent of the enrolment token that is presented as the credential.
        """

    @_operation("listSessions")
    def list_sessions(self, *, agent_id=None, sid=None, kind=None, from_=None, to=None, limit=None, cursor=None):
        """List sessions.

        GET /v1/sessions, listSessions of the API reference. A session is one run of an agent.

        agent_id (or agentId): str. Only the sessions of this agent.
        sid: str. Only the sessions with this ID.
        kind: SessionKind. Only the sessions of this kind.
        from_: str. Only sessions whose last record is of this time or later.
        to: str. Only sessions whose first record is earlier.
        limit: int. Largest number of sessions of a page.
        cursor: str. The member next of the page before.
        """

    @_operation("getSession")
    def get_session(self, agent_id, sid, *, kid=None, kind=None):
        """Get a session as one file.

        GET /v1/sessions/{agentId}/{sid}, getSession of the API reference. Of a session of statements.

        agent_id (or agentId): str. The agent's name in its company.
        sid: str. The session.
        kid: str. Thumbprint of the key, where several keys of the agent have used this sid.
        kind: SessionKind. The kind of the session.
        """

    @_operation("listSessionRecords")
    def list_session_records(self, agent_id, sid, *, kid=None, kind=None, from_=None, limit=None):
        """List the records of a session.

        GET /v1/sessions/{agentId}/{sid}/records, listSessionRecords of the API reference. The records of a session in the order of the log, from an index on.

        agent_id (or agentId): str. The agent's name in its company.
        sid: str. The session.
        kid: str. Thumbprint of the key, where several keys of the agent have used this sid.
        kind: SessionKind. The kind of the session.
        from_: int. Index from which on records are returned.
        limit: int. Largest number of records of a page.
        """

    @_operation("introspectToken")
    def introspect_token(self, company_id, token, *, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, token_type_hint=None):
        """Ask what an access token is good for.

        POST /o/{companyId}/introspect, introspectToken of the API reference. RFC 7662, for the clients and agents of this company, by their secret or assertion as at the token endpoint or by an access token, and for its admins by an API key.

        company_id (or companyId): str. The company.
        token: str. The access token.
        client_assertion: str. As at the token endpoint; aud may also be this URL or the company's issuer.
        client_assertion_type: str. As at the token endpoint.
        client_id: str. As at the token endpoint; not beside Authorization.
        client_secret: str. As at the token endpoint.
        token_type_hint: str. It is ignored.
        """

    @_operation("revokeToken")
    def revoke_token(self, company_id, token, *, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, token_type_hint=None):
        """Revoke an access token.

        POST /o/{companyId}/revoke, revokeToken of the API reference. RFC 7009, for who may introspect.

        company_id (or companyId): str. The company.
        token: str. The access token.
        client_assertion: str. As at the token endpoint; aud may also be this URL or the company's issuer.
        client_assertion_type: str. As at the token endpoint.
        client_id: str. As at the token endpoint; not beside Authorization.
        client_secret: str. As at the token endpoint.
        token_type_hint: str. It is ignored.
        """

    @_operation("getCompanyToken")
    def get_company_token(self, company_id, grant_type, *, actor_token=None, actor_token_type=None, assertion=None, audience=None, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, may_act=None, requested_token_type=None, resource=None, scope=None, subject_token=None, subject_token_type=None):
        """Get an access token of a company's issuer.

        POST /o/{companyId}/token, getCompanyToken of the API reference. As POST /v1/oauth/token, for the clients and agents of this company alone.

        company_id (or companyId): str. The company.
        grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"].
        actor_token: str. A token of the company that says who comes to act.
        actor_token_type: str. As subject_token_type, with actor_token and not without.
        assertion: str. The token of a workload, with urn:ietf:params:oauth:grant-type:jwt-bearer.
        audience: Union[str, list[str]]. In an exchange of tokens of the company.
        client_assertion: str. The assertion of an agent, in place of ID and secret.
        client_assertion_type: str. urn:ietf:params:oauth:client-assertion-type:jwt-bearer, of an agent.
        client_id: str. Required unless HTTP Basic is used.
        client_secret: str. Required unless HTTP Basic is used.
        may_act: str. In an exchange of tokens of the company.
        requested_token_type: str. Absent, or urn:ietf:params:oauth:token-type:access_token; of the company also urn:ietf:params:oauth:token-type:jwt.
        resource: Union[str, list[str]]. Absolute URL of https, without a fragment, of a server that takes the token (RFC 8707).
        scope: str. What the token is good for.
        subject_token: str. The same, with urn:ietf:params:oauth:grant-type:token-exchange; or a token of the company.
        subject_token_type: str. urn:ietf:params:oauth:token-type:jwt; of a workload also urn:ietf:params:oauth:token-type:id_token, of the company also urn:ietf:params:oauth:token-type:access_token.
        """

    @_operation("listOAuthClients")
    def list_oauth_clients(self):
        """List OAuth clients.

        GET /v1/oauth/clients, listOAuthClients of the API reference. The clients of the company, without their secrets.
        """

    @_operation("createOAuthClient")
    def create_oauth_client(self, *, expires_at=None, jwks=None, jwks_uri=None, role=None):
        """Create an OAuth client.

        POST /v1/oauth/clients, createOAuthClient of the API reference. Only this response shows the secret.

        expires_at (or expiresAt): NewExpiry. Time of expiry, in the future, in UTC with milliseconds; null or absent means never.
        jwks: Union[dict[str, Any], None]. Public keys of the client, a JWK set; then it has no secret.
        jwks_uri (or jwksUri): Union[str, None]. Where they are; then it has none either.
        role: NewRole. The role of the credential; null or absent means admin.
        """

    @_operation("deleteOAuthClient")
    def delete_oauth_client(self, client_id):
        """Delete an OAuth client.

        DELETE /v1/oauth/clients/{clientId}, deleteOAuthClient of the API reference. After this response the client and all its access tokens are refused, and the service closes streams opened with them (1008).

        client_id (or clientId): str. The client's ID.
        """

    @_operation("getOAuthToken")
    def get_oauth_token(self, grant_type, *, actor_token=None, actor_token_type=None, assertion=None, audience=None, client_assertion=None, client_assertion_type=None, client_id=None, client_secret=None, may_act=None, requested_token_type=None, resource=None, scope=None, subject_token=None, subject_token_type=None):
        """Get an access token.

        POST /v1/oauth/token, getOAuthToken of the API reference. The client credentials grant.

        grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:ietf:params:oauth:grant-type:token-exchange"].
        actor_token: str. A token of the company that says who comes to act.
        actor_token_type: str. As subject_token_type, with actor_token and not without.
        assertion: str. The token of a workload, with urn:ietf:params:oauth:grant-type:jwt-bearer.
        audience: Union[str, list[str]]. In an exchange of tokens of the company.
        client_assertion: str. The assertion of an agent, in place of ID and secret.
        client_assertion_type: str. urn:ietf:params:oauth:client-assertion-type:jwt-bearer, of an agent.
        client_id: str. Required unless HTTP Basic is used.
        client_secret: str. Required unless HTTP Basic is used.
        may_act: str. In an exchange of tokens of the company.
        requested_token_type: str. Absent, or urn:ietf:params:oauth:token-type:access_token; of the company also urn:ietf:params:oauth:token-type:jwt.
        resource: Union[str, list[str]]. Absolute URL of https, without a fragment, of a server that takes the token (RFC 8707).
        scope: str. What the token is good for.
        subject_token: str. The same, with urn:ietf:params:oauth:grant-type:token-exchange; or a token of the company.
        subject_token_type: str. urn:ietf:params:oauth:token-type:jwt; of a workload also urn:ietf:params:oauth:token-type:id_token, of the company also urn:ietf:params:oauth:token-type:access_token.
        """

    @_operation("attestBatch")
    def attest_batch(self, records):
        """Append many records.

        POST /v1/attest/batch, attestBatch of the API reference. Appends 1 to 1000 actions in one transaction.

        records: list[AttestItem].
        """

    @_operation("claudeCodeHook")
    def claude_code_hook(self, *, agent=None, require=None, redact=None, fail=None, **members):
        """Record what a coding agent does.

        POST /v1/hooks/claude-code, claudeCodeHook of the API reference. The endpoint for HTTP hooks of Claude Code; attestd init claude-code writes the settings.

        agent: str. In whose name it is recorded, 1 to 256 characters.
        require: Literal["passport"]. With passport, a call of a tool that no valid passport of the agent covers (tool:<name>, tool:* or *) is refused, and the refusal recorded.
        redact: Literal["input", "output", "input,output", "output,input"]. What is recorded as {"sha256","bytes"} alone.
        fail: Literal["open", "closed"]. What becomes of a call that cannot be recorded.
        """

    @_operation("exportLogs")
    def export_logs(self, *, agent=None, all=None, content=None, **members):
        """Record log records.

        POST /v1/otlp/v1/logs, exportLogs of the API reference. OTLP/HTTP 1.x.

        agent: str. In whose name all items are recorded, 1 to 256 characters.
        all: Literal["true", "false"]. With true, items that are not of agents, models or tools are recorded as well.
        content: Literal["hash", "keep"]. With keep, prompts, completions, arguments and results of tools, and errors are recorded as they are, with secrets masked.
        """

    @_operation("exportTraces")
    def export_traces(self, *, agent=None, all=None, content=None, **members):
        """Record spans.

        POST /v1/otlp/v1/traces, exportTraces of the API reference. OTLP/HTTP 1.x.

        agent: str. In whose name all items are recorded, 1 to 256 characters.
        all: Literal["true", "false"]. With true, items that are not of agents, models or tools are recorded as well.
        content: Literal["hash", "keep"]. With keep, prompts, completions, arguments and results of tools, and errors are recorded as they are, with secrets masked.
        """

    @_operation("getChain")
    def get_chain(self, *, from_=None, limit=None, log=None):
        """Read the chain.

        GET /v1/chain, getChain of the API reference. Returns all records of the company, ascending by index.

        from_: int. First index to return.
        limit: int. Largest number of records to return.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("getConsistency")
    def get_consistency(self, from_, to, *, log=None):
        """Get a consistency proof of the chain.

        GET /v1/consistency, getConsistency of the API reference. Proves that the first from records are a prefix of the first to.

        from_: int. The older length.
        to: int. The newer length, at most that of the chain.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("getEvidence")
    def get_evidence(self, index, *, log=None, jti=None):
        """Get the evidence for a record.

        GET /v1/evidence/{index}, getEvidence of the API reference. Returns one file that can be verified offline, even years later.

        index: int. Index of the record, a non-negative integer in decimal.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        jti: str. A passport to ask for as well, not with log=control.
        """

    @_operation("getProof")
    def get_proof(self, index, *, log=None):
        """Get an inclusion proof.

        GET /v1/proof/{index}, getProof of the API reference. A record and its path to the chain root of the whole chain as it is now.

        index: int. Index of the record, a non-negative integer in decimal.
        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("searchRecords")
    def search_records(self, *, log=None, agent=None, action=None, delegated_by=None, since=None, until=None, q=None, payload=None, hash=None, order=None, cursor=None, limit=None):
        """Search records.

        GET /v1/records, searchRecords of the API reference. Returns the records of a log that match all given filters, newest first or oldest first, in pages.

        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        agent: str. Only records of this agentId.
        action: str. Only records of this actionType, or with a * at its end, of those that begin so.
        delegated_by (or delegatedBy): str. Only records with a delegation that comes from this SPIFFE ID.
        since: str. Only records of this time or later.
        until: str. Only records of before this time.
        q: str. Only records with this text within a string or a name of their payload, as that reads without its escapes.
        payload: str. Only records whose payload has these members, as in tool=Bash or input.command="ls -l".
        hash: str. Only the record with this stored hash.
        order: Literal["newest", "oldest"]. Newest first, or oldest first.
        cursor: str. next of an answer to the same question.
        limit: int. Largest number of records to return.
        """

    @_operation("countRecords")
    def count_records(self, *, log=None, agent=None, action=None, delegated_by=None, since=None, until=None, buckets=None, by=None):
        """Count records over time.

        GET /v1/records/histogram, countRecords of the API reference. Counts the matching records of a log, in total and in intervals of equal length.

        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        agent: str. Only records of this agentId.
        action: str. Only records of this actionType, or with a * at its end, of those that begin so.
        delegated_by (or delegatedBy): str. Only records with a delegation that comes from this SPIFFE ID.
        since: str. Only records of this time or later.
        until: str. Only records of before this time.
        buckets: int. Into how many parts the period is divided.
        by: Literal["agent", "action"]. agent also counts the records of each agent.
        """

    @_operation("getReport")
    def get_report(self, *, from_=None, to=None):
        """Get a complete report of a period.

        GET /v1/report, getReport of the API reference. Returns all records of a period as JSON lines.

        from_: Timestamp. Beginning of the period, itself a part of it.
        to: Timestamp. End of the period, not a part of it, and not later than the millisecond after now, which it is when absent.
        """

    @_operation("verifyChain")
    def verify_chain(self, *, log=None):
        """Verify the whole chain.

        GET /v1/verify, verifyChain of the API reference. Recomputes everything from disk (see *Chain*), in time proportional to the length of the chain.

        log: Literal["actions", "control"]. Which of the company's logs is meant (see *Logs*).
        """

    @_operation("getAuthority")
    def get_authority(self, index, *, jti=None):
        """Get the authorization at the time of an action.

        GET /v1/authority/{index}, getAuthority of the API reference. Returns what the control log records about an action at the time of its record.

        index: int. Index of the action's record, a non-negative integer in decimal.
        jti: str. A passport to ask for as well.
        """

    @_operation("getCheckpoint")
    def get_checkpoint(self, log_id):
        """Get the newest checkpoint.

        GET /v1/log/{logId}/checkpoint, getCheckpoint of the API reference. The size and log root of the log, signed by the company (c2sp.org/tlog-checkpoint).

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        """

    @_operation("getLogConsistency")
    def get_log_consistency(self, log_id, from_):
        """Get a consistency proof from an older checkpoint.

        GET /v1/log/{logId}/consistency, getLogConsistency of the API reference. Returns the newest checkpoint of the log, and the consistency proof (RFC 6962 §2.1.2) from a size to it, in the format of a request to a witness (c2sp.org/tlog-witness).

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        from_: int. The size of the checkpoint that you keep.
        """

    @_operation("getLogProof")
    def get_log_proof(self, log_id, index):
        """Get an offline inclusion proof (tlog-proof).

        GET /v1/log/{logId}/proof/{index}, getLogProof of the API reference. A tlog-proof (c2sp.org/tlog-proof) that the record's leaf is in the tree of the contained checkpoint.

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        index: int. Index of the record, a non-negative integer in decimal.
        """

    @_operation("getTile")
    def get_tile(self, log_id, path):
        """Get a tile or an entry bundle.

        GET /v1/log/{logId}/tile/{path}, getTile of the API reference. tile/<L>/<N>, tile/<L>/<N>.p/<W> and tile/entries/<N> of c2sp.org/tlog-tiles; path is what follows tile/ and may contain slashes.

        log_id (or logId): str. ID of the log, from GET /v1/logs.
        path: str. What follows tile/.
        """

    @_operation("listLogs")
    def list_logs(self):
        """List the logs of the company.

        GET /v1/logs, listLogs of the API reference. The company's chains as logs that standard tools read.
        """

    @_operation("getWitness")
    def get_witness(self):
        """Get the witness's key.

        GET /v1/witness, getWitness of the API reference. The name of this server as a witness, and the key by which its cosignatures are verified.
        """

    @_operation("addCheckpoint")
    def add_checkpoint(self, text):
        """Cosign a checkpoint.

        POST /v1/witness/add-checkpoint, addCheckpoint of the API reference. A log asks this server, as a witness, to cosign its newest checkpoint (c2sp.org/tlog-witness).

        text: str.
        """

    @_operation("getCosignedCheckpoint")
    def get_cosigned_checkpoint(self, origin_hash):
        """Get the checkpoint that was cosigned last.

        GET /v1/witness/{originHash}/checkpoint, getCosignedCheckpoint of the API reference. The last checkpoint of another's log that this server has cosigned, with the log's signature and the cosignature.

        origin_hash (or originHash): str. SHA-256 of the log's origin, 64 hex digits in lower case.
        """

    @_operation("delegate")
    def delegate(self, agent_id, acting_on, scope):
        """Issue a delegation token for a company.

        POST /v1/token-exchange, delegate of the API reference. Issues a delegation token with sub = spiffe://{trustDomain}/company/{actingOn}, the agent as the only actor, and the given scope.

        agent_id (or agentId): str. The agent that will act; registered with the company.
        acting_on (or actingOn): Segment. companyId of the company for which it acts.
        scope: str. Scopes separated by spaces.
        """

    @_operation("exchangeToken")
    def exchange_token(self, grant_type, subject_token, subject_token_type, actor_token, actor_token_type):
        """Exchange tokens (RFC 8693).

        POST /v1/token/exchange, exchangeToken of the API reference. Exchanges the token of a subject and the SVID of an actor, both signed with the authenticated company's key, for a delegation token.

        grant_type: Literal["urn:ietf:params:oauth:grant-type:token-exchange"].
        subject_token: str. SVID of the subject, or the access_token of an earlier exchange.
        subject_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"].
        actor_token: str. SVID of the actor, without act.
        actor_token_type: Literal["urn:ietf:params:oauth:token-type:jwt"].
        """

    @_operation("issuePassport")
    def issue_passport(self, agent_id, *, jkt=None, scopes=None, ttl=None):
        """Issue a passport.

        POST /v1/agents/{agentId}/passport, issuePassport of the API reference. Issues a passport to a registered agent.

        agent_id (or agentId): str. The agent's name in its company.
        jkt: Union[str, None]. Thumbprint of a live key of the agent, to which the passport is bound.
        scopes: Union[list[str], None]. null is the default.
        ttl: Union[int, None]. Lifetime in seconds.
        """

    @_operation("rotatePassport")
    def rotate_passport(self, agent_id, *, service_passport=None, attestd_passport=None):
        """Replace a passport by a new one.

        POST /v1/agents/{agentId}/passport/rotate, rotatePassport of the API reference. Revokes the passport in the header and issues a new one with the same scopes, the same delegation chain and the old one's full lifetime, in one transaction.

        agent_id (or agentId): str. The agent's name in its company.
        service_passport (or Service_Passport): JWT. The current passport.
        attestd_passport (or Attestd_Passport): JWT. The current passport, under the name that does not depend on the service's name.
        """

    @_operation("verifyPassport")
    def verify_passport(self, passport, *, htm=None, htu=None, proof=None, tool=None):
        """Verify a passport online.

        POST /v1/passport/verify, verifyPassport of the API reference. Makes all checks listed under *Passports*, including revocation.

        passport: str.
        htm: Union[str, None]. Method of that request.
        htu: Union[str, None]. URL of that request.
        proof: Union[str, None]. Of a passport that is bound to a key.
        tool: str. Also check that tool:<tool> is granted.
        """

    @_operation("listPassports")
    def list_passports(self, *, agent=None, status=None, limit=None, cursor=None):
        """List issued passports.

        GET /v1/passports, listPassports of the API reference. Lists the passports that the company has issued, newest first, in pages.

        agent: str. Only passports of the agent with this agentId.
        status: Literal["valid", "revoked", "expired"]. Only passports of this state.
        limit: int. Largest number of entries in the page.
        cursor: str. next of the previous page.
        """

    @_operation("getPassportStatus")
    def get_passport_status(self, jti):
        """Get the signed status of a passport.

        GET /v1/ocsp/{jti}, getPassportStatus of the API reference. Returns a status signed with the company's key; *Revocation* explains how to check it.

        jti: str. ID of the passport.
        """

    @_operation("listRevokedPassports")
    def list_revoked_passports(self):
        """List revoked passports.

        GET /v1/passports/revoked, listRevokedPassports of the API reference. Lists all revoked passports of the company, ordered by the time of revocation.
        """

    @_operation("revokePassport")
    def revoke_passport(self, jti, *, reason=None):
        """Revoke a passport.

        POST /v1/passports/{jti}/revoke, revokePassport of the API reference. Revokes a passport that the company issued.

        jti: str. ID of the passport.
        reason: Union[str, None]. Shown in the list and in the signed status.
        """

    @_operation("getPublicKey")
    def get_public_key(self, company_id):
        """Get a company's public key.

        GET /v1/ca/public-key, getPublicKey of the API reference. Returns the current key as PEM, JWK and JWKS.

        company_id (or companyId): str. The company.
        """

    @_operation("getPublicKeys")
    def get_public_keys(self, company_id):
        """Get all keys that a company has had.

        GET /v1/ca/public-keys, getPublicKeys of the API reference. Lists all keys of a company, oldest first.

        company_id (or companyId): str. The company.
        """

    @_operation("getDiscovery")
    def get_discovery(self, company_id):
        """Get a company's discovery document.

        GET /v1/ca/well-known, getDiscovery of the API reference. Returns everything that a verifier needs in one document.

        company_id (or companyId): str. The company.
        """

    @_operation("getIssuerMetadata")
    def get_issuer_metadata(self, company_id):
        """Get a company's issuer metadata.

        GET /.well-known/oauth-authorization-server/o/{companyId}, getIssuerMetadata of the API reference. The metadata of a company's issuer, in the place of RFC 8414.

        company_id (or companyId): str. The company.
        """

    @_operation("getResourceMetadata")
    def get_resource_metadata(self):
        """Get the metadata of this API as a resource.

        GET /.well-known/oauth-protected-resource, getResourceMetadata of the API reference. RFC 9728, of the whole API.
        """

    @_operation("getCompanyResourceMetadata")
    def get_company_resource_metadata(self, company_id):
        """Get the metadata of a company's part of this API as a resource.

        GET /.well-known/oauth-protected-resource/o/{companyId}, getCompanyResourceMetadata of the API reference. RFC 9728.

        company_id (or companyId): str. The company.
        """

    @_operation("getOpenIDMetadata")
    def get_open_idmetadata(self, company_id):
        """Get a company's issuer metadata, for OpenID Connect.

        GET /.well-known/openid-configuration/o/{companyId}, getOpenIDMetadata of the API reference. The same document, in the place where RFC 8414 §5 puts that of OpenID Connect.

        company_id (or companyId): str. The company.
        """

    @_operation("getOpenIDConfiguration")
    def get_open_idconfiguration(self, company_id):
        """Get a company's issuer metadata, below the issuer.

        GET /o/{companyId}/.well-known/openid-configuration, getOpenIDConfiguration of the API reference. The same document, in the place of OpenID Connect Discovery 1.0.

        company_id (or companyId): str. The company.
        """

    @_operation("getTokenKeys")
    def get_token_keys(self, company_id):
        """Get a company's token keys.

        GET /o/{companyId}/jwks, getTokenKeys of the API reference. The JWK set (RFC 7517) of the issuer.

        company_id (or companyId): str. The company.
        """

    @_operation("getSPIFFEBundle")
    def get_spiffebundle(self, company_id):
        """Get a company's SPIFFE bundle.

        GET /o/{companyId}/spiffe-bundle, getSPIFFEBundle of the API reference. The token keys that may sign a JWT-SVID (ES256, RS256) as a SPIFFE bundle.

        company_id (or companyId): str. The company.
        """

    @_operation("createAgentToken")
    def create_agent_token(self, agent_id, audience, *, alg=None, ttl=None):
        """Issue a token for others.

        POST /v1/agents/{agentId}/token, createAgentToken of the API reference. A JWT that says to audience who the agent is.

        agent_id (or agentId): str. The agent's name in its company.
        audience: Union[str, list[str]]. Who is to accept the token.
        alg: Literal["ES256", "RS256", "EdDSA", None]. Algorithm of the signature.
        ttl: Union[int, None]. Seconds until it ends.
        """

    @_operation("listWebhooks")
    def list_webhooks(self):
        """List webhooks.

        GET /v1/webhooks, listWebhooks of the API reference. The webhooks of the company, without their secrets.
        """

    @_operation("createWebhook")
    def create_webhook(self, url, *, actions=None, agents=None, description=None):
        """Make a webhook.

        POST /v1/webhooks, createWebhook of the API reference. Messages are sent for the records that are appended from now on, of all agents and kinds, or of those that agents and actions name; an action that ends in * is a prefix.

        url: str.
        actions: NewNames. 1 to 100 names of 1 to 256 characters; null or absent means all.
        agents: NewNames. 1 to 100 names of 1 to 256 characters; null or absent means all.
        description: Union[str, None].
        """

    @_operation("deleteWebhook")
    def delete_webhook(self, webhook_id):
        """Delete a webhook.

        DELETE /v1/webhooks/{webhookId}, deleteWebhook of the API reference. After this response, nothing more is sent to it.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("getWebhook")
    def get_webhook(self, webhook_id):
        """Get a webhook.

        GET /v1/webhooks/{webhookId}, getWebhook of the API reference. Returns the state of a webhook.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("disableWebhook")
    def disable_webhook(self, webhook_id):
        """Disable a webhook.

        POST /v1/webhooks/{webhookId}/disable, disableWebhook of the API reference. After this response, nothing more is sent to it.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("enableWebhook")
    def enable_webhook(self, webhook_id):
        """Enable a webhook.

        POST /v1/webhooks/{webhookId}/enable, enableWebhook of the API reference. Delivery continues with the records at which it stopped, with a full set of attempts.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("rotateWebhookSecret")
    def rotate_webhook_secret(self, webhook_id):
        """Rotate the secret of a webhook.

        POST /v1/webhooks/{webhookId}/rotate-secret, rotateWebhookSecret of the API reference. Only this response shows the secret.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("testWebhook")
    def test_webhook(self, webhook_id):
        """Send a test.

        POST /v1/webhooks/{webhookId}/test, testWebhook of the API reference. Sends one message of the type webhook.test, about no record, and returns the result of one attempt.

        webhook_id (or webhookId): str. The webhook's ID.
        """

    @_operation("listFederations")
    def list_federations(self):
        """List federations.

        GET /v1/federation, listFederations of the API reference. The federations of the company, in the order of their creation.
        """

    @_operation("createFederation")
    def create_federation(self, name, issuer, audience, rules, *, jwks=None, jwks_uri=None):
        """Trust another issuer.

        POST /v1/federation, createFederation of the API reference. Workloads with tokens of this issuer and audience become the agents that rules say.

        name: str. Not . or ...
        issuer: str. iss of the tokens.
        audience: str. aud of the tokens.
        rules: list[FederationRule]. At most 32 KiB.
        jwks: Union[dict[str, Any], None]. The public keys of the issuer (RFC 7517 §5), at most 16 KiB.
        jwks_uri (or jwksUri): Union[str, None]. Where they are.
        """

    @_operation("deleteFederation")
    def delete_federation(self, name):
        """Delete a federation.

        DELETE /v1/federation/{name}, deleteFederation of the API reference. After this response, no token of the issuer is accepted, and the access tokens of its workloads are refused.

        name: str. The federation's name.
        """

    @_operation("getFederation")
    def get_federation(self, name):
        """Get a federation.

        GET /v1/federation/{name}, getFederation of the API reference. Returns a federation, and what this server has fetched of the issuer's keys.

        name: str. The federation's name.
        """

    @_operation("getReadiness")
    def get_readiness(self):
        """Check that the service can write.

        GET /readyz, getReadiness of the API reference. Returns 200 if the service can write now, or else 503 with the reason and the code that a write would get.
        """

    @_operation("getHealth")
    def get_health(self):
        """Check that the service is up.

        GET /v1/health, getHealth of the API reference. Returns 200 while the process answers requests, without accessing the database.
        """

    @_operation("getOpenAPI")
    def get_open_api(self):
        """Get this document.

        GET /v1/openapi.json, getOpenAPI of the API reference. Returns this document as JSON.
        """

class _IssuedToken:  # of Client.token
    def __init__(self):
        self.lock, self.token, self.renew, self.ends = threading.Lock(), None, float("-inf"), float("-inf")

class Client(_Operations):
    """Calls one service. credential is an API key or an access token, or an OAuth; timeout are the seconds of one attempt, answer included; context is an ssl.SSLContext."""

    def __init__(self, url, credential=None, *, timeout=30.0, retry=Retry(), context=None):
        self.url, self._retry = url.rstrip("/"), retry
        # a file's line break is no part of a key
        self._credential = credential.strip() if isinstance(credential, str) else credential
        self._connections = _Connections(self.url, timeout, context)
        self._nonce = ""  # that the next proof has to repeat
        self._connections.heard = self._hear
        self._rate = None
        self._tokens, self._tokens_lock = {}, threading.Lock()

    def _hear(self, headers):  # of an answer
        self._nonce = headers.get("DPoP-Nonce") or self._nonce
        if isinstance(self._credential, Agent):
            self._credential._hear(headers)

    def close(self):
        """Closes the connections that no call uses."""
        self._connections.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @_either
    def attest(self, agent_id, action_type, payload, *, delegation=None, idempotency_key=None):
        """Appends a record and returns it, once it is on the service's disk: once, however often it had to be sent. A RecordMismatchError says that the record in the answer is not of
        this attestation."""
        return self._attest(_prepare({"agentId": agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "idempotencyKey": idempotency_key}))

    def _attest(self, one):
        def send(items):
            route = OPERATIONS["attest"]
            read = lambda answer: self._records(route, [json.loads(answer)], [items[0].text])[0]
            return self._send(route, "/v1/attest", {"Idempotency-Key": _header_key(items[0].key)} if items[0].key else {}, items[0].text, read)
        return _under_fresh_keys(send, [one])

    def session(self, id=None, *, continues=None):
        """Begins a session of the agent whose credential this client has. No two of an agent may have one ID; without one it makes one up. With continues, the last of another session, it
        goes on from that: after its end, or under the next key."""
        return Session(self, id, continues=continues)

    def _learn_log(self):  # signs in where the agent does not know yet for which log it signs
        if isinstance(self._credential, Agent) and self._credential.log is None:
            try:
                self._bearer()
            except AttestdError:  # then it is not known
                pass

    @_either
    def token(self, audience, *, agent_id=None, alg=None, ttl=None):
        """A token that tells its audience who the agent is, valid for a while: the one that was got for the same request before, or a new one a minute before that ends. Of many calls at
        once, one asks the service. Call it for each use. Where the service gives no new one, it is the one before while that is valid. Returns the dict token, tokenType, expiresAt."""
        agent_id = agent_id or (self._credential.agent_id if isinstance(self._credential, Agent) else None)
        if not agent_id:
            raise AttestdError("a token needs an agent_id, or a client whose credential is an Agent")
        name = (agent_id, audience if isinstance(audience, str) else tuple(audience), alg, ttl)
        with self._tokens_lock:
            if name not in self._tokens and len(self._tokens) >= 1000:  # few are usual
                self._tokens.clear()
            entry = self._tokens.setdefault(name, _IssuedToken())
        with entry.lock:
            asked = time.monotonic()
            if asked < entry.renew:
                return dict(entry.token)
            try:
                made = self.create_agent_token(agent_id, audience=audience, **{name: value for name, value in (("alg", alg), ("ttl", ttl)) if value is not None})
            except AttestdError:
                if time.monotonic() < entry.ends:
                    return dict(entry.token)
                raise
            life = ttl or 300
            entry.token, entry.renew, entry.ends = made, asked + life - min(60, life / 2), asked + life - min(5, life / 2)
            return dict(made)

    @_either
    def enrol_key(self, agent_id, key, *, label=None, expires_at=None):
        """Makes a key an agent's, and proves possession of it. The credential is an admin's, an enrolment token of the agent, or the agent itself: then its present key endorses
        this one. key is an AgentKey, or any object that signs."""
        agent = self._credential if isinstance(self._credential, Agent) else None
        given = {"jwk": _public_jwk(key.jwk), "label": label, "expiresAt": expires_at, "endorsement": agent and agent._endorse(_thumbprint(key.jwk))}
        def attempt():
            proof = _proof(key, "POST", f"{self.url}/v1/agents/{quote(agent_id, safe='')}/keys", nonce=self._nonce)
            return self.enrol_agent_key(agent_id, **given, **{"proof" if agent and agent.dpop else "DPoP": proof})
        try:
            made = attempt()
        except ServiceError as error:
            # a proof counts once, also where the attempt before had no answer
            if not _wants_nonce(error) and not (error.repeated and error.code == "INVALID_DPOP_PROOF"):
                raise
            made = attempt()
        if agent:
            agent._learn(made.get("log"))
        return made

    def attest_all(self, attestations):
        """Appends up to 1,000 records, all or none, and returns them in order. Each attestation is a dict with agentId, actionType, payload and perhaps delegation and idempotencyKey. The
        pointer of a ServiceError names the one that is refused: /records/3/payload."""
        items = [_prepare(one) for one in attestations]
        if not 1 <= len(items) <= 1000:
            raise PayloadError("", f"a batch has 1 to 1000 attestations, not {len(items)}")
        return _under_fresh_keys(lambda items: self.send_batch([one.item() for one in items]), items)

    def send_batch(self, items, *, patient=True):
        """As attest_all, of items that are JSON already, with their keys: what a spool has kept.
        Where the rate limit takes no more, who is not patient is told at once."""
        route = OPERATIONS["attestBatch"]
        return self._send(route, "/v1/attest/batch", {}, '{"records":[' + ",".join(items) + "]}", lambda answer: self._records(route, json.loads(answer)["records"], items), patient)

    def _records(self, route, records, sent):
        """Requires that the records of an answer are those of what was sent."""
        must(len(records) == len(sent), "not as many records as were sent")
        must(all(one["hash"] and one["signature"] for one in records), "not a record")
        credential = self._credential
        company, person = credential.company_id if isinstance(credential, Agent) else None, isinstance(credential, str)
        places = {i: what for i, what in enumerate(map(lambda one, item: _differs(one, json.loads(item), company, person), records, sent)) if what}
        if places:
            raise RecordMismatchError(route.call, places)
        return records

    def records(self, from_=0, limit=None, log=None):
        """The records of a log from an index on, asked for by pages. Without a limit, to the end."""
        left = sys.maxsize if limit is None else limit
        while left > 0:
            asked = min(left, 500)
            page = self.get_chain(from_=from_, limit=asked, log=log)["records"]
            yield from page
            if len(page) < asked:
                return
            from_, left = from_ + asked, left - asked

    def search(self, limit=None, **asked):
        """The records that a search finds, the newest first unless order says otherwise, asked for by pages: those of the log as it was at the first one. The arguments are those of
        search_records but cursor. That none is missing is the service's word; what is returned can be checked."""
        left, cursor = sys.maxsize if limit is None else limit, None
        while left > 0:
            page = self.search_records(**asked, limit=min(left, 500), cursor=cursor)
            yield from page["records"]
            cursor = page.get("next")
            if cursor is None:
                return
            left -= len(page["records"])

    def stream(self, from_=None):
        """Records as they are appended, of the credential's company or, without one, of those that the service shows to anyone: a generator of the reference's StreamMessage. With from_, those
        from that index on come first. It ends with ConnectionLost; the index of the last message says where to go on."""
        path = "/v1/ws" + ("" if from_ is None else f"?from={int(from_)}")
        for text in _messages(*self._again(lambda bearer: _upgrade(self._connections, path, self._presents("GET", path, bearer)), True, False)):
            yield json.loads(text)

    def raw(self, operation, *order, **given):
        """Carries out an operation by its name in the reference and returns the bytes of its answer, for whoever keeps them: those of evidence, for example."""
        route = OPERATIONS[operation]
        return self._send(route, *_arrange(route, *_bound(operation, order, given)), bytes)

    def _call(self, name, order, given):
        route = OPERATIONS[name]
        arranged = _arrange(route, *_bound(name, order, given))
        if route.answer == "lines":
            return self._lines(route.call, *arranged[:2])
        return self._send(route, *arranged, {"json": json.loads, "text": bytes.decode, "bytes": bytes}[route.answer])

    def _send(self, route, path, headers, body, read, patient=True):
        kind = {"json": "application/json", "form": "application/x-www-form-urlencoded", "text": "text/plain; charset=utf-8"}[route.body]
        headers = headers if body is None else {**headers, "Content-Type": kind}
        safe, appends = route.safe or route.call.startswith("GET "), route in (OPERATIONS["attest"], OPERATIONS["attestBatch"])
        def attempt(bearer):
            if appends and isinstance(self._credential, Agent):
                self._credential._refuse()
            status, said, answer = self._connections.whole(route.call, path, {**headers, **self._presents(route.call, path, bearer)}, body, safe)
            if appends:
                self._rate = _rate(said, status, self._rate)
            if status == route.status:
                try:
                    return read(answer)
                except (ValueError, LookupError, TypeError) as cause:  # a proxy's page, for example
                    raise ConnectionLost(route.call, cause) from None
            if route.denies and _object(answer).get("valid") is False:
                return _object(answer)
            raise _service_error(route.call, status, said, answer)
        return self._again(attempt, safe, route.public, patient)

    def _lines(self, operation, path, headers):
        def attempt(bearer):
            connection, sock, answer = self._connections.open(operation, path, {**headers, **self._presents(operation, path, bearer)}, None)
            if answer.status != 200:
                raise _refusal(operation, answer, connection)
            sock.within(self._connections.timeout)  # each piece of what may be long
            return connection, answer
        connection, answer = self._again(attempt, True, False)
        rest = b""
        try:
            for part in _parts(answer):
                *lines, rest = (rest + part).split(b"\n")
                if len(rest) > MAX_ANSWER:
                    raise OSError(f"a line is longer than {MAX_ANSWER} bytes")
                for line in lines:
                    yield line.decode()
            if rest:
                raise http.client.IncompleteRead(rest)
        except (OSError, http.client.HTTPException) as cause:
            raise ConnectionLost(operation, cause) from None
        finally:
            _end(answer, connection)

    def _presents(self, call, path, bearer):  # the headers that carry the credential of a request
        return self._credential._headers(bearer, call.split(" ")[0], self.url + path) if isinstance(self._credential, Agent) else bearer

    def _bearer(self, refused=""):
        credential = self._credential
        return credential._bearer(self, refused) if isinstance(credential, (OAuth, Agent)) else credential or ""

    def _again(self, attempt, safe, public, patient=True):
        """Calls attempt until it succeeds or Retry says that it is enough. A credential that is refused may offer another once, and so may a
        nonce."""
        token, renewed, told, unknown, n = "" if public else self._bearer(), False, False, False, 0
        while True:
            try:
                return attempt({"Authorization": f"Bearer {token}"} if token else {})
            except AttestdError as error:
                if isinstance(error, ServiceError):
                    error.repeated = unknown
                unknown = unknown or not isinstance(error, ServiceError) or error.foreign or error.status >= 500
                if token and _wants_nonce(error) and error.status == 401:
                    if told:
                        raise
                    told = True
                    continue
                if token and not renewed and isinstance(error, ServiceError) and error.status == 401:
                    renewed, fresh = True, self._bearer(token)
                    if fresh == token:
                        raise
                    token = fresh
                    continue
                wait = self._retry._wait(n, error, safe) if patient or getattr(error, "status", 0) != 429 else None
                if wait is None:
                    raise
                n += 1
                time.sleep(wait)

def _under_fresh_keys(send, items):
    """Sends items. Where the service knows a key that we made from another request, that item is
    sent under another; a caller's own key stays."""
    renewed = set()
    while True:
        try:
            return send(items)
        except ServiceError as error:
            at = 0 if len(items) == 1 else _place(error)
            if error.code != "IDEMPOTENCY_KEY_REUSED" or at is None or at in renewed or not items[at].made:
                raise
            renewed.add(at)
            items = [*items[:at], items[at].rekeyed(), *items[at + 1 :]]

def _place(error):  # of the item of a batch that a refusal names, or None
    named = re.match(r"/records/([0-9]+)", error.pointer)
    return int(named[1]) if named else None

@dataclass(frozen=True)
class _Rate:
    """What the service has said of its limit on attestations: how many in a window (0 for no
    limit), how many are left, and until when (monotonic) that is so at least."""

    limit: int
    left: int
    until: float

def _rate(headers, status, before):
    try:
        limit, left, reset = (int(headers["X-RateLimit-" + name]) for name in ("Limit", "Remaining", "Reset"))
    except (TypeError, ValueError):
        # others, proxies for example, know nothing of it
        return _Rate(0, 0, 0) if status == 201 else before
    return _Rate(limit, left, time.monotonic() + min(60.0, max(1.0, reset - time.time())))

# The record in an answer is that of what was sent, or there is none to believe in.

def _differs(record, sent, company, person):
    """What in a record is not what was sent; None where all of it is. company is None where it is not known; person says that the credential may be an access token of an agent that has
    signed in for a person, whom its records then name as their delegation. Of a record whose payload was pruned since, the hash is compared in place of the payload."""
    token, delegation = sent.get("delegation"), record.get("delegation")
    expected = _delegation_or_none(token) if token else None
    of_person = not token and person and type(delegation) is dict and "#" in str(delegation.get("subject"))
    if (not _same(delegation, expected) or bool(token) != bool(expected)) and not of_person:
        return "delegation"
    if record.get("pruned") is True:
        return None if company is not None and _hash_of(record, sent, company) == record["hash"] else "hash"
    payload = record["payload"]
    for name in ("agentId", "actionType", "statement", "payload"):
        if (name in payload) != (name in sent) or not _same(payload.get(name), sent.get(name)):
            return name
    return None if company is None or payload["companyId"] == company else "companyId"

def _same(a, b):
    """Whether two values have the same canonical form."""
    if type(a) is dict:
        return type(b) is dict and a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if type(a) is list:
        return type(b) is list and len(a) == len(b) and all(map(_same, a, b))
    if type(a) in (int, float):
        return type(b) in (int, float) and a == b
    return type(a) is type(b) and a == b

def _hash_of(record, sent, company):  # that a record of what was sent has
    payload = {name: sent[name] for name in ("agentId", "actionType", "payload", "statement") if name in sent}
    delegation = [[record["delegation"]]] if "delegation" in record else []
    return digest_of_parts(str(record["index"]), record["timestamp"], [{**payload, "companyId": company}], *delegation).hex()

def _delegation_of(token):
    """What the record of an action under a token will say of the delegation, of a token that is not checked here: the service checks it. SVIDs and delegation tokens have the first actor
    outermost; access tokens have it innermost (RFC 8693, section 4.1)."""
    try:
        kind, claims = _part_of(token, 0)["typ"], _part_of(token, 1)
        actors, at = [], claims
        while "act" in at:
            at = at["act"]
            must(type(at) is dict and set(at) <= {"sub", "act"} and len(actors) < 10, "no actor")
            actors.append(at["sub"])
        strings(claims["sub"], claims["jti"], *actors)
        must(kind in ("JWT", "at+jwt") and claims["jti"], "no such token")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise PayloadError("/delegation", "is no token of a delegation: its header must have the typ JWT or at+jwt, and its claims sub, jti and perhaps act") from None
    if kind == "at+jwt":
        actors.reverse()
    nested = functools.reduce(lambda act, sub: {"sub": sub, **({"act": act} if act else {})}, reversed(actors), None)
    return {"subject": claims["sub"], "delegationChain": [claims["sub"], *actors], "act": nested, "tokenId": claims["jti"]}

def _delegation_or_none(token):
    try:
        return _delegation_of(token)
    except PayloadError:  # no record can be of it
        return None

def _upgrade(connections, path, bearer):
    """Asks for a WebSocket (RFC 6455): (connection, socket, answer, on whose file the messages
    come)."""
    operation, key = "GET /v1/ws", base64.b64encode(os.urandom(16)).decode()
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key, **bearer}
    connection, sock, answer = connections.open(operation, path, headers, None)
    accept = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    if answer.status == 101 and answer.headers.get("Sec-WebSocket-Accept") == base64.b64encode(accept).decode():
        sock.within(75)  # the service pings every 30 s
        return connection, sock, answer
    raise _refusal(operation, answer, connection)

def _messages(connection, sock, answer):
    """The text messages of a WebSocket until it is closed, which raises ConnectionLost."""
    whole = b""
    try:
        for final, kind, data in _frames(answer.fp):
            if kind == 8:
                code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 1005
                raise ConnectionError(f"closed with {code} {data[2:].decode(errors='replace')}".rstrip())
            if kind == 9:
                _pong(sock, data)
            elif kind in (0, 1):
                whole += data
                must(len(whole) <= MAX_ANSWER, f"a message is longer than {MAX_ANSWER} bytes")
                if final:
                    yield whole.decode()
                    whole = b""
    except (OSError, ValueError) as cause:
        raise ConnectionLost("GET /v1/ws", cause) from None
    finally:
        _end(answer, connection)

def _frames(source):  # (final, kind, data); a server masks nothing
    def exactly_read(size):
        data = source.read(size)
        if len(data) < size:
            raise ConnectionError("broken off")
        return data
    while True:
        first, size = exactly_read(2)
        if size >= 126:
            size = int.from_bytes(exactly_read(2 if size == 126 else 8), "big")
            must(size <= MAX_ANSWER, f"a message is longer than {MAX_ANSWER} bytes")
        yield first >= 128, first & 15, exactly_read(size)

def _pong(sock, data):
    mask = os.urandom(4)
    sock.sendall(bytes([0x8A, 0x80 | len(data)]) + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

class AsyncClient:
    """The methods of Client for asyncio: each runs in a thread of asyncio's pool. records, search, stream, get_report and get_session are asynchronous generators."""

    def __init__(self, *args, **named):
        self.client = Client(*args, **named)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.client.close()

def _asynchronous(name, method):
    if name in ("records", "search", "stream", "get_report", "get_session"):
        def call(self, *order, **given):
            return _each(getattr(self.client, name), order, given)
    else:
        async def call(self, *order, **given):
            return await asyncio.to_thread(getattr(self.client, name), *order, **given)
    call = functools.wraps(method)(call)
    call.__qualname__ = f"AsyncClient.{name}"
    return call

for _name, _found in inspect.getmembers(Client, inspect.isfunction):
    if not _name.startswith("_"):
        setattr(AsyncClient, _name, _asynchronous(_name, _found))

async def _each(method, args, named):
    source, end = await asyncio.to_thread(method, *args, **named), object()
    try:
        while True:
            one = await asyncio.to_thread(next, source, end)
            if one is end:
                return
            yield one
    finally:
        try:
            source.close()
        except ValueError:  # a thread waits in it for what comes next, and lets go of it then
            pass

class Keys:
    """The keys of a company, of which the caller has pinned one by its fingerprint, got from somewhere else than the service. Each other key is taken for it is proven to come before
    or after that one. keys is the answer of get_public_key or, where the company may have had several, get_public_keys: the text as it came, which is checked most
    strictly, or what json.loads made of it."""

    def __init__(self, keys, fingerprint):
        with _step("KEY"):
            keys = _given(keys)
            prints = check_key(keys)
            must(fingerprint in (prints if type(prints) is list else [prints]), f"the key that you trust, {fingerprint}, is none of the company's")
            self.actions = self.control = keys
            log = next((log for log in keys.get("logs", ()) if log["log"] == "control"), None)
            if log:  # both logs are signed with the company's keys, each in ranges of its own
                known = {one["kid"]: {name: one[name] for name in one if name not in ("fromIndex", "rotation")} for one in keys["keys"]}
                self.control = {**keys, "origin": log["origin"], "keys": [{**known[one["kid"]], **one} for one in log["keys"]]}
                check_key(self.control)

    @classmethod
    def of_key(cls, key, company_id, trust_domain="attestd.local"):
        """The one key, in PEM or the x of its JWK, that the caller trusts as a company's: for companies that have had no other."""
        with _step("KEY"):
            spki = bytes.fromhex("302a300506032b6570032100")
            der = base64.b64decode("".join(key.split("-----")[2].split())) if "-----" in key else spki + unbase64url(key)
            must(der[:12] == spki and len(der) == 44, "not an Ed25519 key")
            pem = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(der).decode()}\n-----END PUBLIC KEY-----\n"
            digest = hashlib.sha256(der).digest()
            fingerprint = "SHA256:" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
        named = {"companyId": company_id, "spiffeId": f"spiffe://{trust_domain}/company/{company_id}"}
        jwk = {"x": base64.urlsafe_b64encode(der[12:]).decode().rstrip("=")}
        return cls({**named, "kid": digest.hex()[:16], "fingerprint": fingerprint, "pem": pem, "jwk": jwk}, fingerprint)

    def of(self, log):
        return {"actions": self.actions, "control": self.control}[log]

def verify_record(record, keys, *, log="actions"):
    """Checks that a record is, byte for byte in its canonical form, what the company's key has signed. Where its payload was pruned, nobody can recompute the hash: then the code of the
    VerificationError is PRUNED, once the signature over the hash was found to be the company's."""
    with _step("RECORD"):
        check_record(_given(record), keys.of(log), log)

def verify_proof(proof, keys, *, log="actions", root=None):
    """Checks an answer of get_proof: the record as verify_record does, and that it leads to the root, which is returned. That root proves something to whoever compares it with one that
    was kept: give that as root. Where all of this holds and the payload was pruned, the code of the VerificationError is PRUNED."""
    with _step("PROOF"):
        proof = _given(proof)
        found = verify_inclusion(proof, keys, log=log, root=root)
        if "pruned" in proof["record"]:
            raise Pruned
        return found

def verify_inclusion(proof, keys, *, log="actions", root=None):
    """As verify_proof, and says nothing of the content of a record whose payload was pruned: only that the company has signed its hash, and that this hash leads to the root."""
    with _step("PROOF"):
        found = check_inclusion(_given(proof), keys.of(log), log)
        must(root in (None, found), "the root is not the one that you kept")
        return found

def verify_token(token, keys, *, service="service"):
    """Checks a passport, an SVID or a delegation token against the company's keys: form, signature, times, issuer, audience, subject. Returns its claims; the code of a
    VerificationError is that of the reference. Whether a passport was revoked, only a status of now says: verify_status."""
    with _step("MALFORMED_TOKEN"):
        parts = token.split(".")
        must(len(parts) == 3 and len(token) <= 16 << 10, "not a token")
        header, own = (read(unbase64url(part).decode()) for part in parts[:2])
        unbase64url(parts[2])
        passport, home = header["typ"] == "CAP+JWT", keys.actions["spiffeId"]
        body = own[service] if passport and service in own else {}
        must(all(type(n) is int for n in (own["iat"], own["nbf"], own["exp"], body.get("v", 0))), "the times are no integers")
        must(not passport or type(body.get("scopes")) is list and type(body.get("delegationChain")) is list, "not the claims of a passport")
    key = next((one for one in token_keys(keys.actions, own["iat"]) if one["kid"] == header.get("kid")), None)
    _demand("ALGORITHM_MISMATCH", header.get("alg") == "EdDSA")
    _demand("WRONG_TOKEN_TYPE", header["typ"] in ("JWT", "CAP+JWT") and set(header) == {"alg", "kid", "typ"})
    _demand("SIGNATURE_INVALID", key)
    with _step("SIGNATURE_INVALID"):
        check_signature(key, parts[2], f"{parts[0]}.{parts[1]}".encode())
    _demand("TOKEN_EXPIRED", time.time() < own["exp"])
    _demand("TOKEN_NOT_YET_VALID", own["nbf"] <= time.time())
    _demand("AUDIENCE_MISMATCH", own.get("aud") == [f"{service}:passport:v1" if passport else service])
    _demand("INVALID_ISSUER", own.get("iss") == home.split("/company/")[0] + "/ca")
    if passport:
        _demand("INVALID_SUBJECT", body.get("org") == keys.actions["companyId"] and own["sub"] == f"{home}/agent/{body.get('agentId')}")
    with _step("MALFORMED_CLAIMS"):
        check_life(own, 86400 if passport else 3600)
    if passport:
        _demand("UNSUPPORTED_VERSION", body.get("v") == 1)
        _demand("CHAIN_INCOHERENT", body["delegationChain"][-1:] == [own["sub"]])
    return own

def verify_passport(passport, keys, *, tool=None, service="service"):
    """As verify_token, of a passport alone. With tool, one of its scopes must cover tool:<tool>. Returns its claims and the first scope that does or, without tool, the broadest."""
    claims = verify_token(passport, keys, service=service)
    _demand("WRONG_TOKEN_TYPE", type(claims.get(service)) is dict)
    scopes, wide = claims[service]["scopes"], lambda scope: (scope != "*", not scope.endswith(":*"))
    fit = sorted(scopes, key=wide) if tool is None else [scope for scope in scopes if scope in ("*", "tool:*", f"tool:{tool}")]
    _demand("SCOPE_DENIED", fit)
    return claims, fit[0]

def verify_status(status, keys, jti, *, max_age=300):
    """Checks an answer of get_passport_status: that the company's key has signed it, of this passport, within the last max_age seconds. Returns valid, revoked or unknown."""
    with _step("STATUS"):
        return check_status(_given(status), keys.actions, jti, max_age)

def verify_evidence(evidence, *, fingerprint=None, policy=None, agent_key=None):
    """Checks a file of evidence, best as the bytes that came, with the fingerprint of a key of the company or the text of a policy (c2sp.org/tlog-policy). Returns what was checked and what
    such a file does not prove, each a list of sentences. With agent_key, the thumbprint of a key of the agent that came from the agent, the code is STATEMENT unless that key has signed
    the record, or one that follows from it."""
    if (fingerprint is None) == (policy is None):
        raise TypeError("one of fingerprint and policy is needed")
    with _step("STATEMENT"):
        must(agent_key is None or is_thumbprint(agent_key), "the thumbprint of an agent's key is 43 characters of base64url")
    source = evidence.encode() if isinstance(evidence, str) else evidence if isinstance(evidence, bytes) else json.dumps(evidence, ensure_ascii=False).encode()
    with _step("POLICY"):
        checks = Evidence(source, fingerprint, None if policy is None else read_policy(policy), agent_key)
    verdict, code, reason = checks.verdict()
    if verdict != "holds":
        raise VerificationError(code or "KEY", reason)
    return checks.checked, checks.file["notProven"]

def _demand(code, holds):
    if not holds:
        raise VerificationError(code, "the token does not hold")

class _step:
    """Turns what goes wrong within into a VerificationError of a code."""

    def __init__(self, code):
        self.code = code

    def __enter__(self):
        if Ed25519PublicKey is None:
            raise MissingCryptography("signatures are checked with the package cryptography, which is not installed: pip install cryptography")

    def __exit__(self, _, error, __):
        if isinstance(error, Exception) and not isinstance(error, AttestdError):
            raise VerificationError("PRUNED" if isinstance(error, Pruned) else self.code, str(error) or type(error).__name__) from None

# a text is read strictly; of what was parsed already, only its form can be checked
def _given(value):
    return read(value.decode() if isinstance(value, bytes) else value) if isinstance(value, (str, bytes)) else value

class Spool:
    """Attestations that wait on disk, for programs that cannot wait for the service.

    A folder with one file for each, written and synced under another name and then renamed, so that a process which is killed at any moment leaves a whole item or
    none. A file's name begins with the time, by which items are sent. It holds the SHA-256 of the rest in hex, whose key it is (made, or given by the caller) and the
    item as JSON, each behind a space. What does not have its checksum is not sent. Files that end in .json are of an earlier version, which made no checksum, and are
    sent as they are. Many processes and threads may share the folder without a lock, those of the TypeScript client too: each item has its own idempotency key, so that
    two which send the same one make one record. Nothing is ever dropped: what the service refuses, and what the disk has damaged, is moved to the folder refused, with
    the reason beside it.

    Of the service's rate limit a quarter is left to what is attested now."""

    def __init__(self, folder, client, *, limit=1 << 30):
        """folder is made where there is none, and so are those above it, for this user alone. One in which others may write, or that is below such a one, is refused: they could add,
        change and remove attestations. limit, in bytes, is how much may wait."""
        self.folder, self.client, self.limit = Path(folder), client, limit
        # the bytes that wait, as this process knows; -1 when it must look
        self._last, self._size, self._lock = 0, -1, threading.Lock()
        self._flushing = threading.Lock()
        # the names of the statements that wait, by file; None where an item has none
        self._signed = {}
        _check_private(self.folder)
        _make_private(self.folder)
        for name in ("new", "pending", "refusals", "refused", "sessions"):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
            _check_private(self.folder / name)  # somebody may have made it meanwhile
        # left by a process that was killed before it acknowledged them; and of sessions that nobody
        # goes on with
        for left, age in [(left, 3600) for left in (self.folder / "new").iterdir()] + [(left, 60 * 86400) for left in (self.folder / "refusals").iterdir()]:
            try:
                if left.stat().st_mtime < time.time() - age:
                    left.unlink()
            except FileNotFoundError:  # another process was first
                pass

    @_either
    def add(self, agent_id, action_type, payload, *, delegation=None, idempotency_key=None):
        """Puts an attestation on disk and returns its idempotency key, once it is synced."""
        return self._add(_prepare({"agentId": agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "idempotencyKey": idempotency_key}))

    def session(self, id, *, continues=None):
        """Opens a session of the agent whose credential the client has, which goes on where the process before was, also after a kill. continues is the last of another session, which a
        new one goes on from."""
        return SpoolSession(self, id, continues=continues)

    def _put_refusal(self, refusal):  # for whoever has that session
        self._put("refusals", f"{_prefix_of(refusal['kid'], refusal['sid'])}.{refusal['seq']}", _sealed_json(refusal))

    def _refusals(self, kid, sid):
        """(file, refusal) of the statements of a session that a flush has found to be refused."""
        folder, prefix = self.folder / "refusals", _prefix_of(kid, sid) + "."
        found = [(folder / name, _unsealed_json(folder / name)) for name in os.listdir(folder) if name.startswith(prefix)]
        return [(file, refusal) for file, refusal in found if refusal]

    def _add(self, prepared):
        self._add_text(prepared.item(), prepared.made)
        return prepared.key

    def _add_text(self, text, made):  # returns the name of the file
        item = _sealed(text, made)
        with self._lock:  # the order of one process is kept when several come in a microsecond
            self._last = max(self._last + 1, time.time_ns() // 1000)
            name = f"{self._last:017}-{secrets.token_hex(8)}.item"
            self._size = (self._measure() if self._size < 0 else self._size) + len(item.encode())
            if self._size > self.limit:
                self._size = -1  # others may have sent what waits
                raise FullError(f"the spool holds its {self.limit} bytes")
        self._put("pending", name, item)
        return name

    def _waiting(self, statement):
        """(file, item, statement) of the statement of a name that waits; None where there is none."""
        with self._lock:
            names = self._names()
            self._signed = {name: self._signed[name] for name in names if name in self._signed}
            for name in names:
                if self._signed.get(name, statement) != statement:
                    continue
                try:
                    text = _unsealed((self.folder / "pending" / name).read_bytes())[1]
                    found = json.loads(text)["statement"]
                    self._signed[name] = _name_of(found)
                # it is gone, damaged or not signed
                except (OSError, ValueError, LookupError, TypeError):
                    self._signed[name] = None
                if self._signed[name] == statement:
                    return name, text, found
        return None

    def _remove(self, name):
        (self.folder / "pending" / name).unlink(missing_ok=True)

    @_either
    def attest(self, agent_id, action_type, payload, *, delegation=None, idempotency_key=None):
        """Appends a record, or puts it on disk while the service is away. Returns {"queued": False, "record": …} or {"queued": True, "idempotencyKey": …}. It raises what
        the service says of a request that it will never take. After a RecordMismatchError, too, the attestation is on disk."""
        prepared = _prepare({"agentId": agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "idempotencyKey": idempotency_key})
        try:
            return {"queued": False, "record": self.client._attest(prepared)}
        except AttestdError as error:
            if isinstance(error, RecordMismatchError):
                self._add(prepared)
            if not _retryable(error, True) and not getattr(error, "foreign", False):
                raise
            return {"queued": True, "idempotencyKey": self._add(prepared)}

    def pending(self):
        """How many items wait."""
        return len(self._names())

    def flush(self):
        """Sends all that waits, by batches. It raises where the service is away or takes no more for now, and what was not sent stays; and a RefusedError where, all else being sent,
        items had to be set apart. retry_after of the ServiceError with the status 429 says when the rate limit takes more. A RecordMismatchError, perhaps as the __cause__, says that
        answers were not of what was sent: those items stay."""
        with self._flushing:
            found, cause, self._size = _Found([]), None, -1
            try:
                names = self._names()
                while names:
                    names = names[self._batch(names[: self._room()], found) :]
            except AttestdError as error:
                cause = error
            cause = found.mismatch or cause or found.unanswered
            if found.refused:
                raise RefusedError(self.folder / "refused", found.refused) from cause
            if cause:
                raise cause

    def run(self, every, stop, failed=lambda error: None):
        """Flushes every so many seconds, or as soon as the rate limit takes more, until stop, a
        threading.Event, is set. A flush that fails leaves what waits to the next, and failed learns
        of the error, but of a rate limit it does not."""
        wait = every
        while not stop.wait(wait):
            wait = every
            try:
                self.flush()
            except AttestdError as error:
                cause = error.__cause__ if isinstance(error, RefusedError) else error
                limited = isinstance(cause, ServiceError) and cause.status == 429
                if limited:
                    wait = cause.retry_after or every
                if cause is not error or not limited:
                    failed(error)

    def _room(self):
        """How many items the service takes now, if what is attested meanwhile is to find room.
        Raises where there is none."""
        rate = self.client._rate
        if rate is None or rate.limit and time.monotonic() >= rate.until:
            return 25  # a quarter of the usual limit; the answer says how many more
        if not rate.limit:
            return 1000
        room = rate.left - rate.limit // 4
        if room < 1:
            wait = max(0.1, rate.until - time.monotonic())
            raise ServiceError(OPERATIONS["attestBatch"].call, 429, "the rate limit has no room now for what waits in the spool", retry_after=wait)
        return min(room, 1000)

    def _batch(self, names, found):
        """Sends the first of some items, and returns how many are dealt with. A key stands in a
        batch but once."""
        items, keys, size = [], set(), 0
        for read, name in enumerate(names):
            item = self._read(name, found)
            if item is None:
                continue
            size += len(item.text)
            if items and (size > 1 << 20 or item.key in keys):  # well below what the service takes
                self._send(items, found)
                return read
            items.append(item)
            keys.add(item.key)
        self._send(items, found)
        return len(names)

    def _measure(self):
        size = 0
        for name in self._names():
            try:
                size += (self.folder / "pending" / name).stat().st_size
            except FileNotFoundError:  # it was sent by another process
                pass
        return size

    def _names(self):
        return sorted(os.listdir(self.folder / "pending"))

    def _read(self, name, found):
        """An item; None of one that is gone, for another process has sent it, and of one that the
        disk has damaged, which is set apart."""
        try:
            content = (self.folder / "pending" / name).read_bytes()
        except FileNotFoundError:
            return None
        try:
            made, text = (False, content.decode()) if name.endswith(".json") else _unsealed(content)
            item = json.loads(text)
            # which is its own key
            key = item["idempotencyKey"] if "idempotencyKey" in item else item["statement"]
            must(type(key) is str, "no key")
            return _Item(name, text, key, made)
        except (ValueError, LookupError, TypeError):
            self._set_apart(name, "what stands on the disk is not what was written", found)
            return None

    def _send(self, items, found, renewed=()):
        while items:
            if found.blocked:
                items = [item for item in items if item.session() not in found.blocked]
                if not items:
                    return
            try:
                self.client.send_batch([item.text for item in items], patient=False)
            except RecordMismatchError as error:  # the others are recorded
                found.mismatch = found.mismatch or error
                for i, item in enumerate(items):
                    if i not in error.places:
                        self._remove(item.name)
                return
            except (ServiceError, ConnectionLost) as error:
                # Something before the service has answered, such as a gateway that takes an item
                # for an attack, or the connection is lost whenever an item is sent, which is too
                # large for something. That item waits, and so do later ones of its session.
                unanswered = _is_page(error) if isinstance(error, ServiceError) else not error.unsent
                if unanswered and len(items) == 1 and found.alone < 2:
                    found.unanswered, found.alone = found.unanswered or error, found.alone + 1
                    if items[0].session():
                        found.blocked.add(items[0].session())
                    return
                if unanswered and len(items) > 1:
                    found.lost += isinstance(error, ConnectionLost)
                    # a service that is away is found out by few attempts, which may take long
                    first = 1 if found.lost > 2 else (len(items) + 1) // 2
                    self._send(items[:first], found, renewed)
                    items = items[first:]
                    continue
                if isinstance(error, ConnectionLost) or error.foreign:
                    raise
                # A refusal that is about the credential and not about an item would empty the
                # spool.
                own = error.operation == OPERATIONS["attestBatch"].call and error.code != "FORBIDDEN_AGENT"
                named = error.pointer or error.code in ("AGENT_DISABLED", "AGENT_KEY_REQUIRED", "STATEMENT_KEY_UNKNOWN")
                if not own or error.status not in (400, 403, 413, 422) and error.code != "STATEMENT_REUSED" or error.status == 403 and not named:
                    raise
                at = 0 if len(items) == 1 else _place(error)
                # which of them it is, the answer does not say; or the batch is too large
                if at is None or at >= len(items):
                    half = (len(items) + 1) // 2
                    self._send(items[:half], found, renewed)
                    items = items[half:]
                elif error.code == "IDEMPOTENCY_KEY_REUSED" and items[at].made:
                    if items[at].name in renewed:
                        raise
                    renewed = {*renewed, items[at].name}
                    items = [*items[:at], self._rekey(items[at]), *items[at + 1 :]]
                else:
                    statement = json.loads(items[at].text).get("statement")
                    refusal = statement and _refusal_of(statement, error)
                    if refusal:
                        self._put_refusal(refusal)
                    self._set_apart(items[at].name, str(error), found)
                    items = items[:at] + items[at + 1 :]
            else:
                found.alone = found.lost = 0
                for item in items:
                    self._remove(item.name)
                return

    def _rekey(self, item):
        """The item under another key, on disk too, before it is sent."""
        body = json.dumps({"idempotencyKey": item.key}, separators=(",", ":"))[1:]
        must(item.text.endswith("," + body), "the key is not at the end")
        other = _Prepared(item.text[: -len(body) - 1] + "}", item.key, True).rekeyed()
        self._put("pending", item.name, _sealed(other.item(), True))
        return _Item(item.name, other.item(), other.key, True)

    def _set_apart(self, name, reason, found):
        self._put("refused", name + ".reason", reason + "\n")
        try:
            os.rename(self.folder / "pending" / name, self.folder / "refused" / name)
        except FileNotFoundError:
            pass
        found.refused.append((name, reason))

    # writes a file that is there whole or not at all, and stays when the power fails
    def _put(self, folder, name, text):
        made = self.folder / "new" / name
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, self.folder / folder / name)
        if os.name == "nt":
            return  # which cannot sync a folder
        kept = os.open(self.folder / folder, os.O_RDONLY)
        try:
            os.fsync(kept)
        finally:
            os.close(kept)

def _make_private(folder):
    """Makes a folder and those above it, all for this user alone, whatever the umask is."""
    if not folder.exists():
        if folder.parent != folder:
            _make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)

def _check_private(path, above=False, links=0):
    """Raises an error where another user, root aside, may replace what stands at a path, or change it: when it, or a folder above it, belongs to another user or may be written by group
    or others. A folder with the sticky bit, such as /tmp, is no harm above a path. A link counts as what it leads to, and where it stands."""
    if os.name != "posix":  # elsewhere no mode says so
        return
    path = os.path.abspath(path)
    try:
        found = os.lstat(path)
    except FileNotFoundError:  # it would be made in the folder above
        found = None
    if found:
        if found.st_uid not in (0, os.geteuid()):
            raise AttestdError(f"{path} belongs to another user ({found.st_uid}), who may change or replace what is there; name another place")
        if stat.S_ISLNK(found.st_mode):
            if links == 40:  # as Linux has it
                raise AttestdError(f"{path}: too many links")
            _check_private(os.path.join(os.path.dirname(path), os.readlink(path)), above, links + 1)
        elif found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX):
            raise AttestdError(f"{path}: group or others may write to it (mode {stat.S_IMODE(found.st_mode):o}), and so change or replace what is there; chmod go-w, or name another place")
    if os.path.dirname(path) != path:
        _check_private(os.path.dirname(path), True, links)

@dataclass
class _Found:  # by a flush, beside what it has sent
    refused: list
    mismatch: RecordMismatchError | None = None  # the first answer that was not of what was sent
    # the error of the first item by itself that the service has not answered
    unanswered: AttestdError | None = None
    alone: int = 0  # of them in a row: after three the service cannot be reached
    lost: int = 0  # how often in a row the connection was lost with several items
    blocked: set = field(default_factory=set)  # sessions of which an item waits for that

@dataclass(frozen=True)
class _Item:
    name: str
    text: str  # JSON, with the key
    key: str
    made: bool

    def session(self):
        """Whose places the item's statement has; None outside of one."""
        statement = json.loads(self.text).get("statement")
        claims = _part_of(statement, 1) if statement else {}
        return (_part_of(statement, 0)["kid"], claims["sid"]) if "sid" in claims else None

def _sealed(text, made):
    rest = f"{'made' if made else 'given'} {text}"
    return f"{hashlib.sha256(rest.encode()).hexdigest()} {rest}"

def _unsealed(content):
    """(made, text) of a file; ValueError where its checksum is another."""
    checksum, _, rest = content.partition(b" ")
    must(hashlib.sha256(rest).hexdigest().encode() == checksum, "the checksum is another")
    whose, _, text = rest.partition(b" ")
    return whose == b"made", text.decode()

class Signer:
    """What an Agent signs with, which may be in a TPM or a KMS: any object with jwk, the public key as a dict, and sign, which returns 64 bytes: the Ed25519 signature of a message
    or, for P-256, R and S of the ECDSA signature of its SHA-256."""

    def sign(self, message):
        raise NotImplementedError

class AgentKey(Signer):
    """A private key of an agent, of its JWK (a dict): Ed25519 or P-256. It needs the package cryptography."""

    def __init__(self, jwk):
        self.jwk = _public_jwk(jwk)
        try:
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
        except ImportError:
            raise MissingCryptography("signing with a private key needs the package cryptography: pip install cryptography; or give an object that signs") from None
        if "d" not in jwk:
            raise AttestdError("the JWK has no member d: it is no private key")
        secret = unbase64url(jwk["d"])
        if jwk["kty"] == "OKP":
            self._sign = ed25519.Ed25519PrivateKey.from_private_bytes(secret).sign
        else:
            private = ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1())
            def sign(message):
                r, s = utils.decode_dss_signature(private.sign(message, ec.ECDSA(hashes.SHA256())))
                return r.to_bytes(32, "big") + s.to_bytes(32, "big")
            self._sign = sign

    def sign(self, message):
        return self._sign(message)

    def __repr__(self):
        return f"AgentKey({_thumbprint(self.jwk)})"

class UnknownKeyError(AttestdError):
    """The agent has a key that it does not know: whoever holds it can sign in its name."""

    def __init__(self, agent, key):
        super().__init__(f"ALARM: the agent {agent} has the key {key['thumbprint']}, enrolled at {key['createdAt']}, which this client does not know: whoever holds it can sign in its "
                         "name. If it is not yours, revoke it and find out who enrolled it: the control log says by which credential")
        self.agent, self.key = agent, key

class OtherLogError(AttestdError):
    """The service names another log than the agent knows: another service answers, or one that has another history. The agent signs nothing from then on, and sends it no statement."""

    def __init__(self, agent, known, named):
        super().__init__(f"ALARM: the service says that the actions of the agent {agent} go into the log {named}, and this client knows the log {known}: it signs nothing. Find out which "
                         "service answers under this address; if its log has changed for a reason that you know, change log in the key file")
        self.agent, self.known, self.named = agent, known, named

class Agent:
    """An agent with its key: the credential of a Client that acts as this agent alone, and signs what it does. key is an AgentKey, or any object that signs; known are thumbprints of
    further keys of the agent. log is the origin of the company's log of actions, which statements name; without it, it is what the service says at the sign-in, and the same for as long as
    this object lives. With dpop, access tokens are bound to the key (RFC 9449). alarm is told at a sign-in of each key that is not known; without it, logging is."""

    def __init__(self, key, spiffe_id, *, log=None, dpop=False, known=(), alarm=None):
        form = re.fullmatch(r"(spiffe://[^/]+/company/([^/]+))/agent/([^/]+)", spiffe_id)
        if not form:
            raise AttestdError("the SPIFFE ID of an agent must look like spiffe://example.org/company/acme/agent/bot")
        if log is not None and not visible(log, 255):
            raise AttestdError("log must be the origin of a log, 1 to 255 visible ASCII characters, as the first line of its checkpoints has it")
        self.key, self.spiffe_id, self.dpop, self.log = key, spiffe_id, dpop, log
        self._other_log = None  # why nothing is signed
        self._parent, self.company_id, self.agent_id = form.groups()
        self.thumbprint = _thumbprint(key.jwk)
        self._known, self._alarm = {self.thumbprint, *known}, alarm or (lambda error: logging.getLogger("attestd").error("%s", error))
        self._lock, self._token, self._until = threading.RLock(), "", 0.0
        self._nonce = ""  # that the next proof has to repeat

    @classmethod
    def read(cls, path, *, dpop=False, alarm=None):
        """The agent of a file that `attestd agent-key enrol` has written."""
        path = Path(path)
        if os.name != "nt" and path.stat().st_mode & 0o077:
            raise AttestdError(f"{path}: group or others may read the agent's key: revoke it and enrol another")
        jwk = json.loads(path.read_text("utf-8"))
        if "agent" not in jwk:
            raise AttestdError(f"the key in {path} is not enrolled: attestd agent-key enrol")
        return cls(AgentKey(jwk), jwk["agent"], log=jwk.get("log"), dpop=dpop, known=jwk.get("known", ()), alarm=alarm)

    def _jws(self, kind, claims, **naming):
        return _jws(self.key, {"typ": kind, **(naming or {"kid": self.thumbprint})}, claims)

    def _bearer(self, client, refused=""):
        with self._lock:
            if self._token in ("", refused) or time.monotonic() >= self._until:
                try:
                    made = self._sign_in(client)
                except ServiceError as error:
                    if not _wants_nonce(error):
                        raise
                    made = self._sign_in(client)
                self._token, self._until = made["access_token"], time.monotonic() + made["expires_in"] - min(60, made["expires_in"] / 2)
                self._compare(client)
            return self._token

    def _sign_in(self, client):
        url, now = f"{client.url}/v1/oauth/token", int(time.time())
        assertion = self._jws("JWT", {"iss": self.spiffe_id, "sub": self.spiffe_id, "aud": url, "jti": _new_key(), "iat": now, "exp": now + 120})
        form = urlencode({"grant_type": "client_credentials", "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": assertion})
        # an assertion is good once
        route = replace(OPERATIONS["getOAuthToken"], safe=False)
        return client._send(route, "/v1/oauth/token", {"DPoP": _proof(self.key, "POST", url, nonce=self._nonce)} if self.dpop else {}, form, json.loads)

    def _hear(self, headers):  # of an answer
        self._nonce = headers.get("DPoP-Nonce") or self._nonce

    def _compare(self, client):  # the keys of the agent with those that it knows
        try:
            listed = client.list_agent_keys(self.agent_id)
            keys = listed["keys"]
            self._learn(listed.get("log"))
        except AttestdError as error:
            self._alarm(AttestdError(f"the keys of the agent {self.agent_id} cannot be compared with those that it knows: {error}"))
            return
        for key in keys:
            if key["thumbprint"] not in self._known:
                self._alarm(UnknownKeyError(self.spiffe_id, key))
        if self.thumbprint not in [key["thumbprint"] for key in keys]:
            self._alarm(AttestdError(f"ALARM: the service's list of the keys of the agent {self.spiffe_id} lacks its own key {self.thumbprint}"))

    # takes the log that the service names, or compares it with the one that is known
    def _learn(self, log):
        if type(log) is not str:  # a service of before
            return
        if self.log in (None, log) and visible(log, 255):
            self.log = log
            return
        self._other_log = OtherLogError(self.spiffe_id, self.log or "none yet", log)
        self._alarm(self._other_log)

    def _refuse(self):  # after the service has named another log
        if self._other_log:
            raise self._other_log

    def _headers(self, bearer, method, url):  # of a request with a token
        token = bearer.get("Authorization", "")[7:]
        return {"Authorization": f"DPoP {token}", "DPoP": _proof(self.key, method, url, token, self._nonce)} if self.dpop and token else bearer

    def _sign(self, prepared, place=None, end=False, id=None):
        """What the agent signs of an attestation that is ready, added to it: (prepared, statement). place is a _Next, and id the jti, that of the idempotency key without it. A statement that does not name its log is of the form of before: it
        has no refused and no continues, and names a delegation by its jti alone."""
        body = read(prepared.text)
        if body["agentId"] != self.agent_id:
            raise PayloadError("/agentId", f"must be {self.agent_id}: an agent signs what it does itself")
        action = canonical({"actionType": body["actionType"], "agentId": body["agentId"], "companyId": self.company_id, "payload": body["payload"]})
        self._refuse()
        log = self.log
        claims = {"iss": self.spiffe_id, "aud": self._parent, **({"log": log} if log else {}), "iat": int(time.time()), "jti": id or (_new_key() if prepared.made else _statement_id(prepared.key)),
                  "action_hash": hashlib.sha256(action.encode()).hexdigest()}
        if body.get("delegation"):
            claims["delegation"] = _delegation_claim(body["delegation"], log)
        if place is not None:
            claims.update({"sid": place.sid, "seq": place.seq}, **({"prev": place.previous} if place.seq else {}))
            if log and place.seq and place.refused:
                claims["refused"] = [{name: one[name] for name in ("seq", "hash", "code")} for one in place.refused[:100]]
            if log and place.seq == 0 and place.continues:
                claims["continues"] = {name: place.continues[name] for name in ("sid", "kid", "hash")}
            claims.update({"end": True} if end else {})
        statement = self._jws("agent-statement+jwt", claims)
        return _Prepared(f'{prepared.text[:-1]},"statement":"{statement}"}}', "", False), statement

    def _says(self, statement, prepared, end):
        """Whether a statement says what the agent would sign of an attestation now, but for the time and the place."""
        body, claims = read(prepared.text), _part_of(statement, 1)
        action = canonical({"actionType": body["actionType"], "agentId": body["agentId"], "companyId": self.company_id, "payload": body["payload"]})
        delegation = _delegation_claim(body["delegation"], claims.get("log")) if body.get("delegation") else None
        return claims["action_hash"] == hashlib.sha256(action.encode()).hexdigest() and claims.get("delegation") == delegation and (claims.get("end") is True) == bool(end)

    def _endorse(self, thumbprint):
        self._known.add(thumbprint)
        return self._jws("agent-key+jwt", {"iss": self.spiffe_id, "aud": self._parent, "iat": int(time.time()), "jkt": thumbprint})

def generate_agent_key(algorithm="EdDSA"):
    """Makes a key pair: its private JWK, a dict, which MUST be stored where its owner alone can read it."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    except ImportError:
        raise MissingCryptography("making a key needs the package cryptography: pip install cryptography") from None
    if algorithm == "EdDSA":
        private = ed25519.Ed25519PrivateKey.generate()
        raw = [private.public_key().public_bytes_raw(), private.private_bytes_raw()] if hasattr(private, "private_bytes_raw") else _raw_ed25519(private)
        return {"crv": "Ed25519", "kty": "OKP", "x": _b64(raw[0]), "d": _b64(raw[1])}
    private = ec.generate_private_key(ec.SECP256R1()).private_numbers()
    x, y, d = ((n).to_bytes(32, "big") for n in (private.public_numbers.x, private.public_numbers.y, private.private_value))
    return {"crv": "P-256", "kty": "EC", "x": _b64(x), "y": _b64(y), "d": _b64(d)}

def _raw_ed25519(private):  # with versions of cryptography before 40
    from cryptography.hazmat.primitives.serialization import NoEncryption, PrivateFormat
    return [private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw), private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())]

def _b64(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

def _public_jwk(jwk):  # in the form over which its thumbprint is computed (RFC 7638)
    names = {("OKP", "Ed25519"): ("crv", "kty", "x"), ("EC", "P-256"): ("crv", "kty", "x", "y")}.get((jwk.get("kty"), jwk.get("crv")))
    if not names:
        raise AttestdError("the key of an agent must be Ed25519 or P-256")
    return {name: jwk[name] for name in names}

def _thumbprint(jwk):
    return _b64(hashlib.sha256(json.dumps(_public_jwk(jwk), separators=(",", ":")).encode()).digest())

def _jws(key, header, claims):  # compact (RFC 7515, section 7.1)
    parts = ({"alg": "EdDSA" if key.jwk["kty"] == "OKP" else "ES256", **header}, claims)
    text = ".".join(_b64(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    signature = key.sign(text.encode())
    if len(signature) != 64:
        raise AttestdError("a signature must have 64 bytes: that of Ed25519, or R and S of ECDSA")
    return f"{text}.{_b64(signature)}"

# that the sender of a request holds a key (RFC 9449)
def _proof(key, method, url, token="", nonce=""):
    claims = {"jti": _new_key(), "htm": method, "htu": url.partition("?")[0], "iat": int(time.time())}
    more = {"ath": _b64(hashlib.sha256(token.encode()).digest())} if token else {}
    return _jws(key, {"typ": "dpop+jwt", "jwk": _public_jwk(key.jwk)}, {**claims, **more, **({"nonce": nonce} if nonce else {})})

# the jti for a caller's idempotency key: the key itself where it can be one
def _statement_id(key):
    return key if re.fullmatch("[!-~]{1,128}", key) else _b64(hashlib.sha256(key.encode()).digest())

def _part_of(token, part):  # of a token that was made here, or is not checked here
    return json.loads(unbase64url(token.split(".")[part]))

def _name_of(statement):  # what no other statement has: the key that signed it and its jti
    return _part_of(statement, 0)["kid"], _part_of(statement, 1)["jti"]

def _delegation_claim(token, log):
    info = _delegation_of(token)
    return _sha256(canonical(info)) if log else info["tokenId"]

def _sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()

def _is_refused(error):
    """Whether an append certainly had no effect: the service refuses it for what it is."""
    return isinstance(error, ServiceError) and not error.repeated and not error.foreign and not error.operation.endswith("/v1/oauth/token") and (
        error.code == "STATEMENT_REUSED" or error.status in (400, 403, 413, 422) and error.code not in ("FORBIDDEN_ROLE", "FORBIDDEN_AGENT", "COMPANY_SUSPENDED"))

@dataclass(frozen=True)
class _Next:
    """Where the next statement of a session stands, and what it names: refused are places that the service has refused and no statement has named, continues is the last statement of the
    run that the session goes on from."""

    sid: str
    seq: int = 0
    previous: str | None = None
    end: bool = False
    refused: tuple = ()
    continues: dict | None = None
    # the last idempotency keys of callers, as the jti of statements that were refused
    spent: tuple = ()

    def after(self, statement, end):
        named = len(_part_of(statement, 1).get("refused", ()))
        return _Next(self.sid, self.seq + 1, _sha256(statement), bool(end), self.refused[named:], spent=self.spent)

    def id_of(self, prepared):
        """The jti of the next statement: no two of a key have one, also where the service has refused the first. None for a new one."""
        if prepared.made:
            return None
        id, n = _statement_id(prepared.key), 0
        while id in self.spent:
            n += 1
            id = _b64(hashlib.sha256(f"{prepared.key}\n{n}".encode()).digest())
        return id

    def last(self, kid):
        return None if self.previous is None else {"sid": self.sid, "kid": kid, "hash": self.previous}

    def after_refusal(self, refusal):
        """Where a session is once a statement of it was refused. Its place stays used, and later statements name it."""
        if refusal["sid"] != self.sid:
            return self
        spent, id = self.spent, refusal.get("id", "")
        # under a key that is recorded already nothing is recorded again
        if refusal["code"] != "STATEMENT_REUSED" and not re.fullmatch("[0-9a-f]{12}-[0-9a-f]{32}", id):
            spent = (*(one for one in spent if one != id), id)[-1000:]
        known = {one["seq"]: one for one in (*self.refused, *refusal["named"], {name: refusal[name] for name in ("seq", "hash", "code")})}
        return replace(self, spent=spent, end=self.end and refusal["hash"] != self.previous, refused=tuple(known[seq] for seq in sorted(known)))

    def elsewhere(self, refusal, new_id):
        """Where the run of a session goes on whose place another statement has, at the service: in a session of another ID."""
        if refusal["sid"] != self.sid:
            return self
        last = refusal.get("previous") if refusal["hash"] == self.previous else self.previous
        return _Next(new_id, spent=self.spent, continues={"sid": self.sid, "kid": refusal["kid"], "hash": last} if last else refusal.get("continues"))

def _refusal_of(statement, error):
    """What is known of a statement of a session that the service has refused; None outside of one."""
    claims = _part_of(statement, 1)
    if "sid" not in claims:
        return None
    code = error.code if re.fullmatch("[A-Z0-9_]{1,64}", error.code) else f"HTTP_{error.status}"
    return {"id": claims["jti"], "kid": _part_of(statement, 0)["kid"], "sid": claims["sid"], "seq": claims["seq"], "hash": _sha256(statement), "code": code, "named": claims.get("refused", []),
            **({"previous": claims["prev"]} if "prev" in claims else {}), **({"continues": claims["continues"]} if "continues" in claims else {})}

def _is_reused(error):
    return isinstance(error, ServiceError) and error.code == "STATEMENT_REUSED"

class _FurtherIDs:  # of sessions that go on from one, each later than the one before
    def __init__(self):
        self._at = 0

    def of(self, id):
        self._at = max(self._at + 1, int(time.time() * 1000))
        further = f"{re.sub('~[0-9]+$', '', id)}~{self._at}"
        return further if len(further) <= 128 else _new_key()

class Session:
    """One run of an agent: its statements are numbered, and each names the one before, so that nothing can be taken out unseen. It sends one at a time and ends with the process;
    a session of a Spool goes on after a crash, and while the service is away."""

    def __init__(self, client, id=None, *, continues=None):
        self._client, self._agent, self._ids = client, _agent_of(client), _FurtherIDs()
        self._lock, self._next, self._unsettled, self._refusal = threading.Lock(), _Next(id or _new_key(), continues=continues), None, None

    @property
    def id(self):
        """Its ID. It changes where the service has other statements of that ID."""
        return self._next.sid

    @property
    def last(self):
        """The last statement, which a further session can go on from; None before the first."""
        return self._next.last(self._agent.thumbprint)

    @_either
    def attest(self, action_type, payload, *, delegation=None, idempotency_key=None, end=False):
        """Signs an action at the next place, and appends its record; with end, the last one of the session. After a ConnectionLost its outcome is unknown: the next call first sends
        the same statement again. The place of one that the service refuses stays used, and the next statement names it."""
        with self._lock:
            if self._unsettled:
                key = self._unsettled[2]
                record = self._send(*self._unsettled)
                if key and key == idempotency_key:
                    return record
            prepared = _prepare({"agentId": self._agent.agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "idempotencyKey": idempotency_key})
            self._client._learn_log()
            try:
                return self._sign(prepared, end, idempotency_key)
            except AttestdError as error:
                if not _is_reused(error) or not self._refusal:
                    raise
            # Another statement has the place or the jti. Only the jti is the same elsewhere.
            here = self._next
            self._next = here.elsewhere(self._refusal, self._ids.of(here.sid))
            try:
                return self._sign(prepared, end, idempotency_key)
            except AttestdError as error:
                if _is_reused(error):
                    self._next = here
                raise

    def _sign(self, prepared, end, key):
        if self._next.end:
            raise AttestdError("the session has ended")
        signed, statement = self._agent._sign(prepared, self._next, end, self._next.id_of(prepared))
        self._next = self._next.after(statement, end)
        return self._send(signed, statement, key)

    def _send(self, signed, statement, key):
        self._unsettled, self._refusal = (signed, statement, key), None
        try:
            record = self._client._attest(signed)
        except AttestdError as error:
            if _is_refused(error):
                self._unsettled, self._refusal = None, _refusal_of(statement, error)
                self._next = self._next.after_refusal(self._refusal)
            raise
        self._unsettled = None
        return record

def _agent_of(client):
    if not isinstance(client._credential, Agent):
        raise AttestdError("a session needs an agent's key: give the client an Agent as its credential")
    return client._credential

class SpoolSession:
    """A session of a spool. What is signed is on disk with its place before it is sent, so a process that is killed leaves no hole in the numbers and uses none twice. What the service
    refuses stays used too, at once or in a flush: the next statement names it. One process has a session at a time, its threads included, and the next one goes on where it was. Where
    another process that lives has the session, after its end, and under the next key of the agent, this one is under the ID with "~" and the time; its first statement names the last one
    of the run before, or the one that continues gives. While a statement waits, the same action under the same idempotency_key is the same statement."""

    def __init__(self, spool, id, *, continues=None):
        if not re.fullmatch("[A-Za-z0-9._-]{1,100}", id):
            raise AttestdError("the ID of a session must have 1 to 100 characters of A-Z, a-z, 0-9, '.', '_' and '-'")
        self._spool, self._agent, self._lock = spool, _agent_of(spool.client), threading.Lock()
        self._ids, self._signed, self._asked, self._left = _FurtherIDs(), None, False, None
        kid = self._agent.thumbprint
        self._name, taken, shared = _take_places(spool.folder / "sessions", [kid, *self._agent._known - {kid}], id)
        # what was signed last may be nowhere else; to send it twice makes no second record
        for _, state, _ in taken:
            if state.get("item") and state.get("at", 0) > (time.time() - 29 * 86400) * 1000:
                spool._add_text(state["item"], False)
        self._item, self._next = None, _Next(id)
        if taken:
            _, state, of = taken[-1]
            last = _Next(state["sid"], state["seq"], state.get("previous"), state.get("end", False), tuple(state.get("refused", ())), state.get("continues"), tuple(state.get("spent", ())))
            self._next = last if of == kid and not last.end else None
            before = last.last(of) or last.continues
        if shared or not self._next:
            self._next = _Next(self._ids.of(id), continues=before if taken else None)
        if continues and self._next.seq == 0:
            self._next = replace(self._next, continues=continues)
        self._place()
        for former, _, _ in taken:
            (spool.folder / "sessions" / former).unlink(missing_ok=True)

    @property
    def id(self):
        """The ID of the session. It changes where the service has other statements of that ID."""
        return self._next.sid

    @property
    def last(self):
        """The last statement, which a further session can go on from; None before the first."""
        return self._next.last(self._agent.thumbprint)

    @_either
    def add(self, action_type, payload, *, delegation=None, idempotency_key=None):
        """Signs an action at the next place. It returns when that is synced; a flush sends it."""
        self._add(self._prepared(action_type, payload, delegation, idempotency_key), False)

    @_either
    def attest(self, action_type, payload, *, delegation=None, idempotency_key=None, end=False):
        """As add, and sends it; with end, the last one of the session. Returns {"queued": False, "record": …} or, where there is no answer, {"queued": True}. What the service
        refuses is raised, and stands in the folder refused then. After a RecordMismatchError or an OtherLogError it waits on disk, too."""
        prepared = self._prepared(action_type, payload, delegation, idempotency_key)
        if not self._asked:
            self._spool.client._learn_log()
        self._asked, sid = True, self.id
        try:
            return self._attest(prepared, end, True)
        except AttestdError as error:
            if not _is_reused(error) or self.id == sid:
                raise
        # Another statement has the place or the jti. Only the jti is the same elsewhere.
        return self._attest(prepared, end, False)

    def _prepared(self, action_type, payload, delegation, key):
        return _prepare({"agentId": self._agent.agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "idempotencyKey": key})

    def _attest(self, prepared, end, moves):
        signed, statement, name = self._add(prepared, end)
        try:
            record = self._spool.client._attest(signed)
        except AttestdError as error:
            if isinstance(error, (RecordMismatchError, OtherLogError)):
                raise
            if not _is_refused(error):
                return {"queued": True}
            with self._lock:
                self._add_signed()
                refusal = _refusal_of(statement, error)
                if refusal["sid"] == self.id:
                    self._refused(refusal, moves)
                    self._place()
                else:
                    self._spool._put_refusal(refusal)
                self._spool._set_apart(name, str(error), _Found([]))
            raise
        self._spool._remove(name)
        return {"queued": False, "record": record}

    def _add(self, prepared, end):
        with self._lock:
            self._add_signed()
            # what a flush has found
            refusals = self._spool._refusals(self._agent.thumbprint, self.id)
            for _, refusal in refusals:
                self._refused(refusal, True)
            id = self._next.id_of(prepared)
            waiting = id and self._spool._waiting((self._agent.thumbprint, id))
            if waiting:
                name, text, statement = waiting
                if not self._agent._says(statement, prepared, end):
                    raise AttestdError("the idempotency key is that of another action, which waits")
                return _Prepared(text, "", False), statement, name
            if self._next.end:
                raise AttestdError("the session has ended")
            signed, statement = self._agent._sign(prepared, self._next, end, id)
            self._next, self._item, self._signed = self._next.after(statement, end), signed.text, signed.text
            name = self._add_signed()
            for file, _ in refusals:
                file.unlink(missing_ok=True)
            return signed, statement, name

    def _add_signed(self):
        """Puts on disk what was signed: first its place, so that this is never used again."""
        if not self._signed:
            return None
        self._place()
        name = self._spool._add_text(self._signed, False)
        self._signed = None
        return name

    def _refused(self, refusal, moves):
        """Takes in a refusal. Where another statement has the place, or the jti, the session moves to another ID; when it is the jti, it comes back."""
        if refusal["hash"] == self._next.previous:
            self._item = None
        here, back, self._left = self._next.after_refusal(refusal), self._left, None
        if refusal["code"] != "STATEMENT_REUSED":
            self._next = here
        elif back and not moves:
            self._next = back
        else:
            self._next, self._left = self._next.elsewhere(refusal, self._ids.of(self.id)), here

    def _place(self):
        now, more = self._next, {"item": self._item, "refused": list(self._next.refused), "continues": self._next.continues, "spent": list(self._next.spent)}
        state = {"sid": now.sid, "seq": now.seq, "previous": now.previous, "end": now.end, "at": int(time.time() * 1000), **{name: value for name, value in more.items() if value}}
        self._spool._put("sessions", self._name, _sealed_json({name: value for name, value in state.items() if value is not None}))

def _sealed_json(value):
    text = json.dumps(value, separators=(",", ":"))
    return f"{_sha256(text)} {text}"

def _unsealed_json(path):  # None where the disk has changed it
    checksum, _, text = path.read_text("utf-8").partition(" ")
    return json.loads(text) if _sha256(text) == checksum else None

_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]

def _is_held(owner):  # whether the process that has a file lives, or may: it is on another machine
    host, pid = owner.split("-")[:2]
    if host != _HOST or int(pid) == os.getpid() or os.name == "nt":
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True

def _prefix_of(kid, id):  # of the files of a session
    return _sha256(f"{kid}\n{id}")[:32]

def _take_places(folder, kids, id):
    """Takes over the places of a session that processes have left, the newest last, by renaming the files, so that of many one gets each: the name of a new file, the (name, state, kid) of
    those, and whether another process may have the session. kids are the agent's own key, and then former ones."""
    new_name = lambda prefix: f"{prefix}.{_HOST}-{os.getpid()}-{secrets.token_hex(6)}"
    whose, taken, shared = {_prefix_of(kid, id): kid for kid in kids}, [], False
    for left in os.listdir(folder):
        prefix, _, owner = left.partition(".")
        if prefix not in whose:
            continue
        if _is_held(owner):
            shared = True
            continue
        name = new_name(prefix)
        try:
            os.rename(folder / left, folder / name)
        except FileNotFoundError:  # another was first
            shared = True
            continue
        state = _unsealed_json(folder / name)
        if state is None:
            shared = True
        else:
            taken.append((name, state, whose[prefix]))
    return new_name(_prefix_of(kids[0], id)), sorted(taken, key=lambda one: one[1].get("at", 0)), shared

def must(ok, message):  # not assert, which python3 -O leaves out
    if not ok:
        raise ValueError(message)

def read(text):  # strict JSON: no name twice, and no number that a double does not keep
    def unique(members):
        must(len(dict(members)) == len(members), "a name stands twice")
        return dict(members)
    def number(digits):
        # with any power, also one that no Decimal has
        zero = digits[-1].isdigit() and not re.search("[1-9]", re.split("[eE]", digits)[0])
        must(zero or digits[-1].isdigit() and Decimal(repr(float(digits))) == Decimal(digits), f"{digits} is not kept by a double")
        return float(digits) if re.search("[.eE]", digits) or digits == "-0" else int(digits)
    return json.loads(text, object_pairs_hook=unique, parse_int=number, parse_float=number, parse_constant=number)

# what counts outside of strings and in them
OUTSIDE, INSIDE = re.compile(rb'["{}\[\],:]'), re.compile(rb'["\\]')
WEIGHTS = {b"{": 2, b"[": 2, b":": 4, b",": 4, b"\\": 4}

# before a file is parsed: what it weighs, as the reference says, and how deep it nests
def bounded(source):
    weight, depth, at, inside = 0, 0, 0, False
    for found in iter(lambda: (INSIDE if inside else OUTSIDE).search(source, at), None):
        kind, at = found[0], found.end() + (found[0] == b"\\")
        inside ^= kind == b'"'
        weight += 2 if kind == b'"' and inside else WEIGHTS.get(kind, 0)
        depth += (kind in (b"{", b"[")) - (kind in (b"}", b"]"))
        must(weight <= 9_000_000, "it weighs more than 9000000")
        must(0 <= depth <= 160, "nested too deep")

def text_of(source):  # of a file, which is no longer and no heavier than one may be
    must(len(source) <= 64 << 20, "longer than 64 MiB")
    bounded(source)
    return source.decode()

def pieces(value):  # of the canonical form (RFC 8785), none of them long
    if type(value) is dict:
        for i, name in enumerate(sorted(value, key=lambda name: name.encode("utf-16-be"))):
            yield ",{"[i == 0]
            yield from pieces(name)
            yield ":"
            yield from pieces(value[name])
        yield "}" if value else "{}"
    elif type(value) is list:
        for i, element in enumerate(value):
            yield ",["[i == 0]
            yield from pieces(element)
        yield "]" if value else "[]"
    elif type(value) is str:
        yield '"'
        for at in range(0, len(value), 1 << 16):
            yield json.dumps(value[at:at + (1 << 16)], ensure_ascii=False)[1:-1]
        yield '"'
    else:
        yield json.dumps(value) if type(value) not in (int, float) else spelled(value)

def canonical(value):
    return "".join(pieces(value))

def digest_of_parts(*parts):  # each a text, or a list with a value; their forms are joined by |
    digest, some = hashlib.sha256(), []
    for i, part in enumerate(parts):
        for piece in itertools.chain("|" * (i > 0), [part] if type(part) is str else pieces(part[0])):
            some.append(piece)
            if len(some) == 1 << 10 or len(piece) > 1 << 10:
                digest.update("".join(some).encode())
                some = []
    digest.update("".join(some).encode())
    return digest.digest()

def spelled(value):  # a number
    # the digits that ECMAScript prints, too
    sign, digits, exponent = Decimal(repr(value + 0.0)).normalize().as_tuple()
    digits, point = "".join(map(str, digits)), len(digits) + exponent
    dot = lambda whole, rest: whole + "." + rest if rest else whole
    if 0 < point <= 21:
        return "-" * sign + dot(digits[:point].ljust(point, "0"), digits[point:])
    return "-" * sign + ("0." + "0" * -point + digits if -6 < point <= 0 else dot(digits[0], digits[1:]) + f"e{point - 1:+d}")

def exactly(value, members, optional=()):
    must(type(value) is dict and set(members) <= set(value) <= {*members, *optional}, f"not an object of exactly {members}")

def strings(*values):
    must(all(type(value) is str for value in values), "not a string")

def seconds(timestamp):  # of its one form, such as 2006-01-02T15:04:05.000Z
    must(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", timestamp), "not a timestamp")
    # year 0 is a year, too
    datetime.strptime(f"{2000 + int(timestamp[:4]) % 400}{timestamp[4:]}", "%Y-%m-%dT%H:%M:%S.%f%z")
    return datetime.strptime(timestamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() if timestamp[:4] > "0001" else 0

def unbase64url(text):
    decoded = base64.urlsafe_b64decode(text + "==")
    must(base64.urlsafe_b64encode(decoded).decode().rstrip("=") == text, "not base64url")
    return decoded

# returns the fingerprint, of all keys where it is a list of them: compare one with what the company
# gave you
def check_key(key):
    if "origin" in key:
        return [check_key(one) for one in ring(key)]
    public = load_pem_public_key(key["pem"].encode())
    must(isinstance(public, Ed25519PublicKey), "not an Ed25519 key")
    form, name = PublicFormat.SubjectPublicKeyInfo, lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")
    digest = hashlib.sha256(public.public_bytes(Encoding.DER, form)).digest()
    must(key["pem"] == public.public_bytes(Encoding.PEM, form).decode(), "the key is spelt in another way")
    must(key["fingerprint"] == "SHA256:" + name(digest) and key["kid"] == digest.hex()[:16]
         and key["jwk"]["x"] == name(public.public_bytes(Encoding.Raw, PublicFormat.Raw)), "the key is not the one that it says")
    return key["fingerprint"]

def check_signature(key, signature, message):  # raises InvalidSignature
    load_pem_public_key(key["pem"].encode()).verify(unbase64url(signature), message)

# of a rotation: with whole fingerprints, or in the form of before, with the kids alone
def statements(origin, at, old, new):
    forms = ("v2", old["fingerprint"], new["fingerprint"]), ("v1", old["kid"], new["kid"])
    return [f"attestd/key-rotation/{version}\n{origin}\n{at}\n{one}\n{other}\n" for version, one, other in forms]

# all keys of the company, each proven by the one before it; or the one that was given
def ring(key):
    if "origin" not in key:
        return [key]
    keys = [{"companyId": key["companyId"], "spiffeId": key["spiffeId"], **one} for one in key["keys"]]
    must(all(type(one["fromIndex"]) is int for one in keys), "not the index of a record")
    must(keys and keys[0]["fromIndex"] == 0 and "rotation" not in keys[0], "the first key is missing")
    must("endedAt" not in keys[-1], "the last key has ended")
    strings(key["companyId"], key["spiffeId"], key["origin"])
    check_key(keys[0])
    for old, new in zip(keys, keys[1:]):
        check_key(new)
        proof, at = new["rotation"], new["fromIndex"]
        must(at >= old["fromIndex"], "the keys are not in order")
        must(proof["statement"] in statements(key["origin"], at, old, new), "the proof is of another rotation")
        check_signature(old, proof["oldSignature"], proof["statement"].encode())
        check_signature(new, proof["newSignature"], proof["statement"].encode())
    return keys

# those whose tokens of a time, in Unix seconds, may be good now: no key counts after its end
def token_keys(key, at=0):
    good = lambda one: "endedAt" not in one or at <= seconds(one["endedAt"]) and time.time() < seconds(one["endedAt"]) + 86400
    return [one for one in ring(key) if "compromisedAt" not in one and good(one)]

def check_life(claims, longest):  # in seconds: 86400 of a passport, 3600 of an SVID or a delegation
    iat, nbf, exp = (claims[name] for name in ("iat", "nbf", "exp"))
    must(all(type(n) is int for n in (iat, nbf, exp)), "the times are no integers")
    must(0 <= iat <= nbf and 0 < exp - iat <= longest, "not a life that such a token has")

# the form comes first: parts that moved from one member to another have the same hash
def digest_of(record, company, log="actions"):
    exactly(record, ("index", "timestamp", "payload", "hash", "signature"), ("delegation",))
    index, payload = record["index"], record["payload"]
    must(type(index) is int and 0 <= index < 2**53, "the index is not an integer")
    seconds(record["timestamp"])
    exactly(payload, ("agentId", "companyId", "actionType", "payload") + ("log",) * (log == "control"), ("statement",) * (log == "actions"))
    must(payload.get("log", "actions") == log, "the record is of another log")
    strings(payload["agentId"], payload["actionType"], payload.get("statement", ""))
    must(payload["companyId"] == company, "the record is of another company")
    digest = digest_of_parts(str(index), record["timestamp"], [payload], *delegation_of(record))
    must(digest.hex() == record["hash"], "the record was changed")
    return digest

def delegation_of(record):
    if "delegation" not in record:
        return []
    info = record["delegation"]
    exactly(info, ("subject", "delegationChain", "act", "tokenId"))
    must(type(info["delegationChain"]) is list and type(info["act"]) in (dict, type(None)), "not a delegation")
    strings(info["subject"], info["tokenId"], *info["delegationChain"])
    return [[info]]

class Pruned(ValueError):  # of a record whose hash the company has signed, and nobody can recompute
    def __init__(self):
        super().__init__("its payload was pruned, and without it the hash cannot be recomputed")

# raises Pruned for an action without its payload, once verified(digest) has found its hash signed
def check_signed(record, company, log, verified):
    if "pruned" not in record:
        return verified(digest_of(record, company, log))
    exactly(record, ("index", "timestamp", "payload", "pruned", "hash", "signature"), ("delegation",))
    must(record["pruned"] is True and record["payload"] is None and log == "actions", "not an action without its payload")
    must(type(record["index"]) is int and 0 <= record["index"] < 2**53, "the index is not an integer")
    seconds(record["timestamp"])
    delegation_of(record)
    must(re.fullmatch("[0-9a-f]{64}", record["hash"]), "not a hash")
    verified(bytes.fromhex(record["hash"]))
    raise Pruned

def check_record(record, key, log="actions"):
    signer = lambda: [one for one in ring(key) if one.get("fromIndex", 0) <= record["index"]][-1]
    check_signed(record, key["companyId"], log, lambda digest: check_signature(signer(), record["signature"], digest))

# returns the root: compare it with the one that you keep
def check_proof(evidence, key, log="actions"):
    root = check_inclusion(evidence, key, log)
    if "pruned" in evidence["record"]:
        raise Pruned
    return root

# as check_proof, and says nothing of the content: it passes without the payload, too
def check_inclusion(evidence, key, log="actions"):
    exactly(evidence, ("record", "proof", "root"))
    try:
        check_record(evidence["record"], key, log)
    except Pruned:
        pass
    node = evidence["record"]["hash"]
    must(type(evidence["proof"]) is list and len(evidence["proof"]) <= 64, "not a proof")
    for step in evidence["proof"]:
        exactly(step, ("sibling", "position"))
        sibling, position = step["sibling"], step["position"]
        must(re.fullmatch("[0-9a-f]{64}", sibling) and position in ("left", "right"), "not a step of a proof")
        node = hashlib.sha256((sibling + node if position == "left" else node + sibling).encode()).hexdigest()
    must(node == evidence["root"], "the record is not below this chain root")
    return node

def check_passport(passport, key, audience="service:passport:v1"):
    header, claims, signature = passport.split(".")
    signed = f"{header}.{claims}".encode()
    header, claims = (read(unbase64url(part).decode()) for part in (header, claims))
    check_life(claims, 86400)
    key = next((one for one in token_keys(key, claims["iat"]) if one["kid"] == header["kid"]), None)
    must(key, "not a passport of the company's keys at its time")
    check_signature(key, signature, signed)
    must(header == {"alg": "EdDSA", "kid": key["kid"], "typ": "CAP+JWT"}, "not a passport of this key")
    own, domain = claims[audience.split(":")[0]], key["spiffeId"].split("/company/")[0]
    must(claims["iss"] == domain + "/ca" and claims["aud"] == [audience], "not a passport of this service")
    must(type(own["v"]) is int and own["v"] == 1, "not a passport that we know")
    must(own["org"] == key["companyId"] and claims["sub"] == key["spiffeId"] + "/agent/" + own["agentId"], "not of this company")
    must(own["delegationChain"][-1] == claims["sub"], "the chain does not end with the subject")
    must(claims["nbf"] <= time.time() < claims["exp"], "the passport is not valid now")
    return claims

# of GET /v1/ocsp/:jti; jti is the passport's, max_age in seconds
def check_status(answer, key, jti, max_age=300):
    exactly(answer, ("jti", "companyId", "status", "checkedAt", "caPublicKey", "signature"), ("revokedAt", "reason"))
    signed = {k: v for k, v in answer.items() if k not in ("caPublicKey", "signature")}
    strings(*answer.values())
    key = next((one for one in token_keys(key) if one["pem"] == answer["caPublicKey"]), None)
    must(key and ("endedAt" not in key or seconds(answer["checkedAt"]) <= seconds(key["endedAt"]) + 60), "the status is of another key")
    check_signature(key, answer["signature"], hashlib.sha256(canonical(signed).encode()).digest())
    must(answer["jti"] == jti, "the status is of another passport")
    must(answer["companyId"] == key["companyId"], "the status is of another company")
    must(-60 <= time.time() - seconds(answer["checkedAt"]) <= max_age, "the status is not of now: ask for a new one")
    must(answer["status"] in ("valid", "revoked", "unknown") and (answer["status"] == "revoked") == ("revokedAt" in answer), "not a status")
    return answer["status"]

# What follows checks files of GET /v1/evidence/{index}, whose format and checks the reference
# describes. The checks are made in this order, and the first that fails gives the code.

def hexadecimal(digits):
    return lambda s: type(s) is str and re.fullmatch("[0-9a-f]{%d}" % digits, s)

def base64url(size):
    return lambda s: len(unbase64url(s)) == size

text, timestamp, kid = (lambda s: type(s) is str), (lambda s: seconds(s) is not None), hexadecimal(16)
number = lambda n: type(n) is int and 0 <= n < 2**53
anything = lambda value: True
log_name = lambda s: s in ("actions", "control")
company = lambda s: re.fullmatch("[A-Za-z0-9._-]{1,128}", s) and s not in (".", "..")
uuid = lambda s: re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", s)

# A form is a function, or [form, most elements], or members with their forms, where ? marks what
# may be absent.
WHOLE = {"index": number, "timestamp": timestamp, "payload": anything, "hash": hexadecimal(64), "signature": base64url(64), "delegation?": anything}
PRUNED = {**WHOLE, "payload": lambda payload: payload is None, "pruned": lambda pruned: pruned is True}

def RECORD(value):
    has_form(value, PRUNED if type(value) is dict and "pruned" in value else WHOLE, "record")
    return True

ENTRIES = [{"record": RECORD, "tlogProof": text}, 10_000]
ROTATION = {"statement": text, "oldSignature": base64url(64), "newSignature": base64url(64)}
JWK = {"kty": text, "crv": text, "x": base64url(32), "kid": text, "alg": text, "use": text}
STATUS = {"jti": text, "companyId": text, "status": text, "checkedAt": timestamp, "caPublicKey": text, "signature": base64url(64), "revokedAt?": timestamp, "reason?": text}
LOGS = [{"log": log_name, "logId": hexadecimal(32), "origin": text, "keys": [{"kid": kid, "fromIndex": number, "rotation?": ROTATION}, 10_000]}, 2]
KEYS = [{"kid": kid, "fingerprint": text, "jwk": JWK}, 10_000]
EVIDENCE = {
    "format": lambda s: s == "attestd-evidence/v1", "companyId": company, "log": log_name, "record": RECORD,
    "hexProof": {"proof": [{"sibling": hexadecimal(64), "position": lambda s: s in ("left", "right")}, 60], "root": hexadecimal(64), "size": number},
    "tlogProof": text, "keys": KEYS, "witnesses": [text, 16], "logs": LOGS,
    "delegation?": anything, "agentKey?": {"records": ENTRIES}, "passport?": {"jti": uuid, "records": ENTRIES}, "status?": STATUS, "authority?": {"records": ENTRIES},
    "notProven": [text, 10_000],
}

def has_form(value, form, name):
    if callable(form):
        return must(form(value), f"{name} has not its form")
    if type(form) is list:
        must(type(value) is list and len(value) <= form[1], f"{name} is not a list of at most {form[1]}")
        for i, element in enumerate(value):
            has_form(element, form[0], f"{name}[{i}]")
        return
    exactly(value, [n for n in form if n[-1] != "?"], [n[:-1] for n in form if n[-1] == "?"])
    for member, inner in form.items():
        if member.rstrip("?") in value:
            has_form(value[member.rstrip("?")], inner, f"{name}.{member.rstrip('?')}")

def whole(value):  # no lone surrogate
    if type(value) is str:
        must(not re.search("[\ud800-\udfff]", value), "a lone surrogate")
    for inside in itertools.chain(value, value.values()) if type(value) is dict else value if type(value) is list else ():
        whole(inside)

# what records say of calls of tools; the other two are outcomes, as completed is
CALL_KINDS = {"tool.requested": "requests", "tool.denied": "refusals", "tool.completed": "outcomes", "tool.failed": "outcomes", "tool.ended": "outcomes"}

class Calls:
    """Finds the calls that were refused and ran all the same, among records in their order. Its memory does not grow with their number. The reference says what such a call is."""
    MOST_CALLS, MOST_NAMED = 10_000, 10

    def __init__(self):
        self.calls = {}  # in the order of their first records
        # (index of the refusal, of the outcome) of the first calls that disobeyed; and how many did
        self.found, self.count = [], 0

    def add(self, record):
        index, payload = record["index"], record["payload"]
        kind, call = CALL_KINDS.get(payload["actionType"]), payload["payload"]
        if kind is None or type(call) is not dict:
            return
        parts = call.get("source"), call.get("sessionId", ""), call.get("callId")
        if not all(type(part) is str for part in parts) or not 0 < len(parts[2].encode()) < 256 or "[masked]" in parts[2]:
            return
        key = payload["agentId"], *parts
        if key not in self.calls and len(self.calls) == self.MOST_CALLS:
            del self.calls[next(iter(self.calls))]
        state = self.calls.setdefault(key, {"requests": 0, "refusals": 0, "refused": None, "done": None, "found": False})
        if kind != "outcomes":
            state[kind] += 1
        if kind == "refusals":
            state["refused"] = index
        elif kind == "outcomes" and state["done"] is None:
            state["done"] = index
        if not state["found"] and state["done"] is not None and 0 < state["refusals"] >= state["requests"]:
            state["found"] = True
            self.count += 1
            self.found += [(state["refused"], state["done"])][:self.MOST_NAMED - len(self.found)]

    def state(self, rest):  # of a session that otherwise has the state rest
        if not self.count:
            return rest
        calls = "; ".join(f"refused at record {refused}, done at record {done}" for refused, done in self.found)
        more = f"; and {self.count - len(self.found)} more" if self.count > len(self.found) else ""
        return f"disobeyed: {calls}{more}; {rest}"

# raises InvalidSignature; as OpenSSL and Go do, it takes S < L alone and compares R byte for byte
def verify(raw, signature, message):
    Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)

def is_name(name):  # that may stand in a signature line
    return 0 < len(name.encode()) <= 255 and not re.search("[\0-\x20+\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]", name)

def unbase64(s):
    decoded = base64.b64decode(s)
    must(base64.b64encode(decoded).decode() == s, "not base64")
    return decoded

def key_id(name, kind, raw):
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + raw).digest()[:4]

def read_vkey(vkey, kind):  # of a log (1) or a witness (4)
    must(vkey.count("+") >= 2, "not a vkey of this kind")
    name, tag, key = vkey.split("+", 2)
    raw = unbase64(key)[1:]
    must(is_name(name) and len(raw) == 32 and unbase64(key)[0] == kind and key_id(name, kind, raw).hex() == tag, "not a vkey of this kind")
    return {"vkey": vkey, "name": name, "raw": raw, "id": key_id(name, kind, raw)}

# the (witness, time) of each line that says it is of one of them; raises where it is not
def cosigned_by(lines, body, witnesses):
    for name, blob in lines:
        claimed = [w for w in witnesses if w["name"] == name and w["id"] == blob[:4]]
        for w in claimed:
            try:
                at = int.from_bytes(blob[4:12], "big")
                must(len(blob) == 76 and 0 < at < 2**63, "not a cosignature")
                verify(w["raw"], blob[12:], f"cosignature/v1\ntime {at}\n{body}".encode())
                yield w, at
                break
            except Exception:
                must(w is not claimed[-1], f"the cosignature of {name} does not verify")

def signature_lines(lines):
    must(lines.endswith("\n"), "not a signed note")
    for line in lines[:-1].split("\n"):
        dash, name, blob = line.split(" ")
        must(dash == "\u2014" and is_name(name) and len(unbase64(blob)) > 4, "not a signature line")
        yield name, unbase64(blob)

class Places:
    """The statements of one session in the order of their places: whether all are there. Its memory does not grow with their number. The reference says what each is held against."""
    MOST_GAPS, MOST_NAMED, MOST_RECENT, MOST_RECORDED = 1000, 10_000, 4096, 100

    def __init__(self):
        self.last, self.sealed, self.is_more = -1, False, False
        # (seq, index) of places that are there although they were refused, the first 100; index -1
        # of one long ago
        self.recorded = []
        # of missing places: (first, last, prev of the statement after them); and gaps beyond those
        self.gaps, self.forgotten = [], 0
        # hashes of places that are missing and that a later statement names as refused
        self.named = {}
        self.recent = {}  # (index, hash) of the last statements, by seq

    def add(self, claims, index, hashed):
        seq, last, (at, before) = claims["seq"], self.last, self.recent.get(self.last, (None, None))
        must(seq != last, f"the agent's key signed two statements with the seq {seq}: in the records {at} and {index}")
        must(seq > last and not self.sealed, f"seq {seq} of record {index} stands after {last}, or after the end")
        must(last < 0 or seq > last + 1 or claims["prev"] == before, f"prev of record {index} is not the hash of the statement in record {at}")
        if seq > last + 1 and len(self.gaps) == self.MOST_GAPS:
            self.forgotten += 1
        elif seq > last + 1:
            self.gaps.append((last + 1, seq - 1, claims["prev"]))
        for one in claims.get("refused", ()):
            self.take(one["seq"], one["hash"])
        self.last, self.sealed = seq, "end" in claims
        self.recent[seq] = index, hashed
        if len(self.recent) > self.MOST_RECENT:
            del self.recent[next(iter(self.recent))]

    def take(self, seq, hashed):  # an entry of refused
        if seq in self.recent:
            index, there = self.recent[seq]
            must(there == hashed, f"it says that number {seq} was refused, and the agent's key signed another statement of that number, in record {index}")
            return self.was_recorded(seq, index)
        must(self.named.get(seq, hashed) == hashed, f"it says that number {seq} was refused, and an earlier statement says so of another statement of that number")
        if seq in self.named:
            return
        at, end = 0, len(self.gaps)
        while at < end:  # the first gap that ends there or later
            middle = (at + end) // 2
            at, end = (at, middle) if self.gaps[middle][1] >= seq else (middle + 1, end)
        if at < len(self.gaps) and self.gaps[at][0] <= seq:
            self.fill(at, seq, hashed)
        elif self.forgotten == 0:
            self.was_recorded(seq, -1)

    def fill(self, at, seq, hashed):  # a place of a gap
        first, last, after = self.gaps[at]
        must(seq < last or after in (None, hashed), "it says that a statement was refused that is not the one which the statement after it names in prev")
        rest = [gap for gap in ((first, seq - 1, None), (seq + 1, last, after)) if gap[0] <= gap[1]]
        if len(self.named) < self.MOST_NAMED and len(self.gaps) - 1 + len(rest) <= self.MOST_GAPS:
            self.gaps[at:at + 1] = rest
            self.named[seq] = hashed

    def was_recorded(self, seq, index):
        if all(known != seq for known, _ in self.recorded):
            self.is_more = self.is_more or len(self.recorded) == self.MOST_RECORDED
            self.recorded = self.recorded + [(seq, index)] * (len(self.recorded) < self.MOST_RECORDED)

    def state(self):  # complete, open at n, or missing a–b
        count, refused = len(self.gaps) + self.forgotten, f", {len(self.named)} refused" if self.named else ""
        if count == 0:
            return (f"complete: 0 to {self.last}, sealed" if self.sealed else f"open at {self.last}") + refused
        gaps = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b, _ in self.gaps[:100])
        more = f" and {count - 100} ranges more" if count > 100 else ""
        return f"missing {gaps}{more}" + ("" if self.sealed else f", open at {self.last}") + refused

# What an agent signs with a key of its own: statements, and endorsements of its next key. They are
# compact JWS, and the reference says which.

FIELD, P256 = 2**255 - 19, 2**256 - 2**224 + 2**192 + 2**96 - 1
# y of the points of small order, for which everybody can sign
SMALL = {int.from_bytes(bytes.fromhex(y), "little") for y in (
    "00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")}

def is_thumbprint(value):
    return type(value) is str and len(unbase64url(value)) == 32

def agent_key(jwk):  # (thumbprint, algorithm, function that checks a signature) of a key
    curve = {"OKP": "Ed25519", "EC": "P-256"}[jwk["kty"]]
    exactly(jwk, ("kty", "crv", "x") + ("y",) * (curve == "P-256"))
    points = [unbase64url(jwk[name]) for name in ("x", "y") if name in jwk]
    must(jwk["crv"] == curve and all(len(point) == 32 for point in points), "not a key of an agent")
    thumbprint = base64.urlsafe_b64encode(hashlib.sha256(canonical(jwk).encode()).digest()).decode().rstrip("=")
    if curve == "Ed25519":
        y = int.from_bytes(points[0], "little") % 2**255
        must(y < FIELD and y not in SMALL, "a key for which everybody can sign, or in another spelling")
        return thumbprint, "EdDSA", lambda signature, message: verify(points[0], signature, message)
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, utils
    x, y = (int.from_bytes(point, "big") for point in points)
    must(max(x, y) < P256, "not a point of P-256")
    key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    def check(signature, message):
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        key.verify(utils.encode_dss_signature(r, s), message, ec.ECDSA(hashes.SHA256()))
    return thumbprint, "ES256", check

class JWS:  # of which the form is checked, and not the signature
    def __init__(self, compact, kind, longest, required, optional=()):
        must(len(compact.encode()) <= longest, f"longer than {longest} bytes")
        header, claims, signature = compact.split(".")
        self.message, self.signature = f"{header}.{claims}".encode(), unbase64url(signature)
        header, self.claims = (read(unbase64url(part).decode()) for part in (header, claims))
        exactly(header, ("alg", "typ", "kid"))
        exactly(self.claims, required, optional)
        self.algorithm, self.kid = header["alg"], header["kid"]
        must(self.algorithm in ("EdDSA", "ES256") and header["typ"] == kind and is_thumbprint(self.kid), f"not the header of {kind}")
        must(len(self.signature) == 64, "a signature has 64 bytes")
        for name in ("iss", "aud"):
            must(visible(self.claims[name], longest) and self.claims[name].startswith("spiffe://"), f"{name} is not a SPIFFE ID")
        must(type(self.claims["iat"]) is int and 0 <= self.claims["iat"] <= 253402300799, "iat is not a time")

    def check(self, key):
        thumbprint, algorithm, check = key
        must(thumbprint == self.kid and algorithm == self.algorithm, "it is not of this key")
        check(self.signature, self.message)

def visible(value, longest):
    return type(value) is str and re.fullmatch("[!-~]{1,%d}" % longest, value)

REFUSED = [{"seq": number, "hash": hexadecimal(64), "code": lambda s: text(s) and re.fullmatch("[A-Z0-9_]{1,64}", s)}, 100]
SESSION = lambda s: text(s) and re.fullmatch("[A-Za-z0-9._~-]{1,128}", s)
CONTINUES = {"sid": SESSION, "kid": is_thumbprint, "hash": hexadecimal(64)}

def read_statement(compact):  # one that names its log is of version 2, any other of version 1
    optional = ("log", "delegation", "sid", "seq", "prev", "refused", "continues", "end")
    jws = JWS(compact, "agent-statement+jwt", 32768, ("iss", "aud", "iat", "jti", "action_hash"), optional)
    claims, seq = jws.claims, jws.claims.get("seq", 0)
    must(visible(claims["jti"], 128) and hexadecimal(64)(claims["action_hash"]), "jti or action_hash has not its form")
    must("log" not in claims or visible(claims["log"], 255), "log is not the origin of a log")
    delegation = hexadecimal(64) if "log" in claims else lambda value: visible(value, 128)
    must("delegation" not in claims or delegation(claims["delegation"]), "delegation has not its form")
    must(("sid" in claims) == ("seq" in claims) and ("sid" in claims or "end" not in claims), "a part of a session is missing")
    must("sid" not in claims or SESSION(claims["sid"]), "not a session")
    must(number(seq) and ("prev" in claims) == (seq > 0) and ("prev" not in claims or hexadecimal(64)(claims["prev"])), "not a place in a session")
    must(claims.get("end", True) is True, "end is not true")
    must("log" in claims or not {"refused", "continues"} & set(claims), "refused or continues is there without log")
    if "refused" in claims:
        has_form(claims["refused"], REFUSED, "refused")
        must(seq > 0 and claims["refused"], "refused is there in the first place of a session, or empty")
        places = [one["seq"] for one in claims["refused"]]
        must(all(a < b for a, b in zip(places, [*places[1:], seq])), "the places of refused do not stand in order before this one")
        must(places[-1] < seq - 1 or claims["refused"][-1]["hash"] == claims["prev"], "prev is not the hash of the refused statement before")
    if "continues" in claims:
        has_form(claims["continues"], CONTINUES, "continues")
        must("sid" in claims and seq == 0, "continues is there, and this is not the first place of a session")
        must((claims["continues"]["sid"], claims["continues"]["kid"]) != (claims["sid"], jws.kid), "continues names this very session")
    return jws

def read_endorsement(compact):
    jws = JWS(compact, "agent-key+jwt", 4096, ("iss", "aud", "iat", "jkt"))
    must(is_thumbprint(jws.claims["jkt"]) and jws.claims["jkt"] != jws.kid, "jkt is not another key")
    return jws

def goes_on(continues):
    return f"goes on from the session {continues['sid']} of the key {continues['kid']}, whose last statement has the hash {continues['hash']}"

def moment(timestamp):  # in milliseconds
    return round(seconds(timestamp) * 1000) if timestamp > "0002" else -10**14

class Evidence:  # a file while it is checked
    # known has fingerprints of companies' keys: of them one counts without fingerprint and policy
    def __init__(self, source, fingerprint=None, policy=None, agent_key=None, known=None):
        self.source, self.fingerprint, self.policy, self.agent_key = source, fingerprint, policy, agent_key
        self.known, self.is_known = known or {}, False
        self.checked, self.notes, self.cosigners, self.events = [], {}, [], []
        self.chain, self.allowed = [], []
        self.not_actor = None  # of a record whose delegation was given to another one

    def steps(self):
        yield from (("MALFORMED", self.form), ("KEYS", self.keys), ("RECORD", self.record), ("HEX_PROOF", self.hex_proof), ("WITNESSES", self.read_witnesses))
        yield from (("LOG_PROOF", self.log_proof), ("DELEGATION", self.delegation), ("STATEMENT", self.statement), ("AUTHORITY", self.authority))
        yield from (("PASSPORT", self.passport), ("STATUS", self.status), ("WITNESSES", self.all_cosigned), ("NOT_PROVEN", self.not_proven))
        yield from (("KEY", self.key), ("POLICY", self.by_policy))

    def verdict(self):  # (verdict, code, reason)
        for code, check in self.steps():
            try:
                check()
            except Pruned as refused:
                return "fails", "PRUNED", str(refused)
            except Exception as refused:
                return "fails", code, str(refused) or type(refused).__name__
        if self.fingerprint is None and self.policy is None:
            return "self-consistent", "", "key not confirmed: anyone can make such a file"
        return "holds", "", ""

    def form(self):
        source, self.source = text_of(self.source), None  # one of them is enough to hold
        self.file = f = read(source)
        whole(f)
        has_form(f, EVIDENCE, "file")
        must(f["keys"], "keys is empty")
        payload = f["record"]["payload"]
        must("agentKey" not in f or type(payload) is dict and "statement" in payload, "agentKey is there, and the record has no statement")
        self.opening()

    def opening(self):  # what the checks use of the form
        f = self.file
        self.entries = [entry for member in ("agentKey", "passport", "authority") for entry in f.get(member, {}).get("records", [])]
        self.logs, self.raw = {log["log"]: log for log in f["logs"]}, [unbase64url(k["jwk"]["x"]) for k in f["keys"]]

    def needed(self):  # the logs without which the file could not be checked
        f = self.file
        later = "control" in self.logs and 0 < len(self.logs["control"]["keys"]) != len(self.raw)
        return ["actions"] * (f["log"] == "actions" or later) + ["control"] * (f["log"] == "control" or len(self.entries) > 0)

    def keys(self):
        f, count = self.file, len(self.raw)
        for raw, key in zip(self.raw, f["keys"]):
            digest = hashlib.sha256(bytes.fromhex("302a300506032b6570032100") + raw).digest()
            jwk = {"kty": "OKP", "crv": "Ed25519", "x": key["jwk"]["x"], "kid": digest.hex()[:16], "alg": "EdDSA", "use": "sig"}
            fingerprint = "SHA256:" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
            must(key == {"kid": digest.hex()[:16], "fingerprint": fingerprint, "jwk": jwk}, "a key is not the one that it says")
        must(len(set(self.raw)) == count, "a key stands twice")
        must([log["log"] for log in f["logs"]] == self.needed(), f"the logs are not {self.needed()}")
        for log in f["logs"]:
            ring, origin = log["keys"], log["origin"]
            must(origin.endswith("/v1/log/" + log["logId"]), "an origin is of another log")
            must(0 < len(ring) <= count and (log["log"] == "control" or len(ring) == count), "a log has not its keys")
            log["raw"] = self.raw[count - len(ring):]
            must([k["kid"] for k in ring] == [k["kid"] for k in f["keys"]][count - len(ring):], "a log has other keys")
            must(ring[0]["fromIndex"] == 0 and "rotation" not in ring[0], "the first key of a log is missing")
            for i in range(1, len(ring)):
                old, new, proof = ring[i - 1], ring[i], ring[i]["rotation"]
                must(new["fromIndex"] >= old["fromIndex"], "the keys are not in order")
                must(proof["statement"] in statements(origin, new["fromIndex"], *f["keys"][count - len(ring):][i - 1:i + 1]), "the proof is of another rotation")
                verify(log["raw"][i - 1], unbase64url(proof["oldSignature"]), proof["statement"].encode())
                verify(log["raw"][i], unbase64url(proof["newSignature"]), proof["statement"].encode())
        self.checked.append(f"keys: {count}, each named by the one before it, up to {f['keys'][-1]['fingerprint']}")

    def signer(self, log, record):  # the place in the log's keys of the one that signs a record
        return [i for i, key in enumerate(log["keys"]) if key["fromIndex"] <= record["index"]][-1]

    def signed(self, log, record):
        verified = lambda digest: verify(log["raw"][self.signer(log, record)], unbase64url(record["signature"]), digest)
        check_signed(record, self.file["companyId"], log["log"], verified)

    def record(self):
        record, log = self.file["record"], self.logs[self.file["log"]]
        self.signed(log, record)
        self.by, payload = log["keys"][self.signer(log, record)]["kid"], record["payload"]
        self.checked.append(f"record {record['index']} of {log['log']}, {record['timestamp']}, {payload['agentId']}, {payload['actionType']}: signed by key {self.by}")

    def hex_proof(self):
        proof, at, node = self.file["hexProof"], self.file["record"]["index"], self.file["record"]["hash"]
        must(at < proof["size"], "there is no such record in the tree")
        steps, n = list(proof["proof"]), proof["size"] - 1
        while n > 0:
            if at % 2 or at < n:
                must(steps, "a step is missing")
                sibling, position = steps[0]["sibling"], steps.pop(0)["position"]
                must((position == "left") == bool(at % 2), "a step is on the other side")
                node = hashlib.sha256((sibling + node if position == "left" else node + sibling).encode()).hexdigest()
            at, n = at // 2, n // 2
        must(not steps and node == proof["root"], "the steps do not lead to the chain root")
        self.checked.append(f"its hash leads to the chain root {node} of {proof['size']} records")

    def read_witnesses(self):
        self.witnesses = [read_vkey(vkey, 4) for vkey in self.file["witnesses"]]
        must(len({w["raw"] for w in self.witnesses}) == len(self.witnesses), "a witness stands twice")

    # the size and the root of a log's one checkpoint, once its signatures are checked
    def opened(self, log, signed):
        name, origin = log["log"], log["origin"]
        if name not in self.notes:
            body, lines = signed.split("\n\n")
            head, size, root = body.split("\n")
            must(head == origin and is_name(origin) and re.fullmatch("0|[1-9][0-9]*", size), "the checkpoint is of another log")
            size, root, lines, body = int(size), unbase64(root), list(signature_lines(lines)), body + "\n"
            must(size < 2**53 and len(root) == 32, "not a checkpoint")
            must(lines[0][0] == origin and lines[0][1][:4] == key_id(origin, 1, log["raw"][-1]), "the last key has not signed the checkpoint")
            verify(log["raw"][-1], lines[0][1][4:], body.encode())
            by = [w["vkey"] for w, _ in cosigned_by(lines[1:], body, self.witnesses)]
            must(len(set(by)) == len(by) == len(lines) - 1, "a line below the checkpoint is of nobody, or of somebody twice")
            self.cosigners += [vkey for vkey in by if vkey not in self.cosigners]
            self.notes[name] = (signed, size, root, lines, body)
            self.checked.append(f"checkpoint of {name} at {size} records, signed by the last key and cosigned by {by or 'nobody'}")
        must(self.notes[name][0] == signed, "the checkpoint is another one")
        return self.notes[name][1:3]

    def placed(self, log, record, proof):  # in the log that standard tools read; returns its size
        head, signed = proof.split("\n\n", 1)
        version, index, *hashes = head.split("\n")
        must(version == "c2sp.org/tlog-proof@v1" and index == f"index {record['index']}", "the proof is of another record")
        size, root = self.opened(log, signed)
        self.included(log, record, hashes, size, root)
        return size

    def included(self, log, record, hashes, size, root):
        hashes, at, n, sha = [unbase64(h) for h in hashes], record["index"], size - 1, lambda *parts: hashlib.sha256(b"".join(parts)).digest()
        must(at < size and len(hashes) <= 60 and all(len(h) == 32 for h in hashes), "not a proof of the record")
        raw = log["raw"][self.signer(log, record)]
        node = sha(b"\0", bytes.fromhex(record["hash"]), unbase64url(record["signature"]), hashlib.sha256(raw).digest())
        for sibling in hashes:  # RFC 9162, section 2.1.3.2
            must(n > 0, "the proof is too long")
            if at % 2 or at == n:
                node = sha(b"\1", sibling, node)
                while at % 2 == 0 and at:
                    at, n = at // 2, n // 2
            else:
                node = sha(b"\1", node, sibling)
            at, n = at // 2, n // 2
        must(n == 0 and node == root, "the proof does not lead to the log root of the checkpoint")

    def log_proof(self):
        size = self.placed(self.logs[self.file["log"]], self.file["record"], self.file["tlogProof"])
        must(size == self.file["hexProof"]["size"], "the two proofs are of trees of two sizes")

    def delegation(self):
        own, copied = ([canonical(o["delegation"])] if "delegation" in o else [] for o in (self.file["record"], self.file))
        must(own == copied, "delegation differs from record.delegation")
        if self.file["log"] == "actions":
            self.acts(self.file["record"])

    # control records, each of which must be about what it may be about
    def told(self, entries, about):
        last, events = -1, []
        for entry in entries:
            record = entry["record"]
            self.signed(self.logs["control"], record)
            self.placed(self.logs["control"], record, entry["tlogProof"])
            payload, action, index = record["payload"]["payload"], record["payload"]["actionType"], record["index"]
            must(type(payload) is dict and type(payload["subject"]) is str and type(payload["by"]) in (str, type(None)), "it does not say what was changed")
            agent = payload.get("agentId") if type(payload.get("agentId")) is str else ""
            must(index > last and about(payload["subject"], action, agent), f"control record {index} does not belong there")
            last = index
            events.append((action, payload, record))
            self.checked.append(f"control record {index}, {record['timestamp']}: {action}, {payload['subject']}, by {payload['by'] or 'the service itself'}")
        return events

    def authority(self):
        record, company = self.file["record"], self.file["companyId"]
        match = (re.fullmatch(f"spiffe://[^/]*/company/{re.escape(company)}/agent/(.*)", one, re.S) for one in record.get("delegation", {}).get("delegationChain", []))
        agents = {record["payload"]["agentId"], *(m[1] for m in match if m)}
        def about(subject, action, agent):
            kind, _, name = subject.partition(":")
            return kind == "agent" and name in agents or kind == "passport" and agent in agents or kind == "signing-key" and name == self.by
        self.allowed = self.told(self.file.get("authority", {}).get("records", []), about)

    def passport(self):
        given, owner = self.file.get("passport"), ""
        def about(subject, action, agent):
            nonlocal owner
            if subject == "passport:" + given["jti"]:
                owner = agent if action == "passport.issued" else owner
                return True
            return action == "agent.disabled" and owner != "" and subject == "agent:" + owner
        self.events = self.told(given["records"], about) if given else []

    def status(self):
        status, last = self.file.get("status"), self.raw[-1]
        must(("passport" in self.file) == ("status" in self.file), "only one of passport and status is present")
        if not status:
            return
        state, at, why = status["status"], status.get("revokedAt"), status.get("reason")
        must(status["jti"] == self.file["passport"]["jti"] and status["companyId"] == self.file["companyId"], "the status is of another passport")
        must(state in ("valid", "revoked", "unknown") and (state == "revoked") == ("revokedAt" in status), "not a status")
        must(state == "revoked" or "reason" not in status, "a reason of nothing")
        pem = Ed25519PublicKey.from_public_bytes(last).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        must(status["caPublicKey"] == pem, "the status is of another key")
        signed = canonical({name: value for name, value in status.items() if name not in ("caPublicKey", "signature")})
        verify(last, unbase64url(status["signature"]), hashlib.sha256(signed.encode()).digest())
        for action, payload, _ in self.events:
            must(action != "passport.issued" or state != "unknown", "the passport was issued")
            must(action not in ("passport.revoked", "agent.disabled") or state == "revoked", "the passport was revoked")
            then, reason = payload.get("revokedAt") if type(payload.get("revokedAt")) is str else "", canonical(payload.get("reason"))
            must(action != "passport.revoked" or then == at and reason == canonical(why), "the passport was revoked otherwise")
        self.checked.append(f"passport {status['jti']}: {state} at {status['checkedAt']}")

    def all_cosigned(self):
        must(self.cosigners == self.file["witnesses"], "the witnesses are not those who have cosigned")

    def unproven(self):
        return NOT_PROVEN + [said for said, members, others in NOT_PROVEN_OF if members & set(self.file) and not others & set(self.file)]

    def not_proven(self):
        must(self.file["notProven"] == self.unproven(), "notProven is not the list for the members of this file")

    def key(self):
        if self.fingerprint is None and self.policy is None:
            self.fingerprint = self.known.get(self.file["companyId"])
            self.is_known = self.fingerprint is not None
        must(self.fingerprint in [None, *(key["fingerprint"] for key in self.file["keys"])], "the file does not contain the key that you trust")

    def by_policy(self):
        if not self.policy:
            return
        logs, witnesses, groups, quorum = self.policy
        named = {(log["origin"], self.raw[-1]) for log in self.file["logs"]} & {(log["name"], log["raw"]) for log in logs}
        must(named, "the policy does not name the last key")
        for _, _, _, lines, body in self.notes.values():
            names = {"none", *(name for name, w in witnesses if list(cosigned_by(lines[1:], body, [w])))}
            for name, k, members in groups:
                names |= {name} if len(names & set(members)) >= k else set()
            must(quorum in names, "a checkpoint is not cosigned by a quorum of the policy")


    # the keys of an agent from the one that signed on, each endorsed by the one behind it
    def key_chain(self, entries, agent, kid):
        known, self.agent, self.audience = {}, agent, None
        actions = ("agent-key.enrolled", "agent-key.revoked")
        for action, payload, record in self.told(entries, lambda subject, action, _: subject.startswith("agent-key:") and action in actions):
            thumbprint = payload["thumbprint"]
            must(type(thumbprint) is str and thumbprint != "" and payload["subject"] == "agent-key:" + thumbprint, "not the control record of a key")
            must(payload["agentId"] == agent != "", f"control record {record['index']} is of a key of another agent")
            of = known.setdefault(thumbprint, {"revoked": []})
            if action == "agent-key.revoked":
                reason, since = payload.get("reason"), payload.get("since")
                must(reason is None or text(reason), "reason is not a text")
                must(since is None or text(since) and seconds(since) is not None, "since is not a timestamp")
                of["revoked"].append({**record, "reason": reason, "since": since})
                continue
            must("key" not in of, "a key is enrolled twice")
            for name in ("expiresAt", "enrolment", "endorsement"):
                must(payload[name] is None or type(payload[name]) is str and payload[name] != "", f"{name} has not its form")
                of[name] = payload[name]
            must(of["expiresAt"] is None or seconds(of["expiresAt"]) is not None, "expiresAt is not a timestamp")
            version = payload.get("statementVersion", 1)
            must(type(version) is int and version in (1, 2), "statementVersion is not 1 or 2")
            of.update(thumbprint=thumbprint, version=version, by=payload["by"], record=record, key=agent_key(payload["jwk"]))
            must(of["key"][0] == thumbprint, "jwk is another key than the control record says")
        chain = []
        while kid:
            must("key" in known.get(kid, {}), f"not complete: the control record of the key {kid} is not in the file")
            one = known[kid]
            chain.append(one)
            kid = ""
            if one["endorsement"]:
                endorsed = read_endorsement(one["endorsement"])
                kid, before = endorsed.kid, known.get(endorsed.kid, {})
                must("key" in before, f"not complete: the control record of the key {kid}, which signed for another one, is not in the file")
                must(before["record"]["index"] < one["record"]["index"], "a key stands before the one that signed for it")
                must(all(revoked["index"] > one["record"]["index"] for revoked in before["revoked"]), "the key that signed for another one was revoked before")
                self.named(endorsed)
                endorsed.check(before["key"])
                must(endorsed.claims["jkt"] == one["thumbprint"], "an endorsement is of another key")
                # while the key before lived, and just before the next one was enrolled
                made, at, expires = endorsed.claims["iat"] * 1000, moment(one["record"]["timestamp"]), before["expiresAt"] and moment(before["expiresAt"])
                must(expires is None or at < expires + 300_000, "the key that signed for another one had expired")
                must(made >= moment(before["record"]["timestamp"]) - 60_000 and (expires is None or made < expires), "an endorsement was not made while its key lived")
                must(at - 300_000 <= made <= at + 60_000, "an endorsement was not made when the next key was enrolled")
        must(len(chain) == len(known), "there is a control record of a key from which the signing one does not follow")
        self.chain, self.revoked = chain, min((revoked["timestamp"] for revoked in chain[0]["revoked"]), default=None)
        # when the key came into other hands, as it is known
        self.since = min((revoked for revoked in chain[0]["revoked"] if revoked["since"]), key=lambda revoked: revoked["since"], default=None)

    def named(self, jws):  # by the SPIFFE IDs of company and agent, in one trust domain
        audience, issuer = jws.claims["aud"], jws.claims["iss"]
        must(re.fullmatch("spiffe://[^/]+/company/" + re.escape(self.file["companyId"]), audience), "aud is not the SPIFFE ID of the company")
        must(issuer == f"{audience}/agent/{self.agent}", "iss is not the SPIFFE ID of the agent")
        must(self.audience in (None, audience), "aud is of another trust domain than what a key of the agent signed before")
        self.audience = audience

    def signed_by_agent(self, record):  # returns the statement
        payload, signer = record["payload"], self.chain[0]
        said = read_statement(payload["statement"])
        claims, at, kid, origin = said.claims, moment(record["timestamp"]), said.kid, self.logs["actions"]["origin"]
        must(signer["version"] == 1 or "log" in claims, "the statement does not name its log, and its key was enrolled since statements do")
        said.check(signer["key"])
        self.named(said)
        must(claims.get("log", origin) == origin, "the statement was made for another log")
        action = digest_of_parts([{name: payload[name] for name in payload if name != "statement"}]).hex()
        must(claims["action_hash"] == action, "the statement is of another action")
        authority = record.get("delegation", {}).get("tokenId", "")
        if "log" in claims and "delegation" in record:
            authority = digest_of_parts([record["delegation"]]).hex()
        must(claims.get("delegation", "") == authority, "the statement is of another delegation")
        must(-30 * 86400_000 - 300_000 <= claims["iat"] * 1000 - at <= 60_000, "the statement was not made at the time of the record")
        must(signer["record"]["timestamp"] <= record["timestamp"], f"the key {kid} was enrolled after the record")
        must(signer["expiresAt"] is None or at < moment(signer["expiresAt"]) + 300_000, f"the key {kid} expired before the record")
        must(self.revoked is None or moment(self.revoked) + 5_000 >= at, f"the key {kid} was revoked before the record")
        return said

    def whose_word(self, what):  # as far as it is known; a pin that does not fit is refused
        one, pin = self.chain[0], self.agent_key
        kid, by = one["thumbprint"], f"an admin's credential, {one['by'] or 'the service itself'}"
        if one["endorsement"]:
            by = f"the key before it, {read_endorsement(one['endorsement']).kid}"
        elif one["enrolment"]:
            by = f"the enrolment token {one['enrolment']}"
        who = f"{kid}, enrolled at {one['record']['timestamp']} by {by}"
        must(pin is None or any(key["thumbprint"] == pin for key in self.chain), f"the key that you pinned, {pin}, did not sign this, nor for the key that did: {who}")
        follows = "" if pin == kid else f": it follows from the key that you pinned, {pin}"
        self.checked.append(f"a key that the company enrolled for this agent signed {what}: {who}" if pin is None else f"the agent's own key {kid} signed {what}{follows}")

    def statement(self):
        record, given = self.file["record"], self.file.get("agentKey")
        if "statement" not in record["payload"]:
            must(self.agent_key is None, "you pinned a key of the agent, and nothing here is signed with one")
            return
        kid = read_statement(record["payload"]["statement"]).kid
        must(given, f"not complete: the control record of the key {kid} is not in the file")
        self.key_chain(given["records"], record["payload"]["agentId"], kid)
        claims = self.signed_by_agent(record).claims
        self.whose_word("this")
        self.signed_for(claims)
        if "log" not in claims and "delegation" in claims:
            self.checked.append("its statement covers the ID of the delegation alone, not what the delegation said")
        if "sid" in claims:
            self.place(claims)
        if self.is_stolen(record):
            self.checked.append(f"the key was in other hands since {self.stolen()}")

    def signed_for(self, claims):  # and what an older statement leaves open
        iss, aud = claims["iss"], claims["aud"]
        self.checked.append(f"its statement is by {iss}, for {aud} and its log {claims['log']}" if "log" in claims else
            f"its statement is by {iss}, for {aud}, and does not say which service it was made for: another one may have the same names")

    def place(self, claims):  # in a session
        self.checked.append(f"it is number {claims['seq']} of the session {claims['sid']} of that key")
        if "refused" in claims:
            count, first = len(claims["refused"]), claims["refused"][0]
            self.checked.append(f"it says that the service refused {count} earlier statements of that session, the first of them number {first['seq']} ({first['code']})")
        if "continues" in claims:
            self.checked.append(f"the session {goes_on(claims['continues'])}")

    def is_stolen(self, record):
        return self.since is not None and record["timestamp"] >= self.since["since"]

    def stolen(self):
        return f"{self.since['since']}, says its revocation" + (f" ({self.since['reason']})" if self.since["reason"] else "")

    def acts(self, record):  # names who used what was given to another one
        agent, info = record["payload"]["agentId"], record.get("delegation")
        actor = info["delegationChain"][-1] if info and info["act"] is not None and info["delegationChain"] else None
        name = f"/company/{self.file['companyId']}/agent/{agent}"
        if actor is not None and self.not_actor is None and not re.fullmatch("spiffe://[^/]+" + re.escape(name), actor):
            self.not_actor = actor
            self.checked.append(f"record {record['index']} is of the agent {agent}, and its delegation was given to {actor}")

NOT_PROVEN = [
    "That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
    "That what the payload says is true: only that the service was given it, and when by the service's clock.",
    "That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
    "That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
    "That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
    "That the root in hexProof is the chain's: compare it with one that you kept.",
]
NOT_ORDERED = "How records of the two logs follow each other but by their times."
NOT_ONCE = "That no other record has the same statement: the agent signed it once, and a second record of it would look the same."
NOT_OWN_KEY = "That the agent alone holds the key of its statement: whoever enrolled that key may hold it. Only a key that you know from the agent, and name to the checker, shows whose word this is."
NOT_PROVEN_OF = [  # and of files with one of these members, and none of those behind them
    ("That no other record of the control log bears on this one: what is missing here may stand there.", {"authority", "passport", "agentKey"}, set()),
    (NOT_ORDERED, {"agentKey"}, set()), (NOT_ONCE, {"agentKey"}, set()), (NOT_OWN_KEY, {"agentKey"}, set()),
    ("How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.", {"authority"}, {"agentKey"}),
    ("That the status of the passport is still the same: it is of the moment when it was checked.", {"status"}, set()),
]

# c2sp.org/tlog-policy: logs, witnesses by name, groups, and the name of the quorum
def read_policy(text):
    # free: may a name that stands there still become a member
    logs, witnesses, groups, quorum, free = [], [], [], None, {"none": False}
    must(len(text.encode()) <= 1 << 20 and text[-1:] in ("", "\n") and not re.search(r"[\0-\x08\x0b-\x1f\x7f]", text), "not the text of a policy")
    for line in text.split("\n"):
        keyword, *items = re.split("[ \t]+", line.strip(" \t"))
        if keyword == "" or keyword[0] == "#":
            continue
        if keyword == "log" and 1 <= len(items) <= 2:
            logs.append(read_vkey(items[0], 1))
            continue
        must(items and (keyword == "quorum" or items[0] not in free), f"not a line of a policy: {line}")
        if keyword == "witness" and 2 <= len(items) <= 3:
            witnesses.append((items[0], read_vkey(items[1], 4)))
        elif keyword == "group" and len(items) >= 3:
            name, k, *members = items
            must(re.fullmatch("all|any|[1-9][0-9]*", k) and len(set(members)) == len(members), f"not a group: {line}")
            must(all(free.get(member) for member in members), f"a member of {name} is not there, or of another group already")
            groups.append((name, {"all": len(members), "any": 1}.get(k) or int(k), members))
            must(groups[-1][1] <= len(members), f"more members than there are: {line}")
            free.update(dict.fromkeys(members, False))
        else:
            must(keyword == "quorum" and len(items) == 1 and quorum is None and items[0] in free, f"not a line of a policy: {line}")
            quorum = items[0]
            continue
        free[items[0]] = True
    must(quorum, "no line says what the quorum is")
    must(len({log["raw"] for log in logs}) == len(logs) and len({w["raw"] for _, w in witnesses}) == len(witnesses), "a key stands twice")
    return logs, witnesses, groups, quorum

SESSION_NOT_PROVEN = [
    "That the agent did nothing else: this file shows one session of one key, not what came before it, after it or beside it.",
    "That nothing followed in a session that is open: only its end, which the agent signs, shows that.",
    "That what payloads say is true: only that they were signed, and that the service was given them, and when by the service's clock.",
    *NOT_PROVEN[2:5],
    "That no other record of the control log bears on this session: what is missing here may stand there.",
    NOT_ORDERED, NOT_ONCE, NOT_OWN_KEY,
]
HEADER = {
    "format": lambda s: s == "attestd-session/v1", "companyId": company, "agentId": text, "kid": is_thumbprint,
    "sid": SESSION, "records": lambda n: number(n) and 1 <= n <= 1_000_000, "checkpoint": text,
    "logs": LOGS, "keys": KEYS, "witnesses": [text, 16], "agentKey": {"records": ENTRIES}, "notProven": [text, 10_000],
}
LINE = {"record": RECORD, "proof": [text, 60]}
LONGEST = 8 << 20  # of a line, in bytes

def is_session(line):  # by the first line of a file
    try:
        bounded(line)
        return read(line.decode()).get("format") == "attestd-session/v1"
    except Exception:
        return False

# The file of a session while it is checked; source is read line by line.
class SessionFile(Evidence):
    claims = continues = None  # of the last statement; and of the first
    # with a statement of version 1, of those with a delegation; since the key was in other hands
    older = exchanged = since_stolen = 0

    def __init__(self, source, **trust):
        super().__init__(source, **trust)
        self.places, self.calls, self.tally = Places(), Calls(), Tally()

    def steps(self):
        yield from (("MALFORMED", self.header), ("KEYS", self.keys), ("WITNESSES", self.read_witnesses), ("LOG_PROOF", self.checkpoint))
        yield from (("STATEMENT", self.whose), ("WITNESSES", self.all_cosigned), ("NOT_PROVEN", self.not_proven), ("KEY", self.key), ("POLICY", self.by_policy))
        for _ in range(self.file["records"]):
            yield from (("MALFORMED", self.next), ("RECORD", self.record), ("LOG_PROOF", self.log_proof), ("STATEMENT", self.statement))
        yield "MALFORMED", self.end

    def line(self, form, name):
        line = self.source.readline(LONGEST + 1)
        must(line.endswith(b"\n") and len(line) <= LONGEST, f"{name} is missing, or longer than {LONGEST} bytes, or has no line feed")
        bounded(line)
        value = read(line.decode())
        whole(value)
        has_form(value, form, name)
        return value

    def header(self):
        self.file = self.line(HEADER, "header")
        must(self.file["keys"], "keys is empty")
        self.opening()

    def needed(self):
        return ["actions", "control"]

    def checkpoint(self):
        self.size, self.root = self.opened(self.logs["actions"], self.file["checkpoint"])

    def whose(self):
        self.key_chain(self.file["agentKey"]["records"], self.file["agentId"], self.file["kid"])
        self.whose_word("every record of this session")

    def unproven(self):
        return SESSION_NOT_PROVEN

    def next(self):
        self.one = self.line(LINE, "line")
        must(all(len(unbase64(sibling)) == 32 for sibling in self.one["proof"]), "not a proof")

    def record(self):
        self.signed(self.logs["actions"], self.one["record"])

    def log_proof(self):
        self.included(self.logs["actions"], self.one["record"], self.one["proof"], self.size, self.root)

    def statement(self):
        f, record = self.file, self.one["record"]
        must(record["payload"]["agentId"] == f["agentId"], "a record is of another agent")
        claims = self.claims = self.signed_by_agent(record).claims
        must(claims.get("sid") == f["sid"], "a record is of another session")
        self.places.add(claims, record["index"], hashlib.sha256(record["payload"]["statement"].encode()).hexdigest())
        self.continues = self.continues or claims.get("continues")
        self.older += "log" not in claims
        self.exchanged += "log" not in claims and "delegation" in claims
        self.since_stolen += self.is_stolen(record)
        self.acts(record)
        self.calls.add(record)
        self.tally.add(self, record)

    def end(self):
        must(self.source.read(1) == b"", "there are more lines than the header says")
        f, places, say = self.file, self.places, self.checked.append
        say(f"session {f['sid']} of the agent {f['agentId']}: {f['records']} records, {self.calls.state(places.state())}")
        self.signed_for(self.claims)
        if 0 < self.older < f["records"]:
            say(f"{self.older} of its statements do not say which service they were made for: those are of the older form")
        if self.exchanged:
            say(f"{self.exchanged} of its statements cover the ID of a delegation alone, not what the delegation said")
        if self.continues:
            say(f"it {goes_on(self.continues)}")
        say("a session that goes on from this one may exist elsewhere")
        for seq, index in places.recorded:
            if index < 0:
                say(f"the service recorded number {seq}, although it had told the agent that it refused a statement of that number; whether it is the same one is not compared here")
            else:
                say(f"the service recorded number {seq}, record {index}, although it had told the agent that it refused it")
        if places.is_more:
            say("there are more numbers that the service recorded although it had told the agent that it refused them")
        if self.since_stolen:
            say(f"the key was in other hands since {self.stolen()}; {self.since_stolen} of these records are of that time")


# The summary of a file that does not fail: who did what, on whose behalf and under which right. All
# checkers print the same lines. Names of the file are JSON strings in them, and end where they end.
MOST_SHOWN = 2000  # characters of a payload, or of a delegation chain
MOST_TYPES = 10  # action types of a session

def shown(text):  # all of it, or its beginning and how long all of it is
    return text if len(text) <= MOST_SHOWN else f"the first {MOST_SHOWN:,} of {len(text):,} characters: {text[:MOST_SHOWN]}"

def counted(count):
    return f"{count} record" + "s" * (count != 1)

def company_key(checked, key):
    if checked.policy:
        return f"the company's key {key}, confirmed by the policy that you named"
    if checked.fingerprint is None:
        return f"the key {key}; that it is the company's is not confirmed"
    whose = "is stored as trusted on this machine" if checked.is_known else "you named"
    return f"the company's key {key}, " + (f"which {whose}" if key == checked.fingerprint else f"confirmed by the key that {whose}")

def agents_word(checked, is_stolen):
    if not checked.chain:
        return "none: that the agent did this is the company's word alone"
    kid, pin = checked.chain[0]["thumbprint"], checked.agent_key
    said = f"by the key {kid}, which the company enrolled for this agent; that it is the agent's own is not confirmed"
    if pin is not None:
        said = f"by the agent's own key {kid}, " + ("which you named" if pin == kid else "which follows from the one that you named")
    return said + (f"; the key was in other hands since {checked.since['since']}" if is_stolen else "")

def behalf(checked, record):
    if "delegation" not in record:
        return "nobody else: it has no delegation"
    subject, chain = record["delegation"]["subject"], record["delegation"]["delegationChain"]
    chain = chain if chain[:1] == [subject] else [subject, *chain]
    return shown(" -> ".join(map(canonical, chain))) + ("" if checked.not_actor is None else "; it was given to another one than this agent")

def rights(checked):  # whether the action was allowed is for the reader to judge: no file says that
    f, record = checked.file, checked.file["record"]
    agent = canonical(record["payload"]["agentId"])
    bearing = [event for event in checked.allowed if event[1]["subject"] == "agent:" + record["payload"]["agentId"] and event[2]["timestamp"] <= record["timestamp"]]
    if "authority" not in f:
        yield "right", f"not in this file: it has no control records about the agent {agent}"
    elif not bearing:
        yield "right", f"nothing here says that the agent {agent} was registered at that time"
    else:
        action, _, last = bearing[-1]
        yield "right", f"the latest control record here about the agent {agent} at that time is {canonical(action)}, control record {last['index']}, {last['timestamp']}"
    if "passport" in f:
        issued = [payload for action, payload, _ in checked.events if action == "passport.issued"]
        scopes = f"issued with the scopes {shown(canonical(issued[-1].get('scopes')))}" if issued else "which nothing here says was ever issued"
        yield "passport", f"{canonical(f['passport']['jti'])}, {scopes}, was {f['status']['status']} at {f['status']['checkedAt']}; nothing here says that this was done with it"

class Tally:  # what the summary of a session says of its records
    first, last, others, delegated, delegate = "", "", 0, 0, ""

    def __init__(self):
        self.types = {}

    def add(self, checked, record):
        action = record["payload"]["actionType"]
        self.first, self.last = self.first or record["timestamp"], record["timestamp"]
        if action in self.types or len(self.types) < MOST_TYPES:
            self.types[action] = self.types.get(action, 0) + 1
        else:
            self.others += 1
        if "delegation" in record:
            self.delegated += 1
            self.delegate = self.delegate or f"record {record['index']}: {behalf(checked, record)}"

    def actions(self):
        some = [f"{canonical(name)} ({count})" for name, count in self.types.items()]
        return shown(", ".join(some + [f"other types ({self.others})"] * (self.others > 0)))

def summary(checked):  # (name, text) of each line
    f = checked.file
    company = canonical(f["companyId"])
    if isinstance(checked, SessionFile):
        tally, agent, count = checked.tally, canonical(f["agentId"]), counted(f["records"])
        yield "who", f"agent {agent} of the company {company}, in its session {canonical(f['sid'])}"
        yield "signed by", company_key(checked, f["keys"][-1]["fingerprint"])
        yield "agent's signature", agents_word(checked, checked.since_stolen > 0)
        yield "what", f"{count}, {checked.calls.state(checked.places.state())}; from {tally.first} to {tally.last} by the service's clock"
        yield "actions", tally.actions()
        yield "payload", "not shown: each record has its own, in its line of the file"
        yield "on behalf of", f"{tally.delegated} of {count} have a delegation, the first of them {tally.delegate}" if tally.delegated else "nobody else: no record has a delegation"
        yield "right", f"not in this file: it has no control records about the agent {agent} but those of its key"
        return
    record, log = f["record"], checked.logs[f["log"]]
    at = len(f["keys"]) - len(log["keys"]) + checked.signer(log, record)
    is_action = f["log"] == "actions"
    yield "who", f"agent {canonical(record['payload']['agentId'])} of the company {company}" if is_action else f"the service itself, in the control log of the company {company}"
    yield "signed by", company_key(checked, f["keys"][at]["fingerprint"])
    if is_action:
        yield "agent's signature", agents_word(checked, bool(checked.chain) and checked.is_stolen(record))
    yield "what", f"{canonical(record['payload']['actionType'])}, record {record['index']} of the log {f['log']}, {record['timestamp']} by the service's clock"
    yield "payload", shown(canonical(record["payload"]["payload"]))
    if is_action:
        yield "on behalf of", behalf(checked, record)
        yield from rights(checked)

def in_words(verdict, code, reason):  # the verdict, as all checkers print it
    return f"fails: {code}: {reason}" if code else "holds" if verdict == "holds" else f"holds, {reason}"
