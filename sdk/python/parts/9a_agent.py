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

class Agent:
    """An agent with its key: the credential of a Client that acts as this agent alone, and signs what it does. key is an AgentKey, or any object that signs; known are thumbprints of
    further keys of the agent. With dpop, access tokens are bound to the key (RFC 9449). alarm is told at a sign-in of each key that is not known; without it, logging is."""

    def __init__(self, key, spiffe_id, *, dpop=False, known=(), alarm=None):
        form = re.fullmatch(r"(spiffe://[^/]+/company/([^/]+))/agent/([^/]+)", spiffe_id)
        if not form:
            raise AttestdError("the SPIFFE ID of an agent must look like spiffe://example.org/company/acme/agent/bot")
        self.key, self.spiffe_id, self.dpop = key, spiffe_id, dpop
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
        return cls(AgentKey(jwk), jwk["agent"], dpop=dpop, known=jwk.get("known", ()), alarm=alarm)

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
            keys = client.list_agent_keys(self.agent_id)["keys"]
        except AttestdError as error:
            self._alarm(AttestdError(f"the keys of the agent {self.agent_id} cannot be compared with those that it knows: {error}"))
            return
        for key in keys:
            if key["thumbprint"] not in self._known:
                self._alarm(UnknownKeyError(self.spiffe_id, key))
        if self.thumbprint not in [key["thumbprint"] for key in keys]:
            self._alarm(AttestdError(f"ALARM: the service's list of the keys of the agent {self.spiffe_id} lacks its own key {self.thumbprint}"))

    def _headers(self, bearer, method, url):  # of a request with a token
        token = bearer.get("Authorization", "")[7:]
        return {"Authorization": f"DPoP {token}", "DPoP": _proof(self.key, method, url, token, self._nonce)} if self.dpop and token else bearer

    def _sign(self, prepared, sid=None, seq=0, previous=None, end=False):
        """What the agent signs of an attestation that is ready, added to it: (prepared, statement)."""
        body = read(prepared.text)
        if body["agentId"] != self.agent_id:
            raise PayloadError("/agentId", f"must be {self.agent_id}: an agent signs what it does itself")
        action = canonical({"actionType": body["actionType"], "agentId": body["agentId"], "companyId": self.company_id, "payload": body["payload"]})
        claims = {"iss": self.spiffe_id, "aud": self._parent, "iat": int(time.time()), "action_hash": hashlib.sha256(action.encode()).hexdigest(),
                  "jti": _new_key() if prepared.made else _statement_id(prepared.key)}
        if body.get("delegation"):
            claims["delegation"] = _token_id(body["delegation"])
        if sid is not None:
            claims.update({"sid": sid, "seq": seq}, **({"prev": previous} if seq else {}), **({"end": True} if end else {}))
        statement = self._jws("agent-statement+jwt", claims)
        return _Prepared(f'{prepared.text[:-1]},"statement":"{statement}"}}', "", False), statement

    def _says(self, statement, prepared, end):
        """Whether a statement says what the agent would sign of an attestation now, but for the time and the place."""
        body, claims = read(prepared.text), _part_of(statement, 1)
        action = canonical({"actionType": body["actionType"], "agentId": body["agentId"], "companyId": self.company_id, "payload": body["payload"]})
        delegation = _token_id(body["delegation"]) if body.get("delegation") else None
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

def _token_id(token):  # jti of a token that is not checked here: the service checks it
    try:
        return _part_of(token, 1)["jti"]
    except (ValueError, LookupError, TypeError):
        raise PayloadError("/delegation", "is no token with a jti") from None

def _is_refused(error):
    """Whether an append certainly had no effect: the service refuses it for what it is."""
    return isinstance(error, ServiceError) and not error.repeated and not error.operation.endswith("/v1/oauth/token") and (
        error.code == "STATEMENT_REUSED" or error.status in (400, 403, 413, 422) and error.code not in ("FORBIDDEN_ROLE", "FORBIDDEN_AGENT", "COMPANY_SUSPENDED"))

class Session:
    """One run of an agent: its statements are numbered, and each names the one before, so that nothing can be taken out unseen. It sends one at a time and ends with the process;
    a session of a Spool goes on after a crash, and while the service is away."""

    def __init__(self, client, id=None):
        self._client, self._agent, self.id = client, _agent_of(client), id or _new_key()
        self._lock, self._seq, self._previous, self._ended, self._unsettled = threading.Lock(), 0, None, False, None

    def attest(self, actionType, payload, *, delegation=None, idempotencyKey=None, end=False):
        """Signs an action at the next place, and appends its record; with end, the last one of the session. After a ConnectionLost its outcome is unknown: the next call first sends
        the same statement again. One that the service refuses has no place."""
        with self._lock:
            if self._unsettled:
                signed, key = self._unsettled
                record = self._client._attest(signed)
                self._unsettled = None
                if key and key == idempotencyKey:
                    return record
            if self._ended:
                raise AttestdError("the session has ended")
            prepared = _prepare({"agentId": self._agent.agent_id, "actionType": actionType, "payload": payload, "delegation": delegation, "idempotencyKey": idempotencyKey})
            signed, statement = self._agent._sign(prepared, self.id, self._seq, self._previous, end)
            try:
                record = self._client._attest(signed)
            except AttestdError as error:
                if not _is_refused(error):
                    self._unsettled = signed, idempotencyKey
                    self._advance(statement, end)
                raise
            self._advance(statement, end)
            return record

    def _advance(self, statement, end):
        self._seq, self._previous, self._ended = self._seq + 1, hashlib.sha256(statement.encode()).hexdigest(), end

