class Places:
    """The statements of one session in the order of their places: whether all are there. Its memory does not grow with their number. The reference says what each is held against."""
    MOST_GAPS, MOST_NAMED, MOST_RECENT, MOST_RECORDED = 1000, 10_000, 4096, 100

    def __init__(self):
        self.last, self.sealed, self.is_more = -1, False, False
        # (seq, index) of places that are there although they were refused, the first 100; index -1
        # of one long ago
        self.recorded = []
        # of missing places: (first, last, prev of the statement after them); and gaps beyond those
        self.gaps, self.forgotten = [], 0
        # hashes of places that are missing and that a later statement names as refused
        self.named = {}
        self.recent = {}  # (index, hash) of the last statements, by seq

    def add(self, claims, index, hashed):
        seq, last, (at, before) = claims["seq"], self.last, self.recent.get(self.last, (None, None))
        must(seq != last, f"the agent's key signed two statements with the seq {seq}: in the records {at} and {index}")
        must(seq > last and not self.sealed, f"seq {seq} of record {index} stands after {last}, or after the end")
        must(last < 0 or seq > last + 1 or claims["prev"] == before, f"prev of record {index} is not the hash of the statement in record {at}")
        if seq > last + 1 and len(self.gaps) == self.MOST_GAPS:
            self.forgotten += 1
        elif seq > last + 1:
            self.gaps.append((last + 1, seq - 1, claims["prev"]))
        for one in claims.get("refused", ()):
            self.take(one["seq"], one["hash"])
        self.last, self.sealed = seq, "end" in claims
        self.recent[seq] = index, hashed
        if len(self.recent) > self.MOST_RECENT:
            del self.recent[next(iter(self.recent))]

    def take(self, seq, hashed):  # an entry of refused
        if seq in self.recent:
            index, there = self.recent[seq]
            must(there == hashed, f"it says that number {seq} was refused, and the agent's key signed another statement of that number, in record {index}")
            return self.was_recorded(seq, index)
        must(self.named.get(seq, hashed) == hashed, f"it says that number {seq} was refused, and an earlier statement says so of another statement of that number")
        if seq in self.named:
            return
        at, end = 0, len(self.gaps)
        while at < end:  # the first gap that ends there or later
            middle = (at + end) // 2
            at, end = (at, middle) if self.gaps[middle][1] >= seq else (middle + 1, end)
        if at < len(self.gaps) and self.gaps[at][0] <= seq:
            self.fill(at, seq, hashed)
        elif self.forgotten == 0:
            self.was_recorded(seq, -1)

    def fill(self, at, seq, hashed):  # a place of a gap
        first, last, after = self.gaps[at]
        must(seq < last or after in (None, hashed), "it says that a statement was refused that is not the one which the statement after it names in prev")
        rest = [gap for gap in ((first, seq - 1, None), (seq + 1, last, after)) if gap[0] <= gap[1]]
        if len(self.named) < self.MOST_NAMED and len(self.gaps) - 1 + len(rest) <= self.MOST_GAPS:
            self.gaps[at:at + 1] = rest
            self.named[seq] = hashed

    def was_recorded(self, seq, index):
        if all(known != seq for known, _ in self.recorded):
            self.is_more = self.is_more or len(self.recorded) == self.MOST_RECORDED
            self.recorded = self.recorded + [(seq, index)] * (len(self.recorded) < self.MOST_RECORDED)

    def state(self):  # complete, open at n, or missing a–b
        count, refused = len(self.gaps) + self.forgotten, f", {len(self.named)} refused" if self.named else ""
        if count == 0:
            return (f"complete: 0 to {self.last}, sealed" if self.sealed else f"open at {self.last}") + refused
        gaps = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b, _ in self.gaps[:100])
        more = f" and {count - 100} ranges more" if count > 100 else ""
        return f"missing {gaps}{more}" + ("" if self.sealed else f", open at {self.last}") + refused
