
# The summary of a file that does not fail: who did what, on whose behalf and under which right. All
# checkers print the same lines. Names of the file are JSON strings in them, and end where they end.
MOST_SHOWN = 2000  # characters of a payload, or of a delegation chain
MOST_TYPES = 10  # action types of a session

def shown(text):  # all of it, or its beginning and how long all of it is
    return text if len(text) <= MOST_SHOWN else f"the first {MOST_SHOWN:,} of {len(text):,} characters: {text[:MOST_SHOWN]}"

def counted(count):
    return f"{count} record" + "s" * (count != 1)

def company_key(checked, key):
    if checked.policy:
        return f"the company's key {key}, confirmed by the policy that you named"
    if checked.fingerprint is None:
        return f"the key {key}; that it is the company's is not confirmed"
    whose = "is stored as trusted on this machine" if checked.is_known else "you named"
    return f"the company's key {key}, " + (f"which {whose}" if key == checked.fingerprint else f"confirmed by the key that {whose}")

def agents_word(checked, is_stolen):
    if not checked.chain:
        return "none: that the agent did this is the company's word alone"
    kid, pin = checked.chain[0]["thumbprint"], checked.agent_key
    said = f"by the key {kid}, which the company enrolled for this agent; that it is the agent's own is not confirmed"
    if pin is not None:
        said = f"by the agent's own key {kid}, " + ("which you named" if pin == kid else "which follows from the one that you named")
    return said + (f"; the key was in other hands since {checked.since['since']}" if is_stolen else "")

def behalf(checked, record):
    if "delegation" not in record:
        return "nobody else: it has no delegation"
    subject, chain = record["delegation"]["subject"], record["delegation"]["delegationChain"]
    chain = chain if chain[:1] == [subject] else [subject, *chain]
    return shown(" -> ".join(map(canonical, chain))) + ("" if checked.not_actor is None else "; it was given to another one than this agent")

def rights(checked):  # whether the action was allowed is for the reader to judge: no file says that
    f, record = checked.file, checked.file["record"]
    agent = canonical(record["payload"]["agentId"])
    bearing = [event for event in checked.allowed if event[1]["subject"] == "agent:" + record["payload"]["agentId"] and event[2]["timestamp"] <= record["timestamp"]]
    if "authority" not in f:
        yield "right", f"not in this file: it has no control records about the agent {agent}"
    elif not bearing:
        yield "right", f"nothing here says that the agent {agent} was registered at that time"
    else:
        action, _, last = bearing[-1]
        yield "right", f"the latest control record here about the agent {agent} at that time is {canonical(action)}, control record {last['index']}, {last['timestamp']}"
    if "passport" in f:
        issued = [payload for action, payload, _ in checked.events if action == "passport.issued"]
        scopes = f"issued with the scopes {shown(canonical(issued[-1].get('scopes')))}" if issued else "which nothing here says was ever issued"
        yield "passport", f"{canonical(f['passport']['jti'])}, {scopes}, was {f['status']['status']} at {f['status']['checkedAt']}; nothing here says that this was done with it"

class Tally:  # what the summary of a session says of its records
    first, last, others, delegated, delegate = "", "", 0, 0, ""

    def __init__(self):
        self.types = {}

    def add(self, checked, record):
        action = record["payload"]["actionType"]
        self.first, self.last = self.first or record["timestamp"], record["timestamp"]
        if action in self.types or len(self.types) < MOST_TYPES:
            self.types[action] = self.types.get(action, 0) + 1
        else:
            self.others += 1
        if "delegation" in record:
            self.delegated += 1
            self.delegate = self.delegate or f"record {record['index']}: {behalf(checked, record)}"

    def actions(self):
        some = [f"{canonical(name)} ({count})" for name, count in self.types.items()]
        return shown(", ".join(some + [f"other types ({self.others})"] * (self.others > 0)))

def summary(checked):  # (name, text) of each line
    f = checked.file
    company = canonical(f["companyId"])
    if isinstance(checked, SessionFile):
        tally, agent, count = checked.tally, canonical(f["agentId"]), counted(f["records"])
        yield "who", f"agent {agent} of the company {company}, in its session {canonical(f['sid'])}"
        yield "signed by", company_key(checked, f["keys"][-1]["fingerprint"])
        yield "agent's signature", agents_word(checked, checked.since_stolen > 0)
        yield "what", f"{count}, {checked.calls.state(checked.places.state())}; from {tally.first} to {tally.last} by the service's clock"
        yield "actions", tally.actions()
        yield "payload", "not shown: each record has its own, in its line of the file"
        yield "on behalf of", f"{tally.delegated} of {count} have a delegation, the first of them {tally.delegate}" if tally.delegated else "nobody else: no record has a delegation"
        yield "right", f"not in this file: it has no control records about the agent {agent} but those of its key"
        return
    record, log = f["record"], checked.logs[f["log"]]
    at = len(f["keys"]) - len(log["keys"]) + checked.signer(log, record)
    is_action = f["log"] == "actions"
    yield "who", f"agent {canonical(record['payload']['agentId'])} of the company {company}" if is_action else f"the service itself, in the control log of the company {company}"
    yield "signed by", company_key(checked, f["keys"][at]["fingerprint"])
    if is_action:
        yield "agent's signature", agents_word(checked, bool(checked.chain) and checked.is_stolen(record))
    yield "what", f"{canonical(record['payload']['actionType'])}, record {record['index']} of the log {f['log']}, {record['timestamp']} by the service's clock"
    yield "payload", shown(canonical(record["payload"]["payload"]))
    if is_action:
        yield "on behalf of", behalf(checked, record)
        yield from rights(checked)

def in_words(verdict, code, reason):  # the verdict, as all checkers print it
    return f"fails: {code}: {reason}" if code else "holds" if verdict == "holds" else f"holds, {reason}"
