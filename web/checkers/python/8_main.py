# escapes what would move, reverse or add to what a terminal shows; half a surrogate pair becomes
# U+FFFD
def printable(text):
    text = re.sub("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", str(text))
    return re.sub("[\ud800-\udfff]", "\ufffd", text)

def main(arguments):
    if len(arguments) == 2 and not arguments[1].startswith("--"):
        try:
            proof, key = (read(text_of(open(name, "rb").read((64 << 20) + 1))) for name in arguments)
            root, whose = check_proof(proof, key), check_key(key)
        except Exception as refused:
            print("fails:", printable(refused) or type(refused).__name__)
            return 2 if isinstance(refused, OSError) else 4
        print("record", proof["record"]["index"], "is genuine and in the chain with root", printable(root))
        print("if this is the company's key, or one of them is:", printable(whose if isinstance(whose, str) else ", ".join(whose)))
        return 0
    try:
        must(len(arguments) == 1 or len(arguments) == 3 and arguments[1] in ("--key", "--policy"), "usage: check.py FILE [--key FINGERPRINT | --policy FILE]")
        evidence = Evidence(open(arguments[0], "rb").read((64 << 20) + 1))
        if arguments[1:2] == ["--key"]:
            must(re.fullmatch("SHA256:[A-Za-z0-9_-]{43}", arguments[2]), "a fingerprint is SHA256: and 43 characters of base64url")
            evidence.fingerprint = arguments[2]
        elif arguments[1:2]:
            evidence.policy = read_policy(open(arguments[2], encoding="utf-8", newline="").read())
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
