class Evidence:  # a file while it is checked
    # known has fingerprints of companies' keys: of them one counts without fingerprint and policy
    def __init__(self, source, fingerprint=None, policy=None, agent_key=None, known=None):
        self.source, self.fingerprint, self.policy, self.agent_key = source, fingerprint, policy, agent_key
        self.known, self.is_known = known or {}, False
        self.checked, self.notes, self.cosigners, self.events = [], {}, [], []
        self.chain, self.allowed = [], []
        self.not_actor = None  # of a record whose delegation was given to another one

    def steps(self):
        yield from (("MALFORMED", self.form), ("KEYS", self.keys), ("RECORD", self.record), ("HEX_PROOF", self.hex_proof), ("WITNESSES", self.read_witnesses))
        yield from (("LOG_PROOF", self.log_proof), ("DELEGATION", self.delegation), ("STATEMENT", self.statement), ("AUTHORITY", self.authority))
        yield from (("PASSPORT", self.passport), ("STATUS", self.status), ("WITNESSES", self.all_cosigned), ("NOT_PROVEN", self.not_proven))
        yield from (("KEY", self.key), ("POLICY", self.by_policy))

    def verdict(self):  # (verdict, code, reason)
        for code, check in self.steps():
            try:
                check()
            except Pruned as refused:
                return "fails", "PRUNED", str(refused)
            except Exception as refused:
                return "fails", code, str(refused) or type(refused).__name__
        if self.fingerprint is None and self.policy is None:
            return "self-consistent", "", "key not confirmed: anyone can make such a file"
        return "holds", "", ""

    def form(self):
        source, self.source = text_of(self.source), None  # one of them is enough to hold
        self.file = f = read(source)
        whole(f)
        has_form(f, EVIDENCE, "file")
        must(f["keys"], "keys is empty")
        payload = f["record"]["payload"]
        must("agentKey" not in f or type(payload) is dict and "statement" in payload, "agentKey is there, and the record has no statement")
        self.opening()

    def opening(self):  # what the checks use of the form
        f = self.file
        self.entries = [entry for member in ("agentKey", "passport", "authority") for entry in f.get(member, {}).get("records", [])]
        self.logs, self.raw = {log["log"]: log for log in f["logs"]}, [unbase64url(k["jwk"]["x"]) for k in f["keys"]]

    def needed(self):  # the logs without which the file could not be checked
        f = self.file
        later = "control" in self.logs and 0 < len(self.logs["control"]["keys"]) != len(self.raw)
        return ["actions"] * (f["log"] == "actions" or later) + ["control"] * (f["log"] == "control" or len(self.entries) > 0)

    def keys(self):
        f, count = self.file, len(self.raw)
        for raw, key in zip(self.raw, f["keys"]):
            digest = hashlib.sha256(bytes.fromhex("302a300506032b6570032100") + raw).digest()
            jwk = {"kty": "OKP", "crv": "Ed25519", "x": key["jwk"]["x"], "kid": digest.hex()[:16], "alg": "EdDSA", "use": "sig"}
            fingerprint = "SHA256:" + base64.urlsafe_b64encode(digest).decode().rstrip("=")
            must(key == {"kid": digest.hex()[:16], "fingerprint": fingerprint, "jwk": jwk}, "a key is not the one that it says")
        must(len(set(self.raw)) == count, "a key stands twice")
        must([log["log"] for log in f["logs"]] == self.needed(), f"the logs are not {self.needed()}")
        for log in f["logs"]:
            ring, origin = log["keys"], log["origin"]
            must(origin.endswith("/v1/log/" + log["logId"]), "an origin is of another log")
            must(0 < len(ring) <= count and (log["log"] == "control" or len(ring) == count), "a log has not its keys")
            log["raw"] = self.raw[count - len(ring):]
            must([k["kid"] for k in ring] == [k["kid"] for k in f["keys"]][count - len(ring):], "a log has other keys")
            must(ring[0]["fromIndex"] == 0 and "rotation" not in ring[0], "the first key of a log is missing")
            for i in range(1, len(ring)):
                old, new, proof = ring[i - 1], ring[i], ring[i]["rotation"]
                must(new["fromIndex"] >= old["fromIndex"], "the keys are not in order")
                must(proof["statement"] in statements(origin, new["fromIndex"], *f["keys"][count - len(ring):][i - 1:i + 1]), "the proof is of another rotation")
                verify(log["raw"][i - 1], unbase64url(proof["oldSignature"]), proof["statement"].encode())
                verify(log["raw"][i], unbase64url(proof["newSignature"]), proof["statement"].encode())
        self.checked.append(f"keys: {count}, each named by the one before it, up to {f['keys'][-1]['fingerprint']}")

    def signer(self, log, record):  # the place in the log's keys of the one that signs a record
        return [i for i, key in enumerate(log["keys"]) if key["fromIndex"] <= record["index"]][-1]

    def signed(self, log, record):
        verified = lambda digest: verify(log["raw"][self.signer(log, record)], unbase64url(record["signature"]), digest)
        check_signed(record, self.file["companyId"], log["log"], verified)

    def record(self):
        record, log = self.file["record"], self.logs[self.file["log"]]
        self.signed(log, record)
        self.by, payload = log["keys"][self.signer(log, record)]["kid"], record["payload"]
        self.checked.append(f"record {record['index']} of {log['log']}, {record['timestamp']}, {payload['agentId']}, {payload['actionType']}: signed by key {self.by}")

    def hex_proof(self):
        proof, at, node = self.file["hexProof"], self.file["record"]["index"], self.file["record"]["hash"]
        must(at < proof["size"], "there is no such record in the tree")
        steps, n = list(proof["proof"]), proof["size"] - 1
        while n > 0:
            if at % 2 or at < n:
                must(steps, "a step is missing")
                sibling, position = steps[0]["sibling"], steps.pop(0)["position"]
                must((position == "left") == bool(at % 2), "a step is on the other side")
                node = hashlib.sha256((sibling + node if position == "left" else node + sibling).encode()).hexdigest()
            at, n = at // 2, n // 2
        must(not steps and node == proof["root"], "the steps do not lead to the chain root")
        self.checked.append(f"its hash leads to the chain root {node} of {proof['size']} records")

    def read_witnesses(self):
        self.witnesses = [read_vkey(vkey, 4) for vkey in self.file["witnesses"]]
        must(len({w["raw"] for w in self.witnesses}) == len(self.witnesses), "a witness stands twice")

    # the size and the root of a log's one checkpoint, once its signatures are checked
    def opened(self, log, signed):
        name, origin = log["log"], log["origin"]
        if name not in self.notes:
            body, lines = signed.split("\n\n")
            head, size, root = body.split("\n")
            must(head == origin and is_name(origin) and re.fullmatch("0|[1-9][0-9]*", size), "the checkpoint is of another log")
            size, root, lines, body = int(size), unbase64(root), list(signature_lines(lines)), body + "\n"
            must(size < 2**53 and len(root) == 32, "not a checkpoint")
            must(lines[0][0] == origin and lines[0][1][:4] == key_id(origin, 1, log["raw"][-1]), "the last key has not signed the checkpoint")
            verify(log["raw"][-1], lines[0][1][4:], body.encode())
            by = [w["vkey"] for w, _ in cosigned_by(lines[1:], body, self.witnesses)]
            must(len(set(by)) == len(by) == len(lines) - 1, "a line below the checkpoint is of nobody, or of somebody twice")
            self.cosigners += [vkey for vkey in by if vkey not in self.cosigners]
            self.notes[name] = (signed, size, root, lines, body)
            self.checked.append(f"checkpoint of {name} at {size} records, signed by the last key and cosigned by {by or 'nobody'}")
        must(self.notes[name][0] == signed, "the checkpoint is another one")
        return self.notes[name][1:3]

    def placed(self, log, record, proof):  # in the log that standard tools read; returns its size
        head, signed = proof.split("\n\n", 1)
        version, index, *hashes = head.split("\n")
        must(version == "c2sp.org/tlog-proof@v1" and index == f"index {record['index']}", "the proof is of another record")
        size, root = self.opened(log, signed)
        self.included(log, record, hashes, size, root)
        return size

    def included(self, log, record, hashes, size, root):
        hashes, at, n, sha = [unbase64(h) for h in hashes], record["index"], size - 1, lambda *parts: hashlib.sha256(b"".join(parts)).digest()
        must(at < size and len(hashes) <= 60 and all(len(h) == 32 for h in hashes), "not a proof of the record")
        raw = log["raw"][self.signer(log, record)]
        node = sha(b"\0", bytes.fromhex(record["hash"]), unbase64url(record["signature"]), hashlib.sha256(raw).digest())
        for sibling in hashes:  # RFC 9162, section 2.1.3.2
            must(n > 0, "the proof is too long")
            if at % 2 or at == n:
                node = sha(b"\1", sibling, node)
                while at % 2 == 0 and at:
                    at, n = at // 2, n // 2
            else:
                node = sha(b"\1", node, sibling)
            at, n = at // 2, n // 2
        must(n == 0 and node == root, "the proof does not lead to the log root of the checkpoint")

    def log_proof(self):
        size = self.placed(self.logs[self.file["log"]], self.file["record"], self.file["tlogProof"])
        must(size == self.file["hexProof"]["size"], "the two proofs are of trees of two sizes")

    def delegation(self):
        own, copied = ([canonical(o["delegation"])] if "delegation" in o else [] for o in (self.file["record"], self.file))
        must(own == copied, "delegation differs from record.delegation")
        if self.file["log"] == "actions":
            self.acts(self.file["record"])
