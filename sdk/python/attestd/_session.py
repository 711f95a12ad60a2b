"""Sessions of an agent."""
from __future__ import annotations

import hashlib, re, threading, time
from dataclasses import dataclass, replace

from ._agent import _agent_of
from ._errors import AttestdError, ServiceError
from ._jose import _b64, _part_of, _sha256, _statement_id
from ._routes import _either
from ._text import _new_key, _prepare

def _is_refused(error):
    """Whether an append certainly had no effect: the service refuses it for what it is."""
    return isinstance(error, ServiceError) and not error.repeated and not error.foreign and not error.operation.endswith("/v1/oauth/token") and (
        error.code == "STATEMENT_REUSED" or error.status in (400, 403, 413, 422) and error.code not in ("FORBIDDEN_ROLE", "FORBIDDEN_AGENT", "COMPANY_SUSPENDED"))

@dataclass(frozen=True)
class _Next:
    """The place of the next statement of a session, and what it names: refused are places that the service has refused and no statement has named, continues is the last statement of the
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
    def attest(self, action_type, payload, *, delegation=None, decide=False, folder=None, passport=None, idempotency_key=None, end=False):
        """Signs an action at the next place, and appends its record; with end, the last one of the session. After a ConnectionLost its outcome is unknown: the next call first sends
        the same statement again. The place of one that the service refuses stays used, and the next statement names it."""
        with self._lock:
            if self._unsettled:
                key = self._unsettled[2]
                record = self._send(*self._unsettled)
                if key and key == idempotency_key:
                    return record
            prepared = _prepare({"agentId": self._agent.agent_id, "actionType": action_type, "payload": payload, "delegation": delegation, "decide": decide, "folder": folder, "passport": passport, "idempotencyKey": idempotency_key})
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
