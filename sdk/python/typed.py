# What a program sees of the package's types, under pyright's strict mode. It is never run.
import asyncio
import threading

import attestd

client = attestd.Client("https://attest.example.com", attestd.OAuth("id", "secret"), timeout=3, retry=attestd.Retry(times=1))
record = client.attest("bot", "typed", {"n": 1})
index: int = record["index"]
text: str = record["hash"]
issued = client.issue_passport("bot", ttl=600)
passport: str = issued["passport"]
client.register_agent("bot", if_none_match="*")
client.attest(agent_id="bot", action_type="typed", payload=1, idempotency_key="k")
client.attest(agentId="bot", actionType="typed", payload=1, idempotencyKey="k")
client.create_key(expires_at="2030-01-01T00:00:00.000Z")
client.create_key(expiresAt="2030-01-01T00:00:00.000Z")
scoped = client.issue_passport("bot", scopes=["tool:read"])
names: list[str] = [agent["agentId"] for agent in client.list_agents(limit=3)["agents"]]
verdict = client.verify_passport(passport=passport, tool="read")
code: str = verdict["scopeGranted"] if verdict["valid"] is True else verdict["code"]
for line in client.get_report():
    line.strip()
for found in client.search(agent="bot", limit=3):
    found["timestamp"].strip()
for message in client.stream(from_=index):
    message["record"]["hash"].strip()
for known in client.records(3, limit=2, log="control"):
    known["hash"].strip()
approved = client.ask("bot", "bank/transfer", {"amount": 500}, reason="March", timeout=60)
until: str = client.await_approval(approval_id=approved["approvalId"])["expiresAt"]
client.attest_all([{"agentId": "bot", "actionType": "typed", "payload": 1}])
spool = attestd.Spool("spool", client, limit=1 << 20)
spool.run(5, threading.Event(), lambda error: print(error))
attested = spool.attest("bot", "typed", None)
key: str = attested.get("idempotencyKey", "")
keys = attestd.Keys(client.get_public_keys(companyId="acme"), "SHA256:")
root: str = attestd.verify_proof(client.get_proof(0), keys)
claims, scope = attestd.verify_passport(passport, keys, tool="read")
checked, unproven = attestd.verify_evidence(client.raw("getEvidence", 0), fingerprint="SHA256:", agent_key="")

async def use() -> list[str]:
    async with attestd.AsyncClient("https://attest.example.com") as other:
        await other.attest("bot", "typed", 1)
        await other.register_agent(agentId="bot", If_None_Match="*")
        return [one["hash"] async for one in other.records()]

hashes: list[str] = asyncio.run(use())

client.issue_passport("bot", scope=["tool:read"])  # pyright: ignore[reportCallIssue]
client.issue_passport("bot", ttl="600")  # pyright: ignore[reportCallIssue, reportArgumentType]
client.create_key(expires="2030-01-01T00:00:00.000Z")  # pyright: ignore[reportCallIssue]
client.get_agents()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
client.attest("bot", "typed")  # pyright: ignore[reportCallIssue]
