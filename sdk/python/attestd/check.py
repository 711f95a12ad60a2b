# check.py checks what an attestd has signed, without it. It needs Python 3.8 and the package
# cryptography, for Ed25519.
#
#   python3 check.py FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]
#     a file of GET /v1/evidence/{index}, or of a session: GET /v1/sessions/{agentId}/{sid}
#   python3 check.py proof.json key.json
#     a proof, and the answer of GET /v1/ca/public-key(s)
#
# It prints the verdict first. Exit status: 0 "holds", 4 "fails", 5 "holds, key not confirmed" (no
# key and no policy was given, and attestd trust has stored no key of the company), 2 no verdict: a
# mistake of typing, a file that it does not read, or no package cryptography; 1 the stored keys
# cannot be relied on.
#
# It is one file that imports nothing of the Python client, which uses its functions, too.
import base64, bisect, hashlib, io, itertools, json, math, os, re, stat, sys, time
from datetime import datetime
from decimal import Decimal
try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
except ImportError as missing:
    if __name__ == "__main__":
        print(f"check.py needs the Python package cryptography ({missing}). Install it:\n\n    python3 -m pip install cryptography\n\n"
              "or, on Debian and Ubuntu, apt-get install python3-cryptography. check.mjs needs Node alone.", file=sys.stderr)
        sys.exit(2)
    # the client of this name works without it, and says so before it checks a signature
    if not (__package__ or "").endswith("attestd"):
        raise
    Ed25519PublicKey = None

# ---- Strict JSON, canonical form and digests ----

def must(ok, message):  # not assert, which python3 -O leaves out
    if not ok:
        raise ValueError(message)

def read(text):  # strict JSON: no name twice, and no number that a double does not keep
    def unique(members):
        must(len(dict(members)) == len(members), "a name is duplicated")
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

# ---- Company keys, records, proofs, passports and statuses ----

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

# of a rotation: with whole fingerprints, or in the older form, with the kids alone
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
    exactly(payload, ("agentId", "companyId", "actionType", "payload") + ("log",) * (log == "control"), ("statement", "decision") * (log == "actions"))
    must(payload.get("log", "actions") == log, "the record is of another log")
    strings(payload["agentId"], payload["actionType"], payload.get("statement", ""))
    if "decision" in payload:
        has_form(payload["decision"], DECISION, "payload.decision")
        must(nesting(payload["decision"]) <= 64, "payload.decision is nested too deep")
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

class Pruned(ValueError):  # of a record whose hash is signed and cannot be recomputed
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
    if "authorization_details" in claims:  # covers() says whether they cover a call
        check_details(claims["authorization_details"])
    return claims

# Authorization details (RFC 9396), as the reference describes them.

TOOL, POINTER = re.compile(r"\*|[!-)+-~]{1,128}"), re.compile("(/([^~/]|~[01])*)*")
SCHEME, ODD = re.compile("[A-Za-z][A-Za-z0-9+.-]*://"), re.compile(r"[\\\x00-\x1f\x7f-\x9f]|%(2e|2f|5c|25|7f|[01][0-9a-f])", re.I)
SCALAR = lambda value: type(value) in (str, int, float, bool, type(None))
NUMBER = lambda value: type(value) in (int, float)
OPERATORS = {
    "equals": SCALAR, "in": lambda values: type(values) is list and values and all(map(SCALAR, values)), "max": NUMBER, "min": NUMBER,
    "absent": lambda value: value is True,
    "prefix": lambda value: type(value) is str and value and is_clean(value) and (not SCHEME.match(value) or "/" in SCHEME.sub("", value, count=1)),
}

def is_clean(path):  # read in one way alone
    path = SCHEME.sub("", path, count=1) if SCHEME.match(path) else path
    segments = path.split("/")
    whole = (segment.strip(". ") if segment else i in (0, len(segments) - 1) for i, segment in enumerate(segments))
    return not ODD.search(path) and all(whole)

# details as read() gives them: a right with a limit that is not understood is none without
def check_details(details):
    must(type(details) is list and details and len(canonical(details).encode()) <= 8 << 10, "not authorization details")
    for entry in details:
        exactly(entry, ("type", "tools"), ("arguments",))
        must(entry["type"] == "tool_call" and type(entry["tools"]) is list and entry["tools"], "not authorization details")
        must(all(type(tool) is str and TOOL.fullmatch(tool) for tool in entry["tools"]), "not a name of a tool")
        arguments = entry.get("arguments", {"": {"equals": 0}})
        must(type(arguments) is dict and arguments, "not arguments")
        for pointer, tests in arguments.items():
            must(POINTER.fullmatch(pointer) and type(tests) is dict and tests, "not a test of an argument")
            must(all(name in OPERATORS and OPERATORS[name](value) for name, value in tests.items()), "not an operator that we know")
            must(len(tests) == 1 or "absent" not in tests, "an operator is beside absent")

