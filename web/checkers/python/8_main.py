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

def main(arguments):
    if len(arguments) == 2 and not arguments[1].startswith("--"):
        try:
            sources = [open(name, "rb").read((64 << 20) + 1) for name in arguments]
            for name, source, kind in zip(arguments, sources, ("proof", "keys")):
                must_be(name, source[:BEGIN], kind)
            proof, key = (read(text_of(source)) for source in sources)
            root, whose = check_inclusion(proof, key), check_key(key)
        except (OSError, NotRead) as refused:
            print(printable(refused), file=sys.stderr)
            return 2
        except Exception as refused:
            print("fails:", printable(refused) or type(refused).__name__)
            return 4
        if pruned := "pruned" in proof["record"]:
            print("pruned: what record", proof["record"]["index"], "said cannot be checked. Its hash is signed, and in the chain with root", printable(root))
        else:
            print("record", proof["record"]["index"], "is genuine and in the chain with root", printable(root))
        print("if this is the company's key, or one of them is:", printable(whose if isinstance(whose, str) else ", ".join(whose)))
        return 5 if pruned else 0
    try:
        usage = "usage: check.py FILE [--key FINGERPRINT | --policy FILE] [--agent-key THUMBPRINT]"
        given = dict(zip(arguments[1::2], arguments[2::2]))
        must(len(arguments) == 1 + 2 * len(given) and given.keys() <= {"--key", "--policy", "--agent-key"} and not {"--key", "--policy"} <= given.keys(), usage)
        file = open(arguments[0], "rb")
        begin = file.read(BEGIN)
        must_be(arguments[0], begin, "evidence", "session")
        evidence = opened_file(io.BufferedReader(Rest(begin, file)))
        if "--key" in given:
            must(re.fullmatch("SHA256:[A-Za-z0-9_-]{43}", given["--key"]), "a fingerprint is SHA256: and 43 characters of base64url")
            evidence.fingerprint = given["--key"]
        if "--policy" in given:
            evidence.policy = read_policy(open(given["--policy"], encoding="utf-8", newline="").read())
        if "--agent-key" in given:
            must(is_thumbprint(given["--agent-key"]), "a thumbprint of an agent's key is 43 characters of base64url")
            evidence.agent_key = given["--agent-key"]
    except Exception as refused:
        print(printable(refused), file=sys.stderr)
        return 2
    verdict, code, reason = evidence.verdict()
    for line in evidence.checked + [""] + ["not proven: " + line for line in ([] if code else evidence.file["notProven"])] + [""]:
        print(printable(line))
    print(": ".join(printable(part) for part in (verdict, code, reason) if part))
    return {"holds": 0, "fails": 4}.get(verdict, 5)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
