# The verdicts of check.py on evidence.json: a list with "holds", "self-consistent", "fails <code>", or "usage" where the policy is none.
import base64, json, sys
from pathlib import Path
from check import Evidence, read_policy

def verdict(case):
    trust = {"fingerprint": case["key"]} if case["key"] else {}
    if case["policy"]:
        try:
            trust = {"policy": read_policy(case["policy"])}
        except Exception:
            return "usage"
    said, code, _ = Evidence(base64.b64decode(case["file"]), **trust).verdict()
    return f"{said} {code}".strip().replace(" only", "")

json.dump([verdict(case) for case in json.loads(Path("evidence.json").read_text())], sys.stdout)
