# Signs in one session until it is killed, and flushes meanwhile; each tenth attestation has a delegation that the service refuses. python3 session.py KEYFILE URL FOLDER MODE DELEGATION;
# with "end" for MODE it sends all that is left, and ends the session.
import itertools, sys, threading
from attestd import Agent, AttestdError, Client, RefusedError, Retry, ServiceError, Spool

key_file, url, folder, mode, foreign = sys.argv[1:]
spool = Spool(folder, Client(url, Agent.read(key_file, dpop=True), retry=Retry(times=0)))
session = spool.session("shared")
if mode == "end":
    try:
        spool.flush()
    except RefusedError as error:  # the end names what was refused
        if error.__cause__:
            raise
    session.attest("end", True, end=True)
    spool.flush()
    sys.exit(spool.pending())

def flush():
    try:
        spool.flush()
    except AttestdError:
        pass

for n in itertools.count():
    try:
        session.attest("count", n, delegation=foreign if n % 10 == 3 else None)
    except ServiceError:
        pass
    session.add("count", {"n": n}, delegation=foreign if n % 10 == 7 else None)
    if n % 5 == 0:
        threading.Thread(target=flush, daemon=True).start()
