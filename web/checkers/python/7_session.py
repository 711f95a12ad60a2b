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
    first = last = index = hashed = None
    sealed, gaps, missing = False, 0, []

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
        claims, index = self.signed_by_agent(record).claims, record["index"]
        must(claims.get("sid") == f["sid"], "a record is of another session")
        seq, last = claims["seq"], -1 if self.last is None else self.last
        must(seq != last, f"the agent's key signed two statements with the seq {seq}: in the records {self.index} and {index}")
        must(seq > last and not self.sealed, f"seq {seq} of record {index} stands after {last}, or after the end")
        must(self.last is None or seq > last + 1 or claims["prev"] == self.hashed, f"prev of record {index} is not the hash of the statement in record {self.index}")
        if seq > last + 1:
            self.gaps += 1
            self.missing = self.missing + [(last + 1, seq - 1)] * (self.gaps <= 100)
        self.first = seq if self.first is None else self.first
        self.last, self.index, self.sealed = seq, index, "end" in claims
        self.hashed = hashlib.sha256(record["payload"]["statement"].encode()).hexdigest()

    def end(self):
        must(self.source.read(1) == b"", "there are more lines than the header says")
        f = self.file
        self.checked.append(f"session {f['sid']} of the agent {f['agentId']}: {f['records']} records, {self.state()}")

    def state(self):  # complete, open at n, or missing a–b
        if self.gaps == 0:
            return f"complete: 0 to {self.last}, sealed" if self.sealed else f"open at {self.last}"
        gaps = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in self.missing)
        more = f" and {self.gaps - 100} ranges more" if self.gaps > 100 else ""
        return f"missing {gaps}{more}" + ("" if self.sealed else f", open at {self.last}")
