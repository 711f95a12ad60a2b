# The verdicts of check.py on evidence.json: a list with "holds", "self-consistent", "fails <code>", or "usage" where the policy is none; and whether what is to be said was.
import base64, io, json, sys
from pathlib import Path
from check import opened_file, read_policy

def verdict(case):
    trust = {"fingerprint": case["key"]} if case["key"] else {}
    if case["policy"]:
        try:
            trust = {"policy": read_policy(case["policy"])}
        except Exception:
            return "usage"
    if case["agentKey"]:
        trust["agent_key"] = case["agentKey"]
    if case["approvers"]:
        trust["approver_keys"] = case["approvers"]
    checked = opened_file(io.BytesIO(base64.b64decode(case["file"])), **trust)
    said, code, _ = checked.verdict()
    text = "\n".join(checked.checked)
    heard = "" if not case["says"] else " said" if all(says in text for says in case["says"]) else " not said"
    return f"{said} {code}".strip() + heard

json.dump([verdict(case) for case in json.loads(Path("evidence.json").read_text())], sys.stdout)
