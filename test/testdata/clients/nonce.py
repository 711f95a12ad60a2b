# Signs in as an agent and attests where each proof has to repeat a nonce, and counts the requests. python3 nonce.py URL KEY SPIFFE-ID
import json, random, sys
from email.message import Message
from attestd import Agent, AgentKey, Client, Retry, ServiceError, generate_agent_key

url, credential, spiffe_id = sys.argv[1:]
key = AgentKey(generate_agent_key("ES256"))
with Client(url, credential) as admin:
    admin.enrol_key("bot", key)

counts, never = {}, False
NAMES = {"/v1/oauth/token": "sign-in", "/v1/agents/bot/keys": "keys", "/v1/attest": "attest"}
agent = Agent(key, spiffe_id, dpop=True)
client = Client(url, agent, retry=Retry(times=0))
connections = client._connections
really_opens, really_reads = connections.open, connections.whole

def opens(operation, path, headers, body, kept=False):
    name = NAMES.get(path, "lines")
    counts[name] = counts.get(name, 0) + 1
    return really_opens(operation, path, headers, body, kept)

def reads(operation, path, headers, body, safe):
    if not never:
        return really_reads(operation, path, headers, body, safe)
    name, said = NAMES[path], Message()
    counts[name] = counts.get(name, 0) + 1
    said["DPoP-Nonce"] = str(random.random())
    connections.heard(said)
    if name == "sign-in":
        return 400, said, b'{"error":"use_dpop_nonce"}'
    return 401, said, b'{"error":"Unauthorized","code":"USE_DPOP_NONCE"}'

connections.open, connections.whole = opens, reads

def count(f):
    counts.clear()
    f()
    return ", ".join(f"{name} {n}" for name, n in counts.items())

def attest():
    client.attest("bot", "a", 1)

def refused(f, *codes):
    try:
        f()
    except ServiceError as error:
        assert (error.code or error.status) in codes, error
    else:
        raise AssertionError("it was not refused")

print(count(attest))
print(count(attest))
agent._nonce = "stale"
print("stale:", count(attest))
agent._nonce, agent._token = "stale", ""
count(attest)
print("stale: sign-in", counts["sign-in"])
agent._nonce = "stale"
print("stale:", count(lambda: refused(lambda: list(client.get_report()), "FORBIDDEN_ROLE")))
never = True
count(lambda: refused(attest, "USE_DPOP_NONCE"))
most = max(counts.values())
agent._token = ""
count(lambda: refused(attest, 400))
print("never content:", max(most, *counts.values()), "at most")
client.close()
