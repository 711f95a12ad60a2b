# Gets tokens for others, and renews them before their end. python3 tokens.py URL KEY
import json, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from attestd import Client, Retry, ServiceError

url, credential = sys.argv[1:]
with Client(url, credential, retry=Retry(times=0)) as client:
    for alg in "ES256", "RS256", "EdDSA":
        made = client.token("https://mcp.example", agentId="bot", alg=alg)
        kids = [key["kid"] for key in client.get_token_keys("acme")["keys"] if key["alg"] == alg]
        print(alg, len(kids), made["tokenType"])
    asked, fails, lock = [], False, threading.Lock()

    def issue(agentId, **given):
        with lock:
            asked.append(given)
        if fails:
            raise client_error
        return {"token": f"t{len(asked)}", "tokenType": "t", "expiresAt": ""}

    try:
        client.token("a", agentId="ghost")
    except ServiceError as error:
        client_error = error
    client.create_agent_token = issue
    clock, ahead = time.monotonic, 0
    time.monotonic = lambda: clock() + ahead
    get = lambda audience="a": client.token(audience, agentId="bot")["token"]
    with ThreadPoolExecutor(20) as pool:
        said = sorted(set(pool.map(lambda _: get(), range(20))))
    said.append(get(["b", "c"]))
    ahead = 230
    said.append(get())
    ahead = 245
    said.append(get())
    fails = True
    ahead = 245 + 270
    said.append(get())
    ahead = 245 + 299
    try:
        said.append(get())
    except ServiceError as error:
        said.append(str(error.status))
    print(" ".join(said))
