NOT_PROVEN = [
    "That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
    "That what the payload says is true: only that the service was given it, and when by the service's clock.",
    "That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
    "That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
    "That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
    "That the root in hexProof is the chain's: compare it with one that you kept.",
]
NOT_PROVEN_OF = [  # and of files with one of these members
    ("That no other record of the control log bears on this one: what is missing here may stand there.", {"authority", "passport"}),
    ("How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.", {"authority"}),
    ("That the status of the passport is still the same: it is of the moment when it was checked.", {"status"}),
]

def read_policy(text):  # c2sp.org/tlog-policy: logs, witnesses by name, groups, and the name of the quorum
    logs, witnesses, groups, quorum, free = [], [], [], None, {"none": False}  # free: may a name that stands there still become a member
    must(len(text.encode()) <= 1 << 20 and text[-1:] in ("", "\n") and not re.search(r"[\0-\x08\x0b-\x1f\x7f]", text), "not the text of a policy")
    for line in text.split("\n"):
        keyword, *items = re.split("[ \t]+", line.strip(" \t"))
        if keyword == "" or keyword[0] == "#":
            continue
        if keyword == "log" and 1 <= len(items) <= 2:
            logs.append(read_vkey(items[0], 1))
            continue
        must(items and (keyword == "quorum" or items[0] not in free), f"not a line of a policy: {line}")
        if keyword == "witness" and 2 <= len(items) <= 3:
            witnesses.append((items[0], read_vkey(items[1], 4)))
        elif keyword == "group" and len(items) >= 3:
            name, k, *members = items
            must(re.fullmatch("all|any|[1-9][0-9]*", k) and len(set(members)) == len(members), f"not a group: {line}")
            must(all(free.get(member) for member in members), f"a member of {name} is not there, or of another group already")
            groups.append((name, {"all": len(members), "any": 1}.get(k) or int(k), members))
            must(groups[-1][1] <= len(members), f"more members than there are: {line}")
            free.update(dict.fromkeys(members, False))
        else:
            must(keyword == "quorum" and len(items) == 1 and quorum is None and items[0] in free, f"not a line of a policy: {line}")
            quorum = items[0]
            continue
        free[items[0]] = True
    must(quorum, "no line says what the quorum is")
    must(len({log["raw"] for log in logs}) == len(logs) and len({w["raw"] for _, w in witnesses}) == len(witnesses), "a key stands twice")
    return logs, witnesses, groups, quorum

def main(arguments):
    if len(arguments) == 2 and not arguments[1].startswith("--"):
        try:
            proof, key = (read(open(name, encoding="utf-8").read()) for name in arguments)
            root = check_proof(proof, key)
        except Exception as refused:
            print("fails:", str(refused) or type(refused).__name__)
            return 2 if isinstance(refused, OSError) else 4
        print("record", proof["record"]["index"], "is genuine and in the chain with root", root)
        print("if this is the company's key, or one of them is:", check_key(key))
        return 0
    trust = {}
    try:
        must(len(arguments) == 1 or len(arguments) == 3 and arguments[1] in ("--key", "--policy"), "usage: check.py FILE [--key FINGERPRINT | --policy FILE]")
        with open(arguments[0], "rb") as file:
            source = file.read((64 << 20) + 1)
        if arguments[1:2] == ["--key"]:
            must(re.fullmatch("SHA256:[A-Za-z0-9_-]{43}", arguments[2]), "a fingerprint is SHA256: and 43 characters of base64url")
            trust = {"fingerprint": arguments[2]}
        elif arguments[1:2]:
            trust = {"policy": read_policy(open(arguments[2], encoding="utf-8", newline="").read())}
    except Exception as refused:
        print(refused, file=sys.stderr)
        return 2
    evidence = Evidence(source, **trust)
    verdict, code, reason = evidence.verdict()
    for line in evidence.checked + [""] + ["not proven: " + line for line in ([] if code else evidence.file["notProven"])] + [""]:
        print(line)
    print(": ".join(part for part in (verdict, code, reason) if part))
    return {"holds": 0, "fails": 4}.get(verdict, 5)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
