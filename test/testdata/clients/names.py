# Prints which of some names are no methods of the Python clients. python3 names.py NAME...
import json, sys
from attestd import AsyncClient, Client

print(json.dumps([name for name in sys.argv[1:] if not callable(getattr(Client, name, None)) or not callable(getattr(AsyncClient, name, None))]))
