# Prints what the Python client's table says of each operation.
import json
from attestd import OPERATIONS

print(json.dumps({name: {"call": r.call, "status": r.status, "query": list(r.query) or None, "header": list(r.header) or None, "members": list(r.members) or None} for name, r in OPERATIONS.items()}))
