# Uses what the conformance file does not reach: asyncio, the stream, values that JSON does not carry, a Python without the package cryptography, and a spool whose disk or credential fails. python3 use.py URL KEY
import asyncio, inspect, os, sys, tempfile
import attestd
from attestd._routes import _snake
from attestd import _verify, AsyncClient, AttestdError, Client, Keys, MissingCryptography, PayloadError, RefusedError, ServiceError, Spool

url, key = sys.argv[1:]

async def follow(client, first, count, begun=None):
    indexes = []
    async for message in client.stream(from_=first):
        indexes.append(message["record"]["index"])
        if begun:
            asyncio.get_running_loop().call_later(0.3, begun.set)
        if len(indexes) == count:
            return indexes

async def asynchronous():
    async with AsyncClient(url, key) as client:
        records = await asyncio.gather(*(client.attest("bot", "async", {"n": n}) for n in range(20)))
        assert sorted(record["index"] for record in records) == list(range(20))
        following = asyncio.create_task(follow(client, 15, 6))
        await client.attest("bot", "long", "y" * 70_000)
        assert await asyncio.wait_for(following, 30) == list(range(15, 21))
        waits = asyncio.Event()
        canceled = asyncio.create_task(follow(client, 20, 1000, waits))
        await waits.wait()
        canceled.cancel()
        try:
            await canceled
            raise AssertionError("a stream that was canceled goes on")
        except asyncio.CancelledError:
            await client.attest("bot", "next", None)  # which the thread waits for
        for _ in client.client.stream(from_=0):
            break  # which leaves nothing open and says nothing
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

for call, meant in (
    (lambda: client.issue_passport("bot", scope=["tool:read"]), "did you mean scopes?"),
    (lambda: client.issue_passport("bot", Scopes=["tool:read"]), "did you mean scopes?"),
    (lambda: client.create_key(role="reader", expires="2030-01-01T00:00:00.000Z"), "did you mean expiresAt?"),
    (lambda: client.create_key(rol="reader"), "did you mean role?"),
    (lambda: client.create_key(expires_on=None), "did you mean expiresAt?"),
    (lambda: client.create_key(expires_at=None, expiresAt=None), "twice"),
    (lambda: client.attest("bot", "a", 1, idempotency_key="a", idempotencyKey="b"), "twice"),
    (lambda: client.register_agent(), "agent_id"),
    (lambda: client.get_agent("bot", "x"), "too many"),
    (lambda: client.get_chain(form=3), "did you mean from_?"),
    (lambda: client.list_keys(all=True), "it has none"),
    (lambda: list(client.search(agents="bot")), "did you mean agent?"),
    (lambda: client.raw("getEvidence", 0, logs="control"), "did you mean log?"),
    (lambda: client.attest_all([{"agentId": "bot", "actionType": "a", "payload": 1, "idempotency_key": "k"}]), "did you mean idempotencyKey?"),
    (lambda: client.attest("bot", "a", 1, delegations="t"), "delegations"),
    (lambda: Client(url, key, timeouts=3), "timeouts"),
    (lambda: Spool("never", client, limits=3), "limits"),
    (lambda: attestd.verify_proof("{}", None, rot="00"), "rot"),
):
    try:
        call()
        raise AssertionError(f"{meant}: an argument that is unknown was passed over")
    except TypeError as refused:
        assert meant in str(refused), refused

# What is required has its place, and each argument both of its names.
for spelled in ({"expires_at": "never"}, {"expiresAt": "never"}):
    try:
        client.create_key(role="reader", **spelled)
        raise AssertionError(f"{spelled} was not sent")
    except ServiceError as refused:
        assert refused.status == 400 and "expiresAt" in str(refused), refused
assert client.register_agent("placed", if_none_match=None)["agentId"] == client.get_agent(agentId="placed")["agentId"] == client.get_agent(agent_id="placed")["agentId"]
assert client.verify_passport(client.issue_passport("placed", ttl=60)["passport"])["valid"] is True
assert client.attest(agentId="bot", action_type="spelt", payload=1, idempotencyKey="both")["index"] == client.attest("bot", "spelt", 1, idempotency_key="both")["index"]
assert client.raw("getProof", index=0) == client.raw("getProof", 0)

# Every operation has a signature and a docstring, in both clients.
for name in attestd.OPERATIONS:
    for one in (Client, AsyncClient):
        method = getattr(one, _snake(name))
        parameters = inspect.signature(method).parameters.values()
        assert method.__doc__ and list(inspect.signature(method).parameters)[0] == "self", name
        assert not any(p.kind is p.VAR_POSITIONAL for p in parameters), name
        assert name in ("search", "claudeCodeHook", "exportTraces", "exportLogs") or not any(p.kind is p.VAR_KEYWORD for p in parameters), name
assert str(inspect.signature(client.issue_passport)) == "(agent_id, *, authorization_details=None, jkt=None, scopes=None, ttl=None)"

published = client.get_public_keys(companyId=client.get_company()["companyId"])
if _verify.Ed25519PublicKey:
    attestd.verify_proof(client.get_proof(2, log="control"), Keys(published, published["keys"][0]["fingerprint"]), log="control")
_verify.Ed25519PublicKey = None  # as after an import that has failed
try:
    Keys(published, published["keys"][0]["fingerprint"])
    raise AssertionError("checked without cryptography")
except MissingCryptography:
    pass

# The folder of a spool is the user's alone, and one in which others may write is refused.
if os.name == "posix":
    with tempfile.TemporaryDirectory() as folder:
        before = os.umask(0)
        Spool(f"{folder}/one/spool", client)
        os.umask(before)
        for name in ("one", "one/spool", "one/spool/pending"):
            assert os.stat(f"{folder}/{name}").st_mode & 0o777 == 0o700, name
        os.makedirs(f"{folder}/shared/below")
        os.symlink("shared/below", f"{folder}/link")
        for mode in (0o770, 0o707):
            os.chmod(f"{folder}/shared", mode)
            for place in ("shared", "shared/new", "shared/below", "link", "link/new"):
                try:
                    Spool(f"{folder}/{place}", client)
                    raise AssertionError(f"{place} is used, in which others may write")
                except AttestdError as refused:
                    assert "may write" in str(refused), refused
        os.chmod(f"{folder}/shared", 0o1777)
        Spool(f"{folder}/shared/below", client)
        if os.geteuid() == 0:
            os.chown(f"{folder}/shared/below", 12345, 12345)
            try:
                Spool(f"{folder}/shared/below/new", client)
                raise AssertionError("the folder of another user is used")
            except AttestdError as refused:
                assert "another user" in str(refused), refused

with tempfile.TemporaryDirectory() as folder:
    spool = Spool(folder, client)
    before = client.verify_chain() and len(list(client.records()))
    for _ in range(2):
        spool.add("bot", "queued", {"same": True}, idempotencyKey="one key")
    (spool.folder / "pending" / "00000000000000000-torn.json").write_text('{"agentId":"bo')
    try:
        spool.flush()
        raise AssertionError("a torn item was passed over")
    except RefusedError as apart:
        assert [name for name, _ in apart.refused] == ["00000000000000000-torn.json"]
    assert spool.pending() == 0 and len(list(client.records())) == before + 1

    reader = Client(url, client.create_key(role="reader")["key"])
    unable = Spool(folder, reader)
    unable.add("bot", "queued", 1)
    try:
        unable.flush()
        raise AssertionError("a reader has appended")
    except ServiceError as refused:
        assert refused.code == "FORBIDDEN_ROLE" and unable.pending() == 1, refused
    reader.close()
client.close()
