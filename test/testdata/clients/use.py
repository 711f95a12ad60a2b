# Uses what the conformance file does not reach: asyncio, the stream, values that JSON does not carry, and a Python without the package cryptography. python3 use.py URL KEY
import asyncio, sys
import attestd
from attestd import AsyncClient, Client, Keys, MissingCryptography, PayloadError

url, key = sys.argv[1:]

async def follow(client, first, count):
    indexes = []
    async for message in client.stream(from_=first):
        indexes.append(message["record"]["index"])
        if len(indexes) == count:
            return indexes

async def asynchronous():
    async with AsyncClient(url, key) as client:
        records = await asyncio.gather(*(client.attest("bot", "async", {"n": n}) for n in range(20)))
        assert sorted(record["index"] for record in records) == list(range(20))
        following = asyncio.create_task(follow(client, 15, 6))
        await client.attest("bot", "long", "y" * 70_000)
        assert await asyncio.wait_for(following, 30) == list(range(15, 21))
        assert [record["index"] async for record in client.records(3, limit=2)] == [3, 4]
        assert len([line async for line in client.get_report()]) > 20

asyncio.run(asynchronous())

client = Client(url, key)
for payload, pointer in (({"a": [1, {"b/c": 2**60}]}, "/payload/a/1/b~1c"), (float("nan"), "/payload"), ({"s": {1}}, "")):
    try:
        client.attest("bot", "refused", payload)
        raise AssertionError(f"{payload} was sent")
    except PayloadError as refused:
        assert refused.pointer == pointer, refused.pointer
assert client.attest("bot", "kept", 10**20)["payload"]["payload"] == 10**20

published = client.get_public_keys(companyId=client.get_company()["companyId"])
attestd.verify_proof(client.get_proof(2, log="control"), Keys(published, published["keys"][0]["fingerprint"]), log="control")
attestd.Ed25519PublicKey = None  # as after an import that has failed
try:
    Keys(published, published["keys"][0]["fingerprint"])
    raise AssertionError("checked without cryptography")
except MissingCryptography:
    pass
