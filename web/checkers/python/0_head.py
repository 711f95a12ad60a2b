# check.py checks what an attestd has signed, without it. It needs Python 3.8 and the package
# cryptography, for Ed25519.
#
#   python3 check.py FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]
#     a file of GET /v1/evidence/{index}, or of a session: GET /v1/sessions/{agentId}/{sid}
#   python3 check.py proof.json key.json
#     a proof, and the answer of GET /v1/ca/public-key(s)
#
# Exit status: 0 it holds, 4 it fails, 5 it is self-consistent only (no key and no policy was
# given), 2 usage.
import base64, hashlib, io, itertools, json, re, sys, time
from datetime import datetime
from decimal import Decimal
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
