"""Agents and their keys."""

import hashlib, json, logging, os, re, threading, time
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

from ._compare import _delegation_claim
from ._errors import (
    AttestdError, MissingCryptography, OtherLogError, PayloadError, ServiceError, UnknownKeyError, _wants_nonce,
)
from ._jose import _b64, _jws, _part_of, _proof, _public_jwk, _statement_id, _thumbprint
from ._routes import OPERATIONS
from ._text import _new_key, _Prepared
from .check import canonical, read, unbase64url, visible

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
        if type(log) is not str:  # an older service
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
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
    return [private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw), private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())]

def _agent_of(client):
    if not isinstance(client._credential, Agent):
        raise AttestdError("a session needs an agent's key: give the client an Agent as its credential")
    return client._credential
