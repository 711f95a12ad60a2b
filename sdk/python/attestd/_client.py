"""The client of one service."""
from __future__ import annotations

import http.client, json, sys, threading, time
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import quote

from ._agent import Agent
from ._compare import _differs
from ._errors import (
    AttestdError, ConnectionLost, NotApprovedError, _object, PayloadError, _place, RecordMismatchError, _service_error, ServiceError,
    _wants_nonce,
)
from ._jose import _proof, _public_jwk, _thumbprint
from ._operations import _Operations
from ._routes import _arrange, _bound, _either, OPERATIONS
from ._session import Session
from ._stream import _messages, _upgrade
from ._text import _header_key, _prepare
from ._transport import _Connections, _end, MAX_ANSWER, OAuth, _parts, _refusal, Retry
from .check import must

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
    def attest(self, agent_id, action_type, payload, *, delegation=None, decide=False, folder=None, passport=None, idempotency_key=None):
        """Appends a record and returns it, once it is on the service's disk: once, however often it had to be sent. A RecordMismatchError says that the record in the answer is not of
        this attestation."""
        return self._attest(_prepare({"agentId": agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "decide": decide, "folder": folder, "passport": passport, "idempotencyKey": idempotency_key}))

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
        """Appends up to 1,000 records, all or none, and returns them in order. Each attestation is a dict with agentId, actionType, payload and perhaps delegation, decide, folder, passport and idempotencyKey. The
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

    @_either
    def ask(self, agent_id, tool, arguments, *, action_type=None, call_id=None, expires_in=None, reason=None, timeout=None):
        """Asks people to approve a call, and returns when one has: then record the call with decide, which uses the approval. Where the call must not be made it raises a NotApprovedError,
        also when it is pending after timeout seconds. The same call again, also of another process, finds its approval. Without a timeout it waits until the request expires."""
        approval = self.request_approval(agent_id, tool, arguments, action_type=action_type, call_id=call_id, expires_in=expires_in, reason=reason)
        approval = self._decided(approval, timeout)
        if approval["state"] != "approved":
            raise NotApprovedError(approval)
        return approval

    @_either
    def await_approval(self, approval_id, *, timeout=None):
        """Returns an approval when it is no longer pending, whatever its state is then, or after timeout seconds."""
        return self._decided(self.get_approval(approval_id), timeout)

    def _decided(self, approval, timeout):
        """Asks about an approval until it is decided, also while the service is away, for as long as the approval is not over."""
        ends, again, n = time.monotonic() + (sys.maxsize if timeout is None else timeout), Retry(times=sys.maxsize, min=1.0, max=8.0), 0
        over = time.monotonic() + datetime.strptime(approval["expiresAt"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp() - time.time()
        while approval["state"] == "pending" and time.monotonic() < ends:
            began = time.monotonic()
            try:
                # 55 s is what the service holds an answer for; a short deadline has none held
                wait = max(0, int(min(55, self._connections.timeout - 5, ends - began)))
                approval, n, pause = self.get_approval(approval["approvalId"], wait=wait), 0, 1.0 - (time.monotonic() - began)
            except AttestdError as error:
                pause = again._wait(min(n, 8), error, True)
                if pause is None or began > over:
                    raise
                n += 1
            if approval["state"] == "pending":
                time.sleep(max(0.0, min(pause, ends - time.monotonic())))
        return approval

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
        """Carries out an operation by its name in the reference and returns the bytes of its answer, for a caller that stores them: those of evidence, for example."""
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

@dataclass(frozen=True)
class _Rate:
    """The service's last answer about its limit on attestations: how many in a window (0 for no
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
