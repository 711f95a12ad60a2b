SESSION_NOT_PROVEN = [
    "That the agent did nothing else: this file shows one session of one key, not what came before it, after it or beside it.",
    "That nothing followed in a session that is open: only its end, which the agent signs, shows that.",
    "That what payloads say is true: only that they were signed, and that the service was given them, and when by the service's clock.",
    *NOT_PROVEN[2:5],
    "That no other record of the control log bears on this session: what is missing here may stand there.",
    NOT_ORDERED, NOT_ONCE, NOT_OWN_KEY,
]
HEADER = {
    "format": lambda s: s == "attestd-session/v1", "companyId": company, "agentId": text, "kid": is_thumbprint,
    "sid": SESSION, "records": lambda n: number(n) and 1 <= n <= 1_000_000, "checkpoint": text,
    "logs": LOGS, "keys": KEYS, "witnesses": [text, 16], "agentKey": {"records": ENTRIES}, "notProven": [text, 10_000],
}
LINE = {"record": RECORD, "proof": [text, 60]}
LONGEST = 8 << 20  # of a line, in bytes

def is_session(line):  # by the first line of a file
    try:
        bounded(line)
        return read(line.decode()).get("format") == "attestd-session/v1"
    except Exception:
        return False

# The file of a session while it is checked; source is read line by line.
class SessionFile(Evidence):
    claims = continues = None  # of the last statement; and of the first
    # with a statement of version 1, of those with a delegation; since the key was in other hands
    older = exchanged = since_stolen = 0

    def __init__(self, source, **trust):
        super().__init__(source, **trust)
        self.places, self.calls, self.tally = Places(), Calls(), Tally()

    def steps(self):
        yield from (("MALFORMED", self.header), ("KEYS", self.keys), ("WITNESSES", self.read_witnesses), ("LOG_PROOF", self.checkpoint))
        yield from (("STATEMENT", self.whose), ("WITNESSES", self.all_cosigned), ("NOT_PROVEN", self.not_proven), ("KEY", self.key), ("POLICY", self.by_policy))
        for _ in range(self.file["records"]):
            yield from (("MALFORMED", self.next), ("RECORD", self.record), ("LOG_PROOF", self.log_proof), ("STATEMENT", self.statement))
        yield "MALFORMED", self.end

    def line(self, form, name):
        line = self.source.readline(LONGEST + 1)
        must(line.endswith(b"\n") and len(line) <= LONGEST, f"{name} is missing, or longer than {LONGEST} bytes, or has no line feed")
        bounded(line)
        value = read(line.decode())
        whole(value)
        has_form(value, form, name)
        return value

    def header(self):
        self.file = self.line(HEADER, "header")
        must(self.file["keys"], "keys is empty")
        self.opening()

    def needed(self):
        return ["actions", "control"]

    def checkpoint(self):
        self.size, self.root = self.opened(self.logs["actions"], self.file["checkpoint"])

    def whose(self):
        self.key_chain(self.file["agentKey"]["records"], self.file["agentId"], self.file["kid"])
        self.whose_word("every record of this session")

    def unproven(self):
        return SESSION_NOT_PROVEN

    def next(self):
        self.one = self.line(LINE, "line")
        must(all(len(unbase64(sibling)) == 32 for sibling in self.one["proof"]), "not a proof")

    def record(self):
        self.signed(self.logs["actions"], self.one["record"])

    def log_proof(self):
        self.included(self.logs["actions"], self.one["record"], self.one["proof"], self.size, self.root)

    def statement(self):
        f, record = self.file, self.one["record"]
        must(record["payload"]["agentId"] == f["agentId"], "a record is of another agent")
        claims = self.claims = self.signed_by_agent(record).claims
        must(claims.get("sid") == f["sid"], "a record is of another session")
        self.places.add(claims, record["index"], hashlib.sha256(record["payload"]["statement"].encode()).hexdigest())
        self.continues = self.continues or claims.get("continues")
        self.older += "log" not in claims
        self.exchanged += "log" not in claims and "delegation" in claims
        self.since_stolen += self.is_stolen(record)
        self.acts(record)
        self.calls.add(record)
        self.tally.add(self, record)

    def end(self):
        must(self.source.read(1) == b"", "there are more lines than the header says")
        f, places, say = self.file, self.places, self.checked.append
        say(f"session {f['sid']} of the agent {f['agentId']}: {f['records']} records, {self.calls.state(places.state())}")
        self.signed_for(self.claims)
        if 0 < self.older < f["records"]:
            say(f"{self.older} of its statements do not say which service they were made for: those are of the older form")
        if self.exchanged:
            say(f"{self.exchanged} of its statements cover the ID of a delegation alone, not what the delegation said")
        if self.continues:
            say(f"it {goes_on(self.continues)}")
        say("a session that goes on from this one may exist elsewhere")
        for seq, index in places.recorded:
            if index < 0:
                say(f"the service recorded number {seq}, although it had told the agent that it refused a statement of that number; whether it is the same one is not compared here")
            else:
                say(f"the service recorded number {seq}, record {index}, although it had told the agent that it refused it")
        if places.is_more:
            say("there are more numbers that the service recorded although it had told the agent that it refused them")
        if self.since_stolen:
            say(f"the key was in other hands since {self.stolen()}; {self.since_stolen} of these records are of that time")
