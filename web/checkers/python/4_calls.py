# what records say of calls of tools; the other two are outcomes, as completed is
CALL_KINDS = {"tool.requested": "requests", "tool.denied": "refusals", "tool.completed": "outcomes", "tool.failed": "outcomes", "tool.ended": "outcomes"}

class Calls:
    """Finds the calls that were refused and ran all the same, among records in their order. Its memory does not grow with their number. The reference says what such a call is."""
    MOST_CALLS, MOST_NAMED = 10_000, 10

    def __init__(self):
        self.calls = {}  # in the order of their first records
        # (index of the refusal, of the outcome) of the first calls that disobeyed; and how many did
        self.found, self.count = [], 0

    def add(self, record):
        index, payload = record["index"], record["payload"]
        kind, call = CALL_KINDS.get(payload["actionType"]), payload["payload"]
        if kind is None or type(call) is not dict:
            return
        parts = call.get("source"), call.get("sessionId", ""), call.get("callId")
        if not all(type(part) is str for part in parts) or not 0 < len(parts[2].encode()) < 256 or "[masked]" in parts[2]:
            return
        key = payload["agentId"], *parts
        if key not in self.calls and len(self.calls) == self.MOST_CALLS:
            del self.calls[next(iter(self.calls))]
        state = self.calls.setdefault(key, {"requests": 0, "refusals": 0, "refused": None, "done": None, "found": False})
        if kind != "outcomes":
            state[kind] += 1
        if kind == "refusals":
            state["refused"] = index
        elif kind == "outcomes" and state["done"] is None:
            state["done"] = index
        if not state["found"] and state["done"] is not None and 0 < state["refusals"] >= state["requests"]:
            state["found"] = True
            self.count += 1
            self.found += [(state["refused"], state["done"])][:self.MOST_NAMED - len(self.found)]

    def state(self, rest):  # of a session that otherwise has the state rest
        if not self.count:
            return rest
        calls = "; ".join(f"refused at record {refused}, done at record {done}" for refused, done in self.found)
        more = f"; and {self.count - len(self.found)} more" if self.count > len(self.found) else ""
        return f"disobeyed: {calls}{more}; {rest}"
