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