class Scalar:  # a value of a call, or of details, of which equal ones are ==
    def __init__(self, value):
        if isinstance(value, (int, float)) and type(value) is not bool:
            value = Decimal(repr(value))
        self.number = value if type(value) is Decimal else None
        self.of = (type(value), value)

    def __eq__(self, other):
        return self.of == other.of

def exact_number(digits):  # never rounded; None as number where the power is beyond bounds
    mantissa, _, power = digits.lower().partition("e")
    if not re.search("[1-9]", mantissa):
        return Decimal(0)
    return Decimal(digits) if len(power.lstrip("+-0")) <= 7 and abs(int(power or 0)) <= 1_000_000 else ()

def read_arguments(text):  # strict JSON, with the numbers as they are
    def unique(members):
        must(len(dict(members)) == len(members), "a name is duplicated")
        return dict(members)
    bounded(text.encode())
    return json.loads(text, object_pairs_hook=unique, parse_int=exact_number, parse_float=exact_number, parse_constant=lambda _: must(False, "not JSON"))

def strings_in(value):
    if type(value) is str:
        yield value
    for inner in value if type(value) is list else [*value, *value.values()] if type(value) is dict else ():
        yield from strings_in(inner)

ABSENT = object()

def at_pointer(value, pointer):
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if type(value) is dict:
            value = value.get(name, ABSENT)
        elif type(value) is list and re.fullmatch("0|[1-9][0-9]{0,8}", name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return ABSENT
    return value

def holds(operator, want, value):
    if value is ABSENT or operator == "absent":
        return value is ABSENT and operator == "absent"
    if operator == "prefix":
        return type(value) is str and value.startswith(want) and is_clean(value)
    if type(value) in (list, dict, tuple):
        return False
    value = Scalar(value)
    if operator in ("equals", "in"):
        return any(Scalar(one) == value for one in (want if operator == "in" else [want]))
    if value.number is None:
        return False
    return value.number <= Scalar(want).number if operator == "max" else value.number >= Scalar(want).number

# whether details, once checked, cover a call; arguments are its JSON text, None where they are not
# known
def covers(details, tool, arguments=None):
    named = [entry for entry in details if tool and (tool in entry["tools"] or "*" in entry["tools"])]
    if any("arguments" not in entry for entry in named):
        return True
    if arguments is None:
        return False
    try:
        value = read_arguments(arguments)
        "".join(strings_in(value)).encode()  # no lone surrogate
    except (ValueError, RecursionError):
        return False
    return any(all(holds(name, want, at_pointer(value, pointer)) for pointer, tests in entry["arguments"].items() for name, want in tests.items()) for entry in named)

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

# ---- The form of an evidence file ----

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
filled, entries = (lambda s: type(s) is str and s), (lambda value: type(value) is list and value and all(map(text, value)))
DECISION = {
    "verdict": lambda s: type(s) is str and s in ("allow", "deny", "ask"), "policies": text, "revision": number, "by": [text, math.inf], "errors?": entries,
    "code?": filled, "passport?": filled, "approval?": filled,
    "context": {"door": text, "time": text, "delegation?": entries, "details?": lambda value: type(value) is list and value, "folder?": filled, "groups?": entries, "person?": filled, "scopes?": entries, "signed?": lambda signed: signed is True},
}
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
    "delegation?": anything, "agentKey?": {"records": ENTRIES}, "passport?": {"jti": uuid, "records": ENTRIES}, "status?": STATUS, "authority?": {"records": ENTRIES}, "policies?": {"records": ENTRIES}, "passports?": {"records": ENTRIES},
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

def nesting(value):  # how deep it is
    inside = value.values() if type(value) is dict else value if type(value) is list else None
    return 0 if inside is None else 1 + max(map(nesting, inside), default=0)

def whole(value):  # no lone surrogate
    if type(value) is str:
        must(not re.search("[\ud800-\udfff]", value), "a lone surrogate")
    for inside in itertools.chain(value, value.values()) if type(value) is dict else value if type(value) is list else ():
        whole(inside)

# ---- Tool calls that ran although they were refused ----

# what records say of calls of tools; the other two are outcomes, as completed is
CALL_KINDS = {"tool.requested": "requests", "tool.denied": "refusals", "tool.completed": "outcomes", "tool.failed": "outcomes", "tool.ended": "outcomes", "otel.tool": "outcomes"}
# the sources of hooks, by the names of telemetry
HOOKS = {"claude_code.": "claude-code", "codex.": "codex"}

# whether telemetry says that a tool has succeeded, and the source of the agent's hooks
def ran(call):
    name, attributes, status = call.get("name"), call.get("attributes"), call.get("status")
    hooks = next((HOOKS[begin] for begin in HOOKS if type(name) is str and name.startswith(begin)), None)
    success = attributes.get("success") if type(attributes) is dict else None
    return success is True or success == "true" or not hooks and type(status) is dict and status.get("code") == "ok", hooks

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
        says, hooks = ran(call) if payload["actionType"] == "otel.tool" else (True, None)
        parts = call.get("source"), call.get("sessionId", ""), call.get("callId")
        if not says or not all(type(part) is str for part in parts) or not 0 < len(parts[2].encode()) < 256 or "[masked]" in parts[2]:
            return
        key = payload["agentId"], hooks or parts[0], *parts[1:]
        if key not in self.calls and len(self.calls) == self.MOST_CALLS:
            del self.calls[next(iter(self.calls))]
        # a refusal less for each request that its decision refused: that says it, too
        state = self.calls.setdefault(key, {"requests": 0, "refusals": 0, "refused": None, "done": None, "found": False})
        is_refused = kind == "requests" and payload.get("decision", {}).get("verdict", "allow") != "allow"
        if is_refused:
            state["refusals"] -= 1
        elif kind != "outcomes":
            state[kind] += 1
        elif state["done"] is None:
            state["done"] = index
        if is_refused or kind == "refusals":
            state["refused"] = index
        if not state["found"] and None not in (state["refused"], state["done"]) and state["requests"] <= max(0, state["refusals"]):
            state["found"] = True
            self.count += 1
            self.found += [(state["refused"], state["done"])][:self.MOST_NAMED - len(self.found)]

    def state(self, rest):  # of a session that otherwise has the state rest
        if not self.count:
            return rest
        calls = "; ".join(f"refused at record {refused}, done at record {done}" for refused, done in self.found)
        more = f"; and {self.count - len(self.found)} more" if self.count > len(self.found) else ""
        return f"disobeyed: {calls}{more}; {rest}"

# ---- Signed notes: signatures and cosignatures of checkpoints ----

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

# ---- Places of statements in a session ----

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

# ---- Statements and endorsements ----

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

# control records about passports, with what their subjects begin with
PASSPORTS = {"passport.issued": "passport", "passport.revoked": "passport", "agent.disabled": "agent"}

# the names under which scopes and details may cover the tool that a record calls, and its arguments
def called_as(action, payload):
    own = payload if type(payload) is dict else {}
    string = lambda of, name: of[name] if type(of.get(name)) is str else ""
    tool, server, given = string(own, "tool"), string(own, "server"), "input" if "input" in own else "arguments"
    is_call = tool != ""
    if is_call and not server and tool.startswith("mcp__") and "__" in tool[5:]:
        server, _, tool = tool[5:].partition("__")
    if not is_call:
        resource = own.get("resource") if type(own.get("resource")) is dict else {}
        if action not in ("authorization.denied", "authorization.allowed") or own.get("action") != "call" or resource.get("type") != "tool":
            return [], None
        tool, given = string(resource, "id"), "arguments"
    tool = f"{server}/{tool}" if server and is_call else tool
    before, slash, after = tool.partition("/")
    names = [tool, *([after] if slash else []), *([f"mcp__{before}__{after}"] if slash and is_call else [])]
    return names, canonical(own[given]) if given in own else None

# ---- The checks of an evidence file ----

class Evidence:  # a file while it is checked
    # known has fingerprints of companies' keys: of them one counts without fingerprint and policy
    def __init__(self, source, fingerprint=None, policy=None, agent_key=None, known=None):
        self.source, self.fingerprint, self.policy, self.agent_key = source, fingerprint, policy, agent_key
        self.known, self.is_known = known or {}, False
        self.checked, self.notes, self.cosigners, self.events = [], {}, [], []
        self.chain, self.allowed = [], []
        # of policies: whether the file has them, their changes, and the last set that these made
        self.begun, self.revisions, self.changes, self.set = False, [], [], (None, 0, "")
        self.held = {}  # passports that decisions may name, by their IDs
        # how many decisions there are, by what one was made, and why none was made again
        self.decisions, self.decided_by, self.reasons = 0, "", {}
        self.not_actor = None  # of a record whose delegation was given to another one

    def steps(self):
        yield from (("MALFORMED", self.form), ("KEYS", self.keys), ("RECORD", self.record), ("HEX_PROOF", self.hex_proof), ("WITNESSES", self.read_witnesses))
        yield from (("LOG_PROOF", self.log_proof), ("DELEGATION", self.delegation), ("STATEMENT", self.statement), ("AUTHORITY", self.authority))
        yield from (("PASSPORT", self.passport), ("STATUS", self.status), ("DECISION", self.decision), ("WITNESSES", self.all_cosigned), ("NOT_PROVEN", self.not_proven))
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
        self.entries = [entry for member in ("agentKey", "passport", "authority", "policies", "passports") for entry in f.get(member, {}).get("records", [])]
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
        must(len(set(self.raw)) == count, "a key is listed twice")
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
        must(len({w["raw"] for w in self.witnesses}) == len(self.witnesses), "a witness is listed twice")

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

    # ---- Control records and what follows from them ----

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

    # ---- Decisions, and the policies that made them ----

    # the changes of policies in the file
    def policies(self):
        given = self.file.get("policies")
        self.begun = given is not None
        about = lambda subject, action, _: subject == "policies" and action in ("policy.put", "policy.deleted")
        for action, payload, record in self.told(given["records"] if given else [], about):
            name, revision, sets, source, index = payload["policyId"], payload["revision"], payload["set"], payload.get("cedar", ""), record["index"]
            must(text(name) and re.fullmatch("[A-Za-z0-9._-]{1,64}", name) and hexadecimal(64)(sets), f"control record {index} does not name a policy and a set")
            must(number(revision) and revision > (self.revisions[-1] if self.revisions else 0), f"the revision of control record {index} is not above the one before")
            digest = None if action == "policy.deleted" else hashlib.sha256(source.encode()).hexdigest()
            must(text(source) and text(payload.get("sha256", "")) and digest in (None, payload.get("sha256")), f"control record {index} has not the SHA-256 of its text")
            self.revisions.append(revision)
            self.changes.append((moment(record["timestamp"]), name, digest, sets))
        self.passports()

    # the passports in the file by which records may have been decided
    def passports(self):
        given = self.file.get("passports", {}).get("records", [])
        for action, payload, record in self.told(given, lambda subject, action, _: PASSPORTS.get(action) == subject.partition(":")[0]):
            at, index, (_, _, name) = moment(record["timestamp"]), record["index"], payload["subject"].partition(":")
            if action != "passport.issued":
                for one in [one for jti, one in self.held.items() if name == (jti if action == "passport.revoked" else one["agent"])]:
                    one.setdefault("revoked", at)
                continue
            agent, scopes, ends, details = (payload.get(member) for member in ("agentId", "scopes", "expiresAt", "authorizationDetails"))
            must(name not in self.held, f"the passport of control record {index} is issued twice")
            must(text(agent) and agent and type(scopes) is list and scopes and len(scopes) <= 10_000 and all(map(text, scopes)), f"control record {index} does not name the agent and the scopes of the passport")
            must(number(ends) and ends <= 253402300799, f"control record {index} does not name the end of the passport")
            if "authorizationDetails" in payload:
                check_details(details)
            self.held[name] = {"agent": agent, "scopes": scopes, "ends": ends * 1000, "issued": at, "details": details}

    # whether a decision fits the passport that it names, where the file has that
    def by_passport(self, record, made):
        held, payload, at = self.held.get(made.get("passport")), record["payload"], moment(record["timestamp"])
        if held is None:
            return
        names, arguments = called_as(payload["actionType"], payload["payload"])
        scoped = not {"*", "tool:*", *("tool:" + name for name in names)}.isdisjoint(held["scopes"])
        says = f"the decision of record {record['index']} names a passport that "
        must(held["agent"] == payload["agentId"], says + "is of another agent")
        must(held["issued"] - at <= 5000, says + "was issued later")
        if made["verdict"] == "deny":
            return must(made.get("code") != "SCOPE_DENIED" or not names or not scoped, says + "has a scope for it")
        must(at - held.get("revoked", at) <= 5000, says + "was revoked before")
        must(at - held["ends"] <= 5000, says + "had expired")
        must(not names or scoped, says + "has no scope for it")
        covered = held["details"] is None or any(covers(held["details"], name, arguments) for name in names)
        must(not names or covered, says + "has no authorization details that cover it")

    def decision(self):
        made = self.file["record"]["payload"].get("decision")
        must("policies" not in self.file or made is not None, "policies are there, and the record has no decision")
        must("passports" not in self.file or "passport" in (made or {}), "passports are there, and the record has no decision that names one")
        self.policies()
        self.decided(self.file["record"])
        self.say_decisions()

    # whether the control records make the set of policies that a decision names; the rules
    # themselves are not evaluated here
    def decided(self, record):
        made = record["payload"].get("decision")
        if made is None:
            return
        self.decisions += 1
        self.by_passport(record, made)
        revision, at, index, code = made["revision"], moment(record["timestamp"]), record["index"], made.get("code", "")
        ends = bisect.bisect_right(self.revisions, revision)
        must(ends == len(self.changes) or at - self.changes[ends][0] <= 5000, f"the decision of record {index} was made by policies that had ended")
        if revision > 0 and not self.begun:
            return self.not_again(f"the file does not have the policies of revision {revision}")
        must(revision == 0 or ends > 0 and self.revisions[ends - 1] == revision, f"no control record here made revision {revision} of the policies, by which record {index} was decided")
        begins, sets = (self.changes[ends - 1][0], self.changes[ends - 1][3]) if ends else (at, made["policies"])
        must(begins - at <= 5000, f"the decision of record {index} was made by policies that began later")
        if self.set[0] != revision:
            sums = {name: digest for _, name, digest, _ in self.changes[:ends]}
            sums = {name: digest for name, digest in sums.items() if digest}
            self.set = revision, len(sums), hashlib.sha256(canonical(sums).encode()).hexdigest()
        must(self.set[2] == made["policies"] == sets, f"the control records here do not make the set of policies by which record {index} was decided")
        said = made["verdict"] + (f" by {shown(', '.join(made['by']))}" if made["by"] else "")
        said += (f"; with errors: {shown(', '.join(made['errors']))}" if "errors" in made else "") + (f" ({code})" if code not in ("", "POLICY_DENIED") else "")
        self.decided_by = f"decided by the {self.set[1]} polic{'y' if self.set[1] == 1 else 'ies'} in force, revision {revision}: {said}"
        follows = code in ("", "POLICY_DENIED", "DECISION_ERROR", "DETAILS_DENIED")
        self.not_again("the rules were not evaluated here" if follows else f"denied with {canonical(code)}, which does not follow from policies")

    def not_again(self, why):
        why = why if why in self.reasons or len(self.reasons) < 10 else "for other reasons"
        self.reasons[why] = self.reasons.get(why, 0) + 1

    def say_decisions(self):
        count = self.decisions
        if count == 1 and self.decided_by:
            self.checked.append(self.decided_by)
        for why in sorted(self.reasons):
            self.checked.append(f"not decided again: {why}" if count == 1 else f"{self.reasons[why]} of {count} decisions not decided again: {why}")

    # ---- The agent's keys and statements ----

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
                must(before["record"]["index"] < one["record"]["index"], "a key comes before the one that signed for it")
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
        action = digest_of_parts([{name: payload[name] for name in payload if name not in ("statement", "decision")}]).hex()
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

# ---- What a file does not prove, and policies ----

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
    ("That no other record of the control log bears on this one: what is missing here may stand there.", {"authority", "passport", "agentKey", "policies", "passports"}, set()),
    (NOT_ORDERED, {"agentKey"}, set()), (NOT_ONCE, {"agentKey"}, set()), (NOT_OWN_KEY, {"agentKey"}, set()),
    ("How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.", {"authority"}, {"agentKey"}),
    ("That the status of the passport is still the same: it is of the moment when it was checked.", {"status"}, set()),
]