def _agent_of(client):
    if not isinstance(client._credential, Agent):
        raise AttestdError("a session needs an agent's key: give the client an Agent as its credential")
    return client._credential

class SpoolSession:
    """A session of a spool. What is signed is on disk with its place before it is sent, so a process that is killed leaves no hole in the numbers and uses none twice. One process
    has a session at a time, its threads included, and the next one goes on where it was. Where another process that lives has the session, and after its end, this one is under
    the ID with "~" and the time. While a statement waits, the same action under the same idempotencyKey is the same statement."""

    def __init__(self, spool, id):
        if not re.fullmatch("[A-Za-z0-9._-]{1,100}", id):
            raise AttestdError("the ID of a session must have 1 to 100 characters of A-Z, a-z, 0-9, '.', '_' and '-'")
        self._spool, self._agent, self._lock, self._signed = spool, _agent_of(spool.client), threading.Lock(), None
        name, taken, shared = _take_places(spool.folder / "sessions", self._agent.thumbprint, id)
        # what was signed last may be nowhere else; to send it twice makes no second record
        for _, state in taken:
            if state.get("item") and state.get("at", 0) > (time.time() - 29 * 86400) * 1000:
                spool._add_text(state["item"], False)
        last = taken[-1][1] if taken else None
        if last and not last.get("end") and not shared:
            self._state = {**last, "item": None}
        else:
            self._state = {"sid": f"{id}~{int(time.time() * 1000)}" if last or shared else id, "seq": 0}
        self._name = name
        self._place(self._state)
        for former, _ in taken:
            (spool.folder / "sessions" / former).unlink(missing_ok=True)

    @property
    def id(self):
        return self._state["sid"]

    def add(self, actionType, payload, *, delegation=None, idempotencyKey=None):
        """Signs an action at the next place. It returns when that is synced; a flush sends it."""
        self._next(actionType, payload, delegation, idempotencyKey, False)

    def attest(self, actionType, payload, *, delegation=None, idempotencyKey=None, end=False):
        """As add, and sends it; with end, the last one of the session. Returns {"queued": False, "record": …} or, where there is no answer, {"queued": True}. What the service
        refuses is raised."""
        signed, statement, name, before = self._next(actionType, payload, delegation, idempotencyKey, end)
        try:
            record = self._spool.client._attest(signed)
        except AttestdError as error:
            if not _is_refused(error):
                return {"queued": True}
            # it has no place, unless another has one after it; then a flush sets it apart
            with self._lock:
                if before and self._state.get("previous") == hashlib.sha256(statement.encode()).hexdigest():
                    self._place(before)
                    self._state = before
                    self._spool._remove(name)
            raise
        self._spool._remove(name)
        return {"queued": False, "record": record}

    def _next(self, actionType, payload, delegation, key, end):
        prepared = _prepare({"agentId": self._agent.agent_id, "actionType": actionType, "payload": payload, "delegation": delegation, "idempotencyKey": key})
        with self._lock:
            if self._signed:
                self._spool._add_text(self._signed, False)
                self._signed = None
            waiting = None if prepared.made else self._spool._waiting((self._agent.thumbprint, _statement_id(key)))
            if waiting:
                name, text, statement = waiting
                if not self._agent._says(statement, prepared, end):
                    raise AttestdError("the idempotency key is that of another action, which waits")
                return _Prepared(text, "", False), statement, name, None
            before = self._state
            if before.get("end"):
                raise AttestdError("the session has ended")
            signed, statement = self._agent._sign(prepared, before["sid"], before["seq"], before.get("previous"), end)
            now = {"sid": before["sid"], "seq": before["seq"] + 1, "previous": hashlib.sha256(statement.encode()).hexdigest(), "end": end, "item": signed.text, "at": int(time.time() * 1000)}
            self._place(now)
            self._state, self._signed = now, signed.text
            name = self._spool._add_text(signed.text, False)
            self._signed = None
            return signed, statement, name, {**before, "item": None}

    def _place(self, state):
        text = json.dumps({name: value for name, value in state.items() if value is not None}, separators=(",", ":"))
        self._spool._put("sessions", self._name, f"{hashlib.sha256(text.encode()).hexdigest()} {text}")

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

def _take_places(folder, thumbprint, id):
    """Takes over the places of a session that processes have left, the newest last, by renaming the files, so that of many one gets each: the name of a new file, the (name, state) of
    those, and whether another process may have the session."""
    session = hashlib.sha256(f"{thumbprint}\n{id}".encode()).hexdigest()[:32]
    new_name = lambda: f"{session}.{_HOST}-{os.getpid()}-{secrets.token_hex(6)}"
    taken, shared = [], False
    for left in os.listdir(folder):
        of, _, owner = left.partition(".")
        if of != session:
            continue
        if _is_held(owner):
            shared = True
            continue
        name = new_name()
        try:
            os.rename(folder / left, folder / name)
        except FileNotFoundError:  # another was first
            shared = True
            continue
        checksum, _, text = (folder / name).read_text("utf-8").partition(" ")
        if hashlib.sha256(text.encode()).hexdigest() == checksum:
            taken.append((name, json.loads(text)))
        else:  # the disk has changed it
            shared = True
    return new_name(), sorted(taken, key=lambda one: one[1].get("at", 0)), shared
