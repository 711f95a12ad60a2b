# Prints the hash of what a record will say of the delegation of each token in a JSON list, or "" of what is none: python3 delegation.py TOKENS
import json, sys
from attestd import PayloadError
from attestd._compare import _delegation_claim

def hash_of(token):
    try:
        return _delegation_claim(token, "any log")
    except PayloadError:
        return ""

print(json.dumps([hash_of(token) for token in json.loads(sys.argv[1])]))
