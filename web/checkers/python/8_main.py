# escapes what would move, reverse or add to what a terminal shows; half a surrogate pair becomes
# U+FFFD
def printable(text):
    text = re.sub("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", str(text))
    return re.sub("[\ud800-\udfff]", "\ufffd", text)

def opened_file(file, **trust):  # of one record, or of a session
    start = file.readline(LONGEST)
    if is_session(start):
        return SessionFile(io.BufferedReader(Rest(start, file)), **trust)
    source = bytearray(start)
    while len(source) <= 64 << 20 and (part := file.read(1 << 20)):
        source += part
    return Evidence(source, **trust)

class Rest(io.RawIOBase):  # a file after its start, which was read, with that start
    def __init__(self, start, file):
        self.start, self.file = io.BytesIO(start), file

    def readable(self):
        return True

    def readinto(self, room):
        part = self.start.read(len(room)) or self.file.read(len(room))
        room[:len(part)] = part
        return len(part)

OPTIONS = {"--key": "a fingerprint", "--policy": "a file", "--agent-key": "a thumbprint"}
USAGE = "usage: check.py FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]\n       check.py PROOF KEYS"

def typed(arguments):  # the files and the options, as --name VALUE or --name=VALUE
    files, given, rest = [], {}, iter(arguments)
    for argument in rest:
        if not argument.startswith("-") or argument == "-":
            files.append(argument)
            continue
        name, is_set, value = argument.partition("=")
        must(name in OPTIONS, f"{name} is no option\n{USAGE}")
        must(name not in given, f"{name} is given twice")
        value = value if is_set else next(rest, "")
        must(value and not value.startswith("--"), f"{name} needs {OPTIONS[name]}, as {name} VALUE")
        given[name] = value
    must(not {"--key", "--policy"} <= given.keys(), "--key and --policy exclude each other")
    must(len(files) == 1 or len(files) == 2 and not given, f"{len(files)} files are named\n{USAGE}")
    return files, given

def say(*lines):  # each is data until its unprintable characters are escaped
    print("\n".join(map(printable, lines)))

def refuse(reason, status=2):  # no verdict
    print("\n".join(map(printable, str(reason).split("\n"))), file=sys.stderr)
    return status

def main(arguments):
    for stream in (sys.stdout, sys.stderr):
        # what a terminal has no character for is no reason to stop
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if arguments in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    try:
        files, given = typed(arguments)
        if len(files) == 2:
            return check_alone(*files)
        known = {} if given.keys() & {"--key", "--policy"} else known_keys()
        file = open(files[0], "rb")
        begin = file.read(BEGIN)
        must_be(files[0], begin, "evidence", "session")
        evidence = opened_file(io.BufferedReader(Rest(begin, file)), known=known)
        if "--key" in given:
            must(is_fingerprint(given["--key"]), "a fingerprint is SHA256: and 43 characters of base64url")
            evidence.fingerprint = given["--key"]
        if "--policy" in given:
            evidence.policy = read_policy(open(given["--policy"], encoding="utf-8", newline="").read())
        if "--agent-key" in given:
            must(is_thumbprint(given["--agent-key"]), "a thumbprint of an agent's key is 43 characters of base64url")
            evidence.agent_key = given["--agent-key"]
    except NotUsable as refused:
        return refuse(refused, 1)
    except Exception as refused:
        return refuse(refused)
    verdict, code, reason = evidence.verdict()
    says = [] if code else [f"{name}: {text}" for name, text in summary(evidence)]
    unproven = [] if code else [f"not proven: {line}" for line in evidence.file["notProven"]]
    say(in_words(verdict, code, reason), *says, *(f"checked: {line}" for line in evidence.checked), *unproven)
    return {"holds": 0, "fails": 4}.get(verdict, 5)

def check_alone(*names):  # a proof, with a file of the company's keys
    sources = [open(name, "rb").read((64 << 20) + 1) for name in names]
    for name, source, kind in zip(names, sources, ("proof", "keys")):
        must_be(name, source[:BEGIN], kind)
    try:
        proof, key = (read(text_of(source)) for source in sources)
        root, whose = check_inclusion(proof, key), check_key(key)
    except Exception as refused:
        say(f"fails: {refused or type(refused).__name__}")
        return 4
    record, keys = proof["record"], whose if isinstance(whose, str) else ", ".join(whose)
    is_pruned, place = "pruned" in record, f"record {record['index']}, below the chain root {root}"
    if is_pruned:
        say("pruned: what the record said cannot be checked. Its hash is signed, and in the log", f"what: {place}")
    else:
        payload = record["payload"]
        say("holds, key not confirmed: compare a fingerprint below with one that you have from elsewhere",
            f"who: agent {canonical(payload['agentId'])} of the company {canonical(payload['companyId'])}",
            f"what: {canonical(payload['actionType'])}, {place}, {record['timestamp']} by the service's clock",
            f"payload: {shown(canonical(payload['payload']))}",
            f"on behalf of: {behalf(Evidence(b''), record)}", "right: not in this file")
    say(f"signed by: a key of the file of keys, which has {keys}")
    return 5 if is_pruned else 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