# c2sp.org/tlog-policy: logs, witnesses by name, groups, and the name of the quorum
def read_policy(text):
    # free: may a name there still become a member
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
    must(len({log["raw"] for log in logs}) == len(logs) and len({w["raw"] for _, w in witnesses}) == len(witnesses), "a key is listed twice")
    return logs, witnesses, groups, quorum

# ---- The checks of a session file ----

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
    "logs": LOGS, "keys": KEYS, "witnesses": [text, 16], "agentKey": {"records": ENTRIES}, "policies?": {"records": ENTRIES}, "passports?": {"records": ENTRIES}, "notProven": [text, 10_000],
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
        yield from (("STATEMENT", self.whose), ("DECISION", self.policies), ("WITNESSES", self.all_cosigned), ("NOT_PROVEN", self.not_proven), ("KEY", self.key), ("POLICY", self.by_policy))
        for _ in range(self.file["records"]):
            yield from (("MALFORMED", self.next), ("RECORD", self.record), ("LOG_PROOF", self.log_proof), ("STATEMENT", self.statement))
            yield "DECISION", self.line_decision
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

    def line_decision(self):
        self.decided(self.one["record"])

    def end(self):
        must(self.source.read(1) == b"", "there are more lines than the header says")
        f, places, say = self.file, self.places, self.checked.append
        say(f"session {f['sid']} of the agent {f['agentId']}: {f['records']} records, {self.calls.state(places.state())}")
        self.say_decisions()
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

