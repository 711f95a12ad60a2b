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
