"""What an agent signs with its key: compact JWS, thumbprints, DPoP proofs."""

import base64, hashlib, json, re, time

from ._errors import AttestdError
from ._text import _new_key
from .check import unbase64url

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

def _sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()