# ---- Summary and verdict in words ----

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

# ---- Kinds of files ----

# What a file is, and who checks it. A file of another kind than this checker reads may be as
# genuine as any: it gets no verdict. Package filekind is the reference of this part.
KINDS = {
    "evidence": ("evidence of a record", "attestd check, check.py, check.mjs, verifier.html and the page Proof of the console check it"),
    "session": ("the file of a session", "attestd check, check.py, check.mjs and verifier.html check it"),
    "report": ("a report", "attestd check, attestd report and the page Report of the console check it"),
    "archive": ("an archive", "attestd check checks it, by itself"),
    "lines": ("a file of exported lines", "attestd check --lines checks it"),
    "proof": ("a proof", "check.py and check.mjs check it, with a file of the company's keys after it"),
    "record": ("a record", "functions of check.py and check.mjs check it, with the company's keys; GET /v1/evidence/{index} is a file about it that attestd check reads"),
    "status": ("the status of a passport", "functions of check.py and check.mjs check it, with the company's keys"),
    "passport": ("an answer with a passport", "functions of check.py and check.mjs check it, with the company's keys; the page Passports of the console checks the token in it"),
    "token": ("a token", "functions of check.py and check.mjs check a passport, with the company's keys, and the page Passports of the console"),
    "keys": ("a file of a company's keys", "check.py and check.mjs take it after a proof"),
    "checkpoint": ("a checkpoint", "the page Checkpoints of the console checks it; with GET /v1/log/{logId}/consistency, attestd check --newer compares it with an older file"),
    "consistency": ("the proof that a log goes on", "attestd check --newer takes it, with an older file"),
    "tlog-proof": ("a tlog-proof", "tools of c2sp.org check it; GET /v1/evidence/{index} has it in a file that attestd check reads"),
    "saved": ("evidence that an earlier console saved", "the page Proof of the console checks it"),
}
BEGIN = 8 << 20  # bytes of a file that count
BY_FORM = [
    ("tlog-proof", re.compile(rb"c2sp\.org/tlog-proof@v1\n")), ("consistency", re.compile(rb"old (0|[1-9][0-9]*)\n")),
    ("checkpoint", re.compile(rb"[^{\n]+\n(0|[1-9][0-9]*)\n[A-Za-z0-9+/]{43}=\n")),
]
TOKEN = re.compile(rb"[ \t\r\n]*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+[ \t\r\n]*")
BY_FORMAT = {"attestd-evidence/v1": "evidence", "attestd-session/v1": "session", "attestd-report/v1": "report"}
# the type of a file's first line
BY_TYPE = {"archive": "archive", "record": "lines", "checkpoint": "lines", "opening": "lines", "keys": "lines"}
BY_MEMBERS = [
    ("proof", {"record", "proof", "root"}), ("record", {"index", "timestamp", "payload", "hash", "signature"}), ("status", {"jti", "status", "checkedAt", "signature"}),
    ("passport", {"passport", "caPublicKey"}), ("keys", {"keys", "origin"}), ("keys", {"keys", "fingerprint"}),
]

