"""The runner of the Python client for test/conformance, which says what it reads and writes."""
import json
import sys

import attestd
from attestd import Agent, AttestdError, Client, ConnectionLost, FullError, Keys, MissingCryptography, NotApprovedError, OAuth, OtherLogError, PayloadError, RecordMismatchError, RefusedError, Retry, ServiceError, Spool, VerificationError

class Runner:
    client = None
    sessions = {}

    def end(self):
        if self.client:
            self.client.close()

    def new(self, url, timeoutMs, retry, spool, key=None, oauth=None, agent=None, spoolLimit=None):
        credential = OAuth(oauth["clientId"], oauth["clientSecret"]) if oauth else key
        if agent:  # an alarm is an error of a call here, and nothing for standard error
            credential = Agent.read(agent, alarm=lambda error: None)
        self.end()
        self.client = Client(url, credential, timeout=timeoutMs / 1000, retry=Retry(retry["times"], retry["minMs"] / 1000, retry["maxMs"] / 1000))
        self.spool = Spool(spool, self.client, **({"limit": spoolLimit} if spoolLimit else {}))
        return {}

    def attest(self, **args):
        return self.client.attest(**args)

    def attestBatch(self, records):
        return {"records": self.client.attest_all(records)}

    def records(self, **args):
        return {"records": list(self.client.records(args.pop("from", 0), **args))}

    def stream(self, count, **args):
        records = []
        for message in self.client.stream(args.get("from")):
            records.append(message["record"])
            if len(records) == count:
                break
        return {"records": records}

    def search(self, **args):
        return {"records": list(self.client.search(**args))}

    def verifyChain(self):
        return self.client.verify_chain()

    def proof(self, index):
        return self.client.get_proof(index)

    def evidence(self, index):
        return self.client.get_evidence(index)

    def health(self):
        return self.client.get_health() and {}

    def registerAgent(self, **args):
        return self.client.register_agent(**args)

    def issuePassport(self, **args):
        return self.client.issue_passport(**args)

    def verifyPassport(self, **args):
        return self.client.verify_passport(**args)

    def ask(self, **args):
        return self.client.ask(**args)

    def requestApproval(self, **args):
        return self.client.request_approval(**args)

    def putPolicy(self, **args):
        return self.client.put_policy(**args)

    def testPolicies(self, **args):
        return self.client.test_policies(**args)

    def revokePassport(self, **args):
        return self.client.revoke_passport(**args)

    def delegate(self, **args):
        return self.client.delegate(**args)

    def checkRecord(self, record, key):
        return genuine(lambda: attestd.verify_record(record, Keys.of_key(key, record["payload"]["companyId"])))

    def checkProof(self, proof, key, root=None):
        return genuine(lambda: attestd.verify_proof(proof, Keys.of_key(key, proof["record"]["payload"]["companyId"]), root=root))

    def checkPassport(self, passport, key, companyId, tool=None, arguments=None):
        try:
            return {"valid": True, "scopeGranted": attestd.verify_passport(passport, Keys.of_key(key, companyId), tool=tool, arguments=arguments)[1]}
        except VerificationError as error:
            return {"valid": False, "code": error.code}

    def checkEvidence(self, evidence, fingerprint, agentKey=None):
        try:
            checked, _ = attestd.verify_evidence(evidence, fingerprint=fingerprint, agent_key=agentKey)
            return {"verdict": "holds", "word": next((said for said in checked if "signed this" in said), None)}
        except VerificationError as error:
            return {"verdict": "fails", "code": error.code}

    def agentKeys(self):
        return self.client.list_agent_keys(self.client._credential.agent_id) and {}

    def sessionBegin(self, id, continues=None):
        self.sessions["memory"] = self.client.session(id, continues=continues)
        return {}

    def spoolSessionBegin(self, id, continues=None):
        self.sessions["spool"] = self.spool.session(id, continues=continues)
        return {}

    def sessionAttest(self, **args):
        return self.sessions["memory"].attest(**args)

    def spoolSessionAttest(self, **args):
        return self.sessions["spool"].attest(**args)

    def sessionLast(self):
        return self.sessions["memory"].last

    def spoolSessionLast(self):
        return self.sessions["spool"].last

    def spoolAttest(self, **args):
        return self.spool.attest(**args)

    def spoolFlush(self):
        return self.spool.flush() or {}

    def spoolPending(self):
        return {"pending": self.spool.pending()}

def genuine(check):
    try:
        check()
        return {"genuine": True}
    except VerificationError:
        return {"genuine": False}

def answer(runner, call, args):
    method = getattr(runner, call, None)
    if not method:
        return {"error": {"kind": "unsupported"}}
    try:
        return {"result": method(**args)}
    except MissingCryptography:
        return {"error": {"kind": "unsupported"}}
    except ServiceError as error:
        return {"error": {"kind": "status", "status": error.status, "code": error.code, "pointer": error.pointer}}
    except NotApprovedError as error:
        return {"error": {"kind": "notApproved", "state": error.approval["state"]}}
    except ConnectionLost:
        return {"error": {"kind": "connection"}}
    except PayloadError:
        return {"error": {"kind": "invalid"}}
    except FullError:
        return {"error": {"kind": "full"}}
    except RefusedError as error:
        return {"error": {"kind": "refused", "refused": len(error.refused)}}
    except RecordMismatchError:
        return {"error": {"kind": "mismatch"}}
    except OtherLogError:
        return {"error": {"kind": "otherLog"}}
    except AttestdError as error:
        if str(error) != "the session has ended":
            raise
        return {"error": {"kind": "ended"}}

runner = Runner()
for line in sys.stdin:
    print(json.dumps(answer(runner, **json.loads(line))), flush=True)
runner.end()
