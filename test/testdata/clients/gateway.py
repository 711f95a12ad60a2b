# Attests behind a gateway that answers some requests itself, and prints what came of it: python3
# gateway.py KEYFILE URL KEY FOLDER ROUND go | end. end sends what is left, and ends the session.
import json, sys
from attestd import Agent, AttestdError, Client, RefusedError, Retry, Spool

key_file, url, key, folder, round_, mode = sys.argv[1:]
retry = Retry(1, 0.0, 0.001)
clients = Client(url, key, retry=retry), Client(url, Agent.read(key_file, dpop=True), retry=retry)
unsigned, signed = Spool(f"{folder}/{round_}-unsigned", clients[0]), Spool(f"{folder}/{round_}", clients[1])
session = signed.session(round_)
refused = []

def flush(spool):
    try:
        spool.flush()
    except RefusedError as error:
        refused.extend(reason for _, reason in error.refused)
    except AttestdError:
        pass

for n in range(18 if mode == "go" else 0):
    unsigned.attest("bot", "a.b", f"{round_} u-sent {n}")
    unsigned.add("bot", "a.b", f"{round_} u-added {n}")
    session.attest("a.b", f"{round_} sent {n}")
    session.add("a.b", f"{round_} added {n}")
    flush(unsigned)
    flush(signed)
if mode == "end":
    session.attest("a.b", f"{round_} end 0", end=True)
    unsigned.flush()
    signed.flush()
print(json.dumps({"pending": unsigned.pending() + signed.pending(), "refused": refused}))
for client in clients:
    client.close()
