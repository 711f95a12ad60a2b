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
