"""Checks without the service, with keys of which one is pinned."""

import base64, hashlib, json, time

from ._errors import AttestdError, MissingCryptography, VerificationError
from .check import (
    check_details, check_inclusion, check_key, check_life, check_record, check_signature, check_status, covers, Ed25519PublicKey, Evidence,
    is_thumbprint, must, Pruned, read, read_policy, token_keys, unbase64url,
)

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
    """Checks that a record is, byte for byte in its canonical form, what the company's key has signed. Where its payload was pruned, the hash cannot be recomputed: then the code of the
    VerificationError is PRUNED, once the signature over the hash was found to be the company's."""
    with _step("RECORD"):
        check_record(_given(record), keys.of(log), log)

def verify_proof(proof, keys, *, log="actions", root=None):
    """Checks an answer of get_proof: the record as verify_record does, and that it leads to the root, which is returned. That root proves something if it is compared with one that
    was stored earlier: give that as root. Where all of this holds and the payload was pruned, the code of the VerificationError is PRUNED."""
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
        must(root in (None, found), "the root is not the one that you gave")
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
        if "authorization_details" in own:
            check_details(own["authorization_details"])
    if passport:
        _demand("UNSUPPORTED_VERSION", body.get("v") == 1)
        _demand("CHAIN_INCOHERENT", body["delegationChain"][-1:] == [own["sub"]])
    return own

def verify_passport(passport, keys, *, tool=None, arguments=None, service="service"):
    """As verify_token, of a passport alone. With tool, one of its scopes must cover tool:<tool>, and its authorization details, if it has any, a call with these arguments: JSON as text, or
    what json.loads makes of it. Returns its claims and the first scope that covers the tool or, without tool, the broadest."""
    claims = verify_token(passport, keys, service=service)
    _demand("WRONG_TOKEN_TYPE", type(claims.get(service)) is dict)
    scopes, wide = claims[service]["scopes"], lambda scope: (scope != "*", not scope.endswith(":*"))
    fit = sorted(scopes, key=wide) if tool is None else [scope for scope in scopes if scope in ("*", "tool:*", f"tool:{tool}")]
    _demand("SCOPE_DENIED", fit)
    text = arguments.decode() if isinstance(arguments, bytes) else arguments if arguments is None or isinstance(arguments, str) else json.dumps(arguments)
    _demand("DETAILS_DENIED", tool is None or "authorization_details" not in claims or covers(claims["authorization_details"], tool, text))
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