def kind_of(begin):  # of a file, by its first BEGIN bytes; "" where it is of no kind
    is_whole = len(begin) < BEGIN
    for kind, form in BY_FORM:
        if form.match(begin):
            return kind
    if is_whole and TOKEN.fullmatch(begin):
        return "token"
    line, feed, _ = begin.partition(b"\n")
    if not feed and not is_whole:
        return ""
    at = line.find(b"{")
    kind = kind_of_object(line[at:]) if 0 <= at <= 1024 else ""
    if kind and (at == 0 or kind == "lines"):
        return kind
    return kind_of_object(begin) if is_whole and feed else ""

def kind_of_object(text):
    try:
        bounded(text)
        value = read(text.decode())
        whole(value)
    except Exception:
        return ""
    if type(value) is not dict:
        return ""
    inside = value.get("unmapped")
    carried = inside.get("attestd") if type(inside) is dict else None
    if "class_uid" in value and type(carried) is dict and kind_of_format(carried) == "lines":
        return "lines"
    if "format" in value:
        return kind_of_format(value)
    if value.get("type") == "attestd-evidence":
        return "saved"
    return next((kind for kind, names in BY_MEMBERS if names <= value.keys()), "")

def kind_of_format(value):
    known = value.get("format")
    if known == "attestd-lines/v1":
        known = value.get("type")
        return BY_TYPE.get(known, "") if type(known) is str else ""
    return BY_FORMAT.get(known, "") if type(known) is str else ""

