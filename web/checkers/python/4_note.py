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
