# Adds attestations to a spool, and prints the number of each once it is safe there; flushes meanwhile. python3 spool.py URL KEY FOLDER FIRST; with "flush" for FIRST
# it sends what is left and ends.
import itertools, sys, threading
from attestd import Client, Spool

url, key, folder, first = sys.argv[1:]
spool = Spool(folder, Client(url, key))
if first == "flush":
    spool.flush()
    sys.exit(spool.pending())
for n in itertools.count(int(first)):
    spool.add("bot", "count", n)
    print(n, flush=True)
    if n % 5 == 0:
        threading.Thread(target=spool.flush, daemon=True).start()