class NotRead(Exception):
    """A file is of a kind that this checker does not read, or not there."""

def must_be(name, begin, *kinds):
    kind = kind_of(begin)
    if kind and kind not in kinds:
        raise NotRead(f"{name} is {': '.join(KINDS[kind])}")

# ---- Trusted keys ----

# The keys of companies that this machine trusts, which attestd trust stores, are lines
# "COMPANY SHA256:…". Who can change or replace their file could choose the keys.
MOST_KNOWN = 64 << 10  # bytes of the file

def known_file():  # its path, or None without a configuration folder
    of = os.environ.get
    if os.name == "nt":
        folder = of("AppData")
    elif sys.platform == "darwin":
        folder = of("HOME") and of("HOME") + "/Library/Application Support"
    elif of("XDG_CONFIG_HOME"):
        folder = of("XDG_CONFIG_HOME") if os.path.isabs(of("XDG_CONFIG_HOME")) else None
    else:
        folder = of("HOME") and of("HOME") + "/.config"
    return os.path.abspath(os.path.join(folder, "attestd", "trusted-keys")) if folder else None

# no other user, root aside, can change what is at a path, or a folder above it
def must_be_own(path, above=False, links=0):
    if os.name != "posix":  # elsewhere no mode says so
        return
    found = os.lstat(path)
    must(found.st_uid in (0, os.geteuid()), f"{path} belongs to another user")
    if stat.S_ISLNK(found.st_mode):
        must(links < 40, f"{path}: too many links")
        must_be_own(os.path.abspath(os.path.join(os.path.dirname(path), os.readlink(path))), above, links + 1)
    else:
        is_shared = found.st_mode & 0o022 and not (above and found.st_mode & stat.S_ISVTX)
        must(not is_shared, f"others can write {path} (mode {stat.S_IMODE(found.st_mode):o}), and so change which keys are trusted; chmod go-w")
    if os.path.dirname(path) != path:
        must_be_own(os.path.dirname(path), True, links)

