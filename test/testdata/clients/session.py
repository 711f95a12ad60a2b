# Signs in one session until it is killed, and flushes meanwhile. python3 session.py KEYFILE URL FOLDER MODE; with "end" for MODE it ends the session, and sends all that is left.
import itertools, sys, threading
from attestd import Agent, AttestdError, Client, Retry, Spool

key_file, url, folder, mode = sys.argv[1:]
spool = Spool(folder, Client(url, Agent.read(key_file, dpop=True), retry=Retry(times=0)))
session = spool.session("shared")
if mode == "end":
    session.attest("end", True, end=True)
    spool.flush()
    sys.exit(spool.pending())

def flush():
    try:
        spool.flush()
    except AttestdError:
        pass

for n in itertools.count():
    session.attest("count", n)
    session.add("count", {"n": n})
    if n % 5 == 0:
        threading.Thread(target=flush, daemon=True).start()
