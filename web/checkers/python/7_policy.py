NOT_PROVEN = [
    "That nothing was left out: this file shows one record, not what came before it, after it or beside it.",
    "That what the payload says is true: only that the service was given it, and when by the service's clock.",
    "That the service's clock was right: every time in this file that is not a witness's is the operator's word.",
    "That nobody else had the company's key, nor that a key was not declared compromised after this file was made.",
    "That there is no other history: only witnesses whom you chose, or a checkpoint that you kept, show that. Two appliances of one owner are not independent.",
    "That the root in hexProof is the chain's: compare it with one that you kept.",
]
NOT_ORDERED = "How records of the two logs follow each other but by their times."
NOT_ONCE = "That no other record has the same statement: the agent signed it once, and a second record of it would look the same."
NOT_OWN_KEY = "That the agent alone holds the key of its statement: whoever enrolled that key may hold it. Only a key that you know from the agent, and name to the checker, shows whose word this is."
NOT_PROVEN_OF = [  # and of files with one of these members, and none of those behind them
    ("That no other record of the control log bears on this one: what is missing here may stand there.", {"authority", "passport", "agentKey"}, set()),
    (NOT_ORDERED, {"agentKey"}, set()), (NOT_ONCE, {"agentKey"}, set()), (NOT_OWN_KEY, {"agentKey"}, set()),
    ("How records of the two logs follow each other but by their times, nor that the agent itself acted: the service knows the credential, not who held it.", {"authority"}, {"agentKey"}),
    ("That the status of the passport is still the same: it is of the moment when it was checked.", {"status"}, set()),
]

# c2sp.org/tlog-policy: logs, witnesses by name, groups, and the name of the quorum
def read_policy(text):
    # free: may a name that stands there still become a member
    logs, witnesses, groups, quorum, free = [], [], [], None, {"none": False}
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