def known_keys():  # the fingerprint of each company; raises NotUsable
    path = known_file()
    if path is None:
        return {}
    try:
        # to open a pipe would wait
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            must(stat.S_ISREG(os.fstat(file.fileno()).st_mode), f"{path} is not a regular file")
            must_be_own(path)
            source = file.read(MOST_KNOWN + 1)
        must(len(source) <= MOST_KNOWN, f"{path} has more than {MOST_KNOWN} bytes")
        return parse_known(path, source)
    except FileNotFoundError:
        return {}
    except Exception as refused:
        raise NotUsable(str(refused))

def parse_known(path, source):
    keys = {}
    for at, line in enumerate(source.split(b"\n"), 1):
        words = [word.decode("latin-1") for word in line.split()]
        if not words or words[0].startswith("#"):
            continue
        must(len(words) == 2 and company(words[0]) and is_fingerprint(words[1]),
             f"{path}: line {at} is not a company and the fingerprint of a key: {canonical(' '.join(words))}")
        must(words[0] not in keys, f"{path}: line {at}: {words[0]} has two keys; remove the one that is not the company's")
        keys[words[0]] = words[1]
    return keys

def is_fingerprint(key):
    return re.fullmatch("SHA256:[A-Za-z0-9_-]{43}", key)

class NotUsable(Exception):
    """The file of trusted keys is there, and cannot be relied on."""

# ---- Command line ----

# escapes what would move, reverse or add to what a terminal shows; half a surrogate pair becomes
# U+FFFD
def printable(text):
    text = re.sub("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", str(text))
    return re.sub("[\ud800-\udfff]", "\ufffd", text)

def opened_file(file, **trust):  # of one record, or of a session
    start = file.readline(LONGEST)
    if is_session(start):
        return SessionFile(io.BufferedReader(Rest(start, file)), **trust)
    source = bytearray(start)
    while len(source) <= 64 << 20 and (part := file.read(1 << 20)):
        source += part
    return Evidence(source, **trust)

