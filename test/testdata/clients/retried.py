# Attests in a session of a spool, under a key of the caller's: FILE URL FOLDER KEY N prints what
# becomes of it, as queued, a record's index or a refusal, and of the flush after it.
import json
import sys
import attestd

file, url, folder, key, n = sys.argv[1:]
client = attestd.Client(url, attestd.Agent.read(file), retry=attestd.Retry(1, 0.001, 0.001))
spool = attestd.Spool(folder, client)
session = spool.session("one")
said = []
for _ in range(2):
    try:
        answer = session.attest("count", int(n), idempotencyKey=key)
        said.append("queued" if answer["queued"] else str(answer["record"]["index"]))
    except attestd.ServiceError as error:
        said.append(error.code)
    except attestd.AttestdError as error:
        said.append(type(error).__name__)
try:
    spool.flush()
except attestd.AttestdError:
    said.append("left")
client.close()
print(json.dumps(said))
