# Attests in a session under a key of the caller's, or without one: FILE URL FOLDER ID N [KEY] prints what the statement says of its place and of others, or the code of a refusal. With "" for
# FOLDER the session is one in memory.
import base64, json, sys
from attestd import Agent, Client, Retry, ServiceError, Spool

file, url, folder, id, n, *key = sys.argv[1:]
with Client(url, Agent.read(file), retry=Retry(times=0)) as client:
    session = Spool(folder, client).session(id) if folder else client.session(id)
    try:
        answer = session.attest("count", int(n), idempotencyKey=key[0] if key else None)
    except ServiceError as error:
        print(json.dumps({"code": error.code, "id": session.id}))
    else:
        claims = json.loads(base64.urlsafe_b64decode(answer.get("record", answer)["payload"]["statement"].split(".")[1] + "=="))
        said = {name: claims[name] for name in ("sid", "seq", "refused", "continues") if name in claims}
        print(json.dumps({**said, "id": session.id, "last": session.last}))
