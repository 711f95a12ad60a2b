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
import base64, hashlib, io, itertools, json, os, re, stat, sys, time
from datetime import datetime
from decimal import Decimal
try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
except ImportError as missing:
    if __name__ != "__main__":
        raise
    print(f"check.py needs the Python package cryptography ({missing}). Install it:\n\n    python3 -m pip install cryptography\n\n"
          "or, on Debian and Ubuntu, apt-get install python3-cryptography. check.mjs needs Node alone.", file=sys.stderr)
    sys.exit(2)
