"""Whether the record in an answer is that of what was sent."""

import functools

from ._errors import PRUNED_DECISION, PayloadError
from ._jose import _part_of, _sha256
from .check import canonical, digest_of_parts, must, strings

# The record in an answer is that of what was sent, or there is none to believe in.

def _differs(record, sent, company, person):
    """What in a record is not what was sent; None where all of it is. company is None where it is not known; person says that the credential may be an access token of an agent that has
    signed in for a person, whom its records then name as their delegation. Of a record whose payload was pruned since, the hash is compared in place of the payload."""
    token, delegation = sent.get("delegation"), record.get("delegation")
    expected = _delegation_or_none(token) if token else None
    of_person = not token and person and type(delegation) is dict and "#" in str(delegation.get("subject"))
    if (not _same(delegation, expected) or bool(token) != bool(expected)) and not of_person:
        return "delegation"
    if record.get("pruned") is True and sent.get("decide"):
        return PRUNED_DECISION  # which the hash covers
    if record.get("pruned") is True:
        return None if company is not None and _hash_of(record, sent, company) == record["hash"] else "hash"
    payload = record["payload"]
    for name in ("agentId", "actionType", "statement", "payload"):
        if (name in payload) != (name in sent) or not _same(payload.get(name), sent.get(name)):
            return name
    if sent.get("decide") and "decision" not in payload:
        return "decision"
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

def _delegation_claim(token, log):
    info = _delegation_of(token)
    return _sha256(canonical(info)) if log else info["tokenId"]
