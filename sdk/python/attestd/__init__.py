"""The Python client of attestd, which needs Python 3.9 and its standard library alone.

    import attestd
    client = attestd.Client("http://127.0.0.1:8080", key)
    record = client.attest("bot", "file.written", {"path": "a.txt"})

A Client has a method for each operation of the API reference: its name there in snake case (issuePassport is issue_passport), what it needs by its place, first the parts of its path,
and the rest by name. Names are in snake case (agent_id), or those of the reference (agentId); from is from_. help(Client.issue_passport) says what it takes. Many threads may use one
Client. AsyncClient has the same methods for asyncio.

timeout is one deadline over a whole attempt, from the connection to the end of the answer. Of an answer at most MAX_ANSWER bytes are read.

What an append promises: attest returns when the service has answered 201, that is when the record is on its disk. Every append carries an idempotency key, the same on
all its retries, so a lost answer never makes a second record. After a ConnectionLost, or a ServiceError with a status of 500 or more, it is unknown whether the record is
there: the same attestation with the same key finds out, within 30 days. Spool does so for programs that cannot wait.

Retries: reads and appends are sent again after a lost connection, 408, 409, 429 and 5xx. Other requests would be carried out twice, so they are sent again only where they
cannot have been carried out: no connection was made, 429, or the code NOT_DONE.

Text: the service refuses what is not well-formed Unicode, for canonical JSON (RFC 8785) demands that. Surrogates without their other half, as they stand in text that was cut
inside a character, are replaced by U+FFFD before anything is sent; what is recorded is the replaced text. Integers that no JSON number carries without loss, such as 2**60, are refused
with a PayloadError: give them as strings.

Agents: an Agent has a key of its own, signs in with it and signs what it does, in sessions: Client(url, Agent.read(path)).session().attest("file.written", {"path": "a.txt"}).

verify_record, verify_proof, verify_inclusion, verify_passport, verify_token, verify_status and verify_evidence check without the service, with Keys of which one is pinned by its fingerprint. They need the package
cryptography, for Ed25519, and raise MissingCryptography where it is not installed.

The module check is what servers offer as /check.py. Names that are not in __all__ may change.
"""
from ._agent import Agent, AgentKey, generate_agent_key, Signer
from ._aio import AsyncClient
from ._client import Client
from ._errors import (
    AttestdError, ConnectionLost, FullError, MissingCryptography, NotApprovedError, OtherLogError, PayloadError,
    RecordMismatchError, RefusedError, ServiceError, UnknownKeyError, VerificationError,
)
from ._routes import OPERATIONS, Route
from ._session import Session
from ._spool import Spool, SpoolSession
from ._transport import MAX_ANSWER, OAuth, Retry
from ._verify import (
    Keys, verify_evidence, verify_inclusion, verify_passport, verify_proof, verify_record, verify_status, verify_token,
)

__all__ = [
    "Agent", "AgentKey", "AsyncClient", "AttestdError", "Client", "ConnectionLost", "FullError", "Keys",
    "OtherLogError", "MissingCryptography", "NotApprovedError", "OAuth", "OPERATIONS", "PayloadError", "RecordMismatchError",
    "RefusedError", "Retry", "ServiceError", "Session", "Signer", "Spool", "SpoolSession", "UnknownKeyError",
    "VerificationError", "generate_agent_key", "verify_evidence", "verify_inclusion", "verify_passport", "verify_proof",
    "verify_record", "verify_status", "verify_token",
]

# Each has one place to users, who read it in tracebacks and whose pickles name it: this one.
for _name in [*__all__, "Route"]:
    if callable(globals()[_name]):
        globals()[_name].__module__ = __name__
del _name
