    # control records, each of which must be about what it may be about
    def told(self, entries, about):
        last, events = -1, []
        for entry in entries:
            record = entry["record"]
            self.signed(self.logs["control"], record)
            self.placed(self.logs["control"], record, entry["tlogProof"])
            payload, action, index = record["payload"]["payload"], record["payload"]["actionType"], record["index"]
            must(type(payload) is dict and type(payload["subject"]) is str and type(payload["by"]) in (str, type(None)), "it does not say what was changed")
            agent = payload.get("agentId") if type(payload.get("agentId")) is str else ""
            must(index > last and about(payload["subject"], action, agent), f"control record {index} does not belong there")
            last = index
            events.append((action, payload, record))
            self.checked.append(f"control record {index}, {record['timestamp']}: {action}, {payload['subject']}, by {payload['by'] or 'the service itself'}")
        return events

    def authority(self):
        record, company = self.file["record"], self.file["companyId"]
        match = (re.fullmatch(f"spiffe://[^/]*/company/{re.escape(company)}/agent/(.*)", one, re.S) for one in record.get("delegation", {}).get("delegationChain", []))
        agents = {record["payload"]["agentId"], *(m[1] for m in match if m)}
        def about(subject, action, agent):
            kind, _, name = subject.partition(":")
            return kind == "agent" and name in agents or kind == "passport" and agent in agents or kind == "signing-key" and name == self.by
        self.allowed = self.told(self.file.get("authority", {}).get("records", []), about)

    def passport(self):
        given, owner = self.file.get("passport"), ""
        def about(subject, action, agent):
            nonlocal owner
            if subject == "passport:" + given["jti"]:
                owner = agent if action == "passport.issued" else owner
                return True
            return action == "agent.disabled" and owner != "" and subject == "agent:" + owner
        self.events = self.told(given["records"], about) if given else []

    def status(self):
        status, last = self.file.get("status"), self.raw[-1]
        must(("passport" in self.file) == ("status" in self.file), "only one of passport and status is present")
        if not status:
            return
        state, at, why = status["status"], status.get("revokedAt"), status.get("reason")
        must(status["jti"] == self.file["passport"]["jti"] and status["companyId"] == self.file["companyId"], "the status is of another passport")
        must(state in ("valid", "revoked", "unknown") and (state == "revoked") == ("revokedAt" in status), "not a status")
        must(state == "revoked" or "reason" not in status, "a reason of nothing")
        pem = Ed25519PublicKey.from_public_bytes(last).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        must(status["caPublicKey"] == pem, "the status is of another key")
        signed = canonical({name: value for name, value in status.items() if name not in ("caPublicKey", "signature")})
        verify(last, unbase64url(status["signature"]), hashlib.sha256(signed.encode()).digest())
        for action, payload, _ in self.events:
            must(action != "passport.issued" or state != "unknown", "the passport was issued")
            must(action not in ("passport.revoked", "agent.disabled") or state == "revoked", "the passport was revoked")
            then, reason = payload.get("revokedAt") if type(payload.get("revokedAt")) is str else "", canonical(payload.get("reason"))
            must(action != "passport.revoked" or then == at and reason == canonical(why), "the passport was revoked otherwise")
        self.checked.append(f"passport {status['jti']}: {state} at {status['checkedAt']}")

    def all_cosigned(self):
        must(self.cosigners == self.file["witnesses"], "the witnesses are not those who have cosigned")

    def unproven(self):
        return NOT_PROVEN + [said for said, members, others in NOT_PROVEN_OF if members & set(self.file) and not others & set(self.file)]

    def not_proven(self):
        must(self.file["notProven"] == self.unproven(), "notProven is not the list for the members of this file")

    def key(self):
        if self.fingerprint is None and self.policy is None:
            self.fingerprint = self.known.get(self.file["companyId"])
            self.is_known = self.fingerprint is not None
        must(self.fingerprint in [None, *(key["fingerprint"] for key in self.file["keys"])], "the file does not contain the key that you trust")

    def by_policy(self):
        if not self.policy:
            return
        logs, witnesses, groups, quorum = self.policy
        named = {(log["origin"], self.raw[-1]) for log in self.file["logs"]} & {(log["name"], log["raw"]) for log in logs}
        must(named, "the policy does not name the last key")
        for _, _, _, lines, body in self.notes.values():
            names = {"none", *(name for name, w in witnesses if list(cosigned_by(lines[1:], body, [w])))}
            for name, k, members in groups:
                names |= {name} if len(names & set(members)) >= k else set()
            must(quorum in names, "a checkpoint is not cosigned by a quorum of the policy")
