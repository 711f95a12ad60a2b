# What a file is, and who checks it. A file of another kind than this checker reads may be as
# genuine as any: it gets no verdict. Package filekind is the reference of this part.
KINDS = {
    "evidence": ("evidence of a record", "attestd check, check.py, check.mjs, verifier.html and the page Proof of the console check it"),
    "session": ("the file of a session", "attestd check, check.py, check.mjs and verifier.html check it"),
    "report": ("a report", "attestd check, attestd report and the page Report of the console check it"),
    "archive": ("an archive", "attestd check checks it, by itself"),
    "lines": ("a file of exported lines", "attestd check --lines checks it"),
    "proof": ("a proof", "check.py and check.mjs check it, with a file of the company's keys after it"),
    "record": ("a record", "functions of check.py and check.mjs check it, with the company's keys; GET /v1/evidence/{index} is a file about it that attestd check reads"),
    "status": ("the status of a passport", "functions of check.py and check.mjs check it, with the company's keys"),
    "passport": ("an answer with a passport", "functions of check.py and check.mjs check it, with the company's keys; the page Passports of the console checks the token in it"),
    "token": ("a token", "functions of check.py and check.mjs check a passport, with the company's keys, and the page Passports of the console"),
    "keys": ("a file of a company's keys", "check.py and check.mjs take it after a proof"),
    "checkpoint": ("a checkpoint", "the page Checkpoints of the console checks it; with GET /v1/log/{logId}/consistency, attestd check --newer compares it with a file of before"),
    "consistency": ("the proof that a log goes on", "attestd check --newer takes it, beside a file of before"),
    "tlog-proof": ("a tlog-proof", "tools of c2sp.org check it; GET /v1/evidence/{index} has it in a file that attestd check reads"),
    "saved": ("evidence that an earlier console saved", "the page Proof of the console checks it"),
}
BEGIN = 8 << 20  # bytes of a file that count
BY_FORM = [
    ("tlog-proof", re.compile(rb"c2sp\.org/tlog-proof@v1\n")), ("consistency", re.compile(rb"old (0|[1-9][0-9]*)\n")),
    ("checkpoint", re.compile(rb"[^{\n]+\n(0|[1-9][0-9]*)\n[A-Za-z0-9+/]{43}=\n")),
]
TOKEN = re.compile(rb"[ \t\r\n]*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+[ \t\r\n]*")
BY_FORMAT = {"attestd-evidence/v1": "evidence", "attestd-session/v1": "session", "attestd-report/v1": "report"}
# the type of a file's first line
BY_TYPE = {"archive": "archive", "record": "lines", "checkpoint": "lines", "opening": "lines", "keys": "lines"}
BY_MEMBERS = [
    ("proof", {"record", "proof", "root"}), ("record", {"index", "timestamp", "payload", "hash", "signature"}), ("status", {"jti", "status", "checkedAt", "signature"}),
    ("passport", {"passport", "caPublicKey"}), ("keys", {"keys", "origin"}), ("keys", {"keys", "fingerprint"}),
]

def kind_of(begin):  # of a file, by its first BEGIN bytes; "" where it is of no kind
    is_whole = len(begin) < BEGIN
    for kind, form in BY_FORM:
        if form.match(begin):
            return kind
    if is_whole and TOKEN.fullmatch(begin):
        return "token"
    line, feed, _ = begin.partition(b"\n")
    if not feed and not is_whole:
        return ""
    at = line.find(b"{")
    kind = kind_of_object(line[at:]) if 0 <= at <= 1024 else ""
    if kind and (at == 0 or kind == "lines"):
        return kind
    return kind_of_object(begin) if is_whole and feed else ""

def kind_of_object(text):
    try:
        bounded(text)
        value = read(text.decode())
        whole(value)
    except Exception:
        return ""
    if type(value) is not dict:
        return ""
    inside = value.get("unmapped")
    carried = inside.get("attestd") if type(inside) is dict else None
    if "class_uid" in value and type(carried) is dict and kind_of_format(carried) == "lines":
        return "lines"
    if "format" in value:
        return kind_of_format(value)
    if value.get("type") == "attestd-evidence":
        return "saved"
    return next((kind for kind, names in BY_MEMBERS if names <= value.keys()), "")

def kind_of_format(value):
    known = value.get("format")
    if known == "attestd-lines/v1":
        known = value.get("type")
        return BY_TYPE.get(known, "") if type(known) is str else ""
    return BY_FORMAT.get(known, "") if type(known) is str else ""

class NotRead(Exception):
    """A file is of a kind that this checker does not read, or not there."""

def must_be(name, begin, *kinds):
    kind = kind_of(begin)
    if kind and kind not in kinds:
        raise NotRead(f"{name} is {': '.join(KINDS[kind])}")
