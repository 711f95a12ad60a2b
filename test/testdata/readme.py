# Calls the functions of the README's check.py on what is genuine and on what was changed. Prints how many it accepted and refused.
import copy, time
from pathlib import Path
from check import canonical, check_key, check_passport, check_proof, check_record, check_status, read

def load(name):
    return read(Path(name).read_text(encoding="utf-8"))

key = load("key.json")
other = {**key, "pem": load("other.json")["pem"]}
genuine = refused = 0

def accept(check, *args):
    global genuine
    genuine += 1
    return check(*args)

def refuse(check, *args):
    global refused
    try:
        check(*args)
    except Exception:
        refused += 1
    else:
        raise SystemExit(f"{check.__name__} accepts {args}")

def changed(value, *path, to):
    value = copy.deepcopy(value)
    at = value
    for name in path[:-1]:
        at = at[name]
    assert at[path[-1]] != to
    at[path[-1]] = to
    return value

def flipped(text, at):  # another character of base64url or hex
    return text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1:]

assert check_key(key) == key["fingerprint"]
refuse(check_key, other)

records = load("chain.json")["records"]
for record in records:
    accept(check_record, record, key)
r = next(record for record in records if "delegation" in record)
refuse(check_record, r, other)
refuse(check_record, changed(r, "index", to=99), key)
refuse(check_record, changed(r, "timestamp", to="2026-01-01T00:00:00.000Z"), key)
refuse(check_record, changed(r, "payload", "agentId", to="other-bot"), key)
refuse(check_record, changed(r, "payload", "payload", "branch", to="other"), key)
refuse(check_record, changed(r, "delegation", "subject", to="spiffe://attestd.local/company/other"), key)
refuse(check_record, {k: v for k, v in r.items() if k != "delegation"}, key)
refuse(check_record, changed(r, "signature", to=flipped(r["signature"], 5)), key)

evidence = load("proof.json")
accept(check_proof, evidence, key)
refuse(check_proof, evidence, other)
refuse(check_proof, changed(evidence, "root", to="0" * 64), key)
refuse(check_proof, changed(evidence, "record", "hash", to="0" * 64), key)
for step in range(len(evidence["proof"])):
    refuse(check_proof, changed(evidence, "proof", step, "sibling", to="0" * 64), key)

passport = Path("PASSPORT").read_text()
claims = accept(check_passport, passport, key)
assert claims["service"]["agentId"] == "git-bot" and claims["service"]["scopes"] == ["tool:git"]
refuse(check_passport, passport, other)
refuse(check_passport, passport, key, "other:passport:v1")
for part in range(3):
    parts = passport.split(".")
    parts[part] = flipped(parts[part], 10)
    refuse(check_passport, ".".join(parts), key)
now, time.time = time.time, lambda: claims["exp"]
refuse(check_passport, passport, key)
time.time = now

jti = claims["jti"]
for name in "valid", "revoked":
    answer = load(name + ".json")
    assert accept(check_status, answer, key, jti) == name
    refuse(check_status, answer, other, jti)
    refuse(check_status, answer, {**key, "companyId": "other"}, jti)
    refuse(check_status, answer, key, "38be31cd-3890-4ed4-9098-302122d4bea2")
    refuse(check_status, changed(answer, "status", to="unknown"), key, jti)
    refuse(check_status, changed(answer, "signature", to=flipped(answer["signature"], 5)), key, jti)
    now, time.time = time.time, lambda now=time.time(): now + 400
    refuse(check_status, answer, key, jti)
    assert check_status(answer, key, jti, max_age=3600) == name
    time.time = now

print(canonical({"refused": refused, "genuine": genuine}))
