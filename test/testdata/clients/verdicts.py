# The verdicts of the Python client on cases.json: a list with "" for what it accepts, and else why not. python3 verdicts.py CASES
import json, sys
from pathlib import Path
from attestd import AttestdError, Keys, verify_inclusion, verify_passport, verify_proof, verify_record, verify_status, verify_token

given = json.loads(Path(sys.argv[1]).read_text())

def pin(text):
    key = json.loads(text)
    return Keys(text, [{}, *key.get("keys", [key])][-1].get("fingerprint"))

keys = pin(json.dumps(given["key"]))
checks = {
    "key": lambda case: pin(case["text"]),
    "record": lambda case: verify_record(case["text"], keys),
    "proof": lambda case: verify_proof(case["text"], keys),
    "inclusion": lambda case: verify_inclusion(case["text"], keys),
    "status": lambda case: verify_status(case["text"], keys, case["jti"]),
    "passport": lambda case: verify_passport(case["text"], keys),
    "token": lambda case: verify_token(case["text"], keys),
}

def verdict(case):
    try:
        checks[case["kind"]](case)
        return ""
    except AttestdError as refused:
        return repr(refused)

json.dump([verdict(case) for case in given["cases"]], sys.stdout)
