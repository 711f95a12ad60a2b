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

# of a rotation: with whole fingerprints, or in the form of before, with the kids alone
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
    exactly(payload, ("agentId", "companyId", "actionType", "payload") + ("log",) * (log == "control"), ("statement",) * (log == "actions"))
    must(payload.get("log", "actions") == log, "the record is of another log")
    strings(payload["agentId"], payload["actionType"], payload.get("statement", ""))
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

class Pruned(ValueError):  # of a record whose hash the company has signed, and nobody can recompute
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
    return claims

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
