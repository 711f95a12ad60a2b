# Opinions of check.py, in the folder that is named, on the files of standard input.
import base64, io, json, sys
sys.path.insert(0, sys.argv[1])
from check import opened_file

def opinion(file, key, pin):
    checked = opened_file(io.BytesIO(base64.b64decode(file)), fingerprint=key, **({"agent_key": pin} if pin else {}))
    said, code, _ = checked.verdict()
    return {"verdict": f"{said} {code}".strip(), "said": checked.checked}

json.dump([opinion(**given) for given in json.load(sys.stdin)], sys.stdout)