class Rest(io.RawIOBase):  # a file after its start, which was read, with that start
    def __init__(self, start, file):
        self.start, self.file = io.BytesIO(start), file

    def readable(self):
        return True

    def readinto(self, room):
        part = self.start.read(len(room)) or self.file.read(len(room))
        room[:len(part)] = part
        return len(part)

OPTIONS = {"--key": "a fingerprint", "--policy": "a file", "--agent-key": "a thumbprint"}
USAGE = "usage: check.py FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]\n       check.py PROOF KEYS"

def typed(arguments):  # the files and the options, as --name VALUE or --name=VALUE
    files, given, rest = [], {}, iter(arguments)
    for argument in rest:
        if not argument.startswith("-") or argument == "-":
            files.append(argument)
            continue
        name, is_set, value = argument.partition("=")
        must(name in OPTIONS, f"{name} is no option")
        must(name not in given, f"{name} is given twice")
        value = value if is_set else next(rest, "")
        must(value and not value.startswith("--"), f"{name} needs {OPTIONS[name]}, as {name} VALUE")
        given[name] = value
    must(not {"--key", "--policy"} <= given.keys(), "--key and --policy exclude each other")
    must(len(files) == 1 or len(files) == 2 and not given, f"{len(files)} files are named")
    return files, given

def say(*lines):  # each is data until its unprintable characters are escaped
    print("\n".join(map(printable, lines)))

def refuse(reason, status=2, *more):  # no verdict
    print(printable(reason), *more, sep="\n", file=sys.stderr)
    return status

def main(arguments):
    for stream in (sys.stdout, sys.stderr):
        # what a terminal has no character for is no reason to stop
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if arguments in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    try:
        files, given = typed(arguments)
    except Exception as mistake:
        return refuse(mistake, 2, USAGE)
    try:
        if len(files) == 2:
            return check_alone(*files)
        known = {} if given.keys() & {"--key", "--policy"} else known_keys()
        file = open(files[0], "rb")
        begin = file.read(BEGIN)
        must_be(files[0], begin, "evidence", "session")
        evidence = opened_file(io.BufferedReader(Rest(begin, file)), known=known)
        if "--key" in given:
            must(is_fingerprint(given["--key"]), "a fingerprint is SHA256: and 43 characters of base64url")
            evidence.fingerprint = given["--key"]
        if "--policy" in given:
            evidence.policy = read_policy(open(given["--policy"], encoding="utf-8", newline="").read())
        if "--agent-key" in given:
            must(is_thumbprint(given["--agent-key"]), "a thumbprint of an agent's key is 43 characters of base64url")
            evidence.agent_key = given["--agent-key"]
    except NotUsable as refused:
        return refuse(refused, 1)
    except Exception as refused:
        return refuse(refused)
    verdict, code, reason = evidence.verdict()
    says = [] if code else [f"{name}: {text}" for name, text in summary(evidence)]
    unproven = [] if code else [f"not proven: {line}" for line in evidence.file["notProven"]]
    say(in_words(verdict, code, reason), *says, *(f"checked: {line}" for line in evidence.checked), *unproven)
    return {"holds": 0, "fails": 4}.get(verdict, 5)

def check_alone(*names):  # a proof, with a file of the company's keys
    sources = [open(name, "rb").read((64 << 20) + 1) for name in names]
    for name, source, kind in zip(names, sources, ("proof", "keys")):
        must_be(name, source[:BEGIN], kind)
    try:
        proof, key = (read(text_of(source)) for source in sources)
        root, whose = check_inclusion(proof, key), check_key(key)
    except Exception as refused:
        say(f"fails: {refused or type(refused).__name__}")
        return 4
    record, keys = proof["record"], whose if isinstance(whose, str) else ", ".join(whose)
    is_pruned, place = "pruned" in record, f"record {record['index']}, below the chain root {root}"
    if is_pruned:
        say("pruned: what the record said cannot be checked. Its hash is signed, and in the log", f"what: {place}")
    else:
        payload = record["payload"]
        say("holds, key not confirmed: compare a fingerprint below with one that you have from elsewhere",
            f"who: agent {canonical(payload['agentId'])} of the company {canonical(payload['companyId'])}",
            f"what: {canonical(payload['actionType'])}, {place}, {record['timestamp']} by the service's clock",
            f"payload: {shown(canonical(payload['payload']))}",
            f"on behalf of: {behalf(Evidence(b''), record)}", "right: not in this file")
    say(f"signed by: a key of the file of keys, which has {keys}")
    return 5 if is_pruned else 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
