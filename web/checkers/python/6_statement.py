
    # the keys of an agent from the one that signed on, each endorsed by the one behind it
    def key_chain(self, entries, agent, kid):
        known, self.agent, self.audience = {}, agent, None
        actions = ("agent-key.enrolled", "agent-key.revoked")
        for action, payload, record in self.told(entries, lambda subject, action, _: subject.startswith("agent-key:") and action in actions):
            thumbprint = payload["thumbprint"]
            must(type(thumbprint) is str and thumbprint != "" and payload["subject"] == "agent-key:" + thumbprint, "not the control record of a key")
            must(payload["agentId"] == agent != "", f"control record {record['index']} is of a key of another agent")
            of = known.setdefault(thumbprint, {"revoked": []})
            if action == "agent-key.revoked":
                reason, since = payload.get("reason"), payload.get("since")
                must(reason is None or text(reason), "reason is not a text")
                must(since is None or text(since) and seconds(since) is not None, "since is not a timestamp")
                of["revoked"].append({**record, "reason": reason, "since": since})
                continue
            must("key" not in of, "a key is enrolled twice")
            for name in ("expiresAt", "enrolment", "endorsement"):
                must(payload[name] is None or type(payload[name]) is str and payload[name] != "", f"{name} has not its form")
                of[name] = payload[name]
            must(of["expiresAt"] is None or seconds(of["expiresAt"]) is not None, "expiresAt is not a timestamp")
            version = payload.get("statementVersion", 1)
            must(type(version) is int and version in (1, 2), "statementVersion is not 1 or 2")
            of.update(thumbprint=thumbprint, version=version, by=payload["by"], record=record, key=agent_key(payload["jwk"]))
            must(of["key"][0] == thumbprint, "jwk is another key than the control record says")
        chain = []
        while kid:
            must("key" in known.get(kid, {}), f"not complete: the control record of the key {kid} is not in the file")
            one = known[kid]
            chain.append(one)
            kid = ""
            if one["endorsement"]:
                endorsed = read_endorsement(one["endorsement"])
                kid, before = endorsed.kid, known.get(endorsed.kid, {})
                must("key" in before, f"not complete: the control record of the key {kid}, which signed for another one, is not in the file")
                must(before["record"]["index"] < one["record"]["index"], "a key stands before the one that signed for it")
                must(all(revoked["index"] > one["record"]["index"] for revoked in before["revoked"]), "the key that signed for another one was revoked before")
                self.named(endorsed)
                endorsed.check(before["key"])
                must(endorsed.claims["jkt"] == one["thumbprint"], "an endorsement is of another key")
                # while the key before lived, and just before the next one was enrolled
                made, at, expires = endorsed.claims["iat"] * 1000, moment(one["record"]["timestamp"]), before["expiresAt"] and moment(before["expiresAt"])
                must(expires is None or at < expires + 300_000, "the key that signed for another one had expired")
                must(made >= moment(before["record"]["timestamp"]) - 60_000 and (expires is None or made < expires), "an endorsement was not made while its key lived")
                must(at - 300_000 <= made <= at + 60_000, "an endorsement was not made when the next key was enrolled")
        must(len(chain) == len(known), "there is a control record of a key from which the signing one does not follow")
        self.chain, self.revoked = chain, min((revoked["timestamp"] for revoked in chain[0]["revoked"]), default=None)
        # when the key came into other hands, as it is known
        self.since = min((revoked for revoked in chain[0]["revoked"] if revoked["since"]), key=lambda revoked: revoked["since"], default=None)

    def named(self, jws):  # by the SPIFFE IDs of company and agent, in one trust domain
        audience, issuer = jws.claims["aud"], jws.claims["iss"]
        must(re.fullmatch("spiffe://[^/]+/company/" + re.escape(self.file["companyId"]), audience), "aud is not the SPIFFE ID of the company")
        must(issuer == f"{audience}/agent/{self.agent}", "iss is not the SPIFFE ID of the agent")
        must(self.audience in (None, audience), "aud is of another trust domain than what a key of the agent signed before")
        self.audience = audience

    def signed_by_agent(self, record):  # returns the statement
        payload, signer = record["payload"], self.chain[0]
        said = read_statement(payload["statement"])
        claims, at, kid, origin = said.claims, moment(record["timestamp"]), said.kid, self.logs["actions"]["origin"]
        must(signer["version"] == 1 or "log" in claims, "the statement does not name its log, and its key was enrolled since statements do")
        said.check(signer["key"])
        self.named(said)
        must(claims.get("log", origin) == origin, "the statement was made for another log")
        action = digest_of_parts([{name: payload[name] for name in payload if name != "statement"}]).hex()
        must(claims["action_hash"] == action, "the statement is of another action")
        authority = record.get("delegation", {}).get("tokenId", "")
        if "log" in claims and "delegation" in record:
            authority = digest_of_parts([record["delegation"]]).hex()
        must(claims.get("delegation", "") == authority, "the statement is of another delegation")
        must(-30 * 86400_000 - 300_000 <= claims["iat"] * 1000 - at <= 60_000, "the statement was not made at the time of the record")
        must(signer["record"]["timestamp"] <= record["timestamp"], f"the key {kid} was enrolled after the record")
        must(signer["expiresAt"] is None or at < moment(signer["expiresAt"]) + 300_000, f"the key {kid} expired before the record")
        must(self.revoked is None or moment(self.revoked) + 5_000 >= at, f"the key {kid} was revoked before the record")
        return said

    def whose_word(self, what):  # as far as it is known; a pin that does not fit is refused
        one, pin = self.chain[0], self.agent_key
        kid, by = one["thumbprint"], f"an admin's credential, {one['by'] or 'the service itself'}"
        if one["endorsement"]:
            by = f"the key before it, {read_endorsement(one['endorsement']).kid}"
        elif one["enrolment"]:
            by = f"the enrolment token {one['enrolment']}"
        who = f"{kid}, enrolled at {one['record']['timestamp']} by {by}"
        must(pin is None or any(key["thumbprint"] == pin for key in self.chain), f"the key that you pinned, {pin}, did not sign this, nor for the key that did: {who}")
        follows = "" if pin == kid else f": it follows from the key that you pinned, {pin}"
        self.checked.append(f"a key that the company enrolled for this agent signed {what}: {who}" if pin is None else f"the agent's own key {kid} signed {what}{follows}")

    def statement(self):
        record, given = self.file["record"], self.file.get("agentKey")
        if "statement" not in record["payload"]:
            must(self.agent_key is None, "you pinned a key of the agent, and nothing here is signed with one")
            return
        kid = read_statement(record["payload"]["statement"]).kid
        must(given, f"not complete: the control record of the key {kid} is not in the file")
        self.key_chain(given["records"], record["payload"]["agentId"], kid)
        claims = self.signed_by_agent(record).claims
        self.whose_word("this")
        self.signed_for(claims)
        if "log" not in claims and "delegation" in claims:
            self.checked.append("its statement covers the ID of the delegation alone, not what the delegation said")
        if "sid" in claims:
            self.place(claims)
        if self.is_stolen(record):
            self.checked.append(f"the key was in other hands since {self.stolen()}")

    def signed_for(self, claims):  # and what an older statement leaves open
        iss, aud = claims["iss"], claims["aud"]
        self.checked.append(f"its statement is by {iss}, for {aud} and its log {claims['log']}" if "log" in claims else
            f"its statement is by {iss}, for {aud}, and does not say which service it was made for: another one may have the same names")

    def place(self, claims):  # in a session
        self.checked.append(f"it is number {claims['seq']} of the session {claims['sid']} of that key")
        if "refused" in claims:
            count, first = len(claims["refused"]), claims["refused"][0]
            self.checked.append(f"it says that the service refused {count} earlier statements of that session, the first of them number {first['seq']} ({first['code']})")
        if "continues" in claims:
            self.checked.append(f"the session {goes_on(claims['continues'])}")

    def is_stolen(self, record):
        return self.since is not None and record["timestamp"] >= self.since["since"]

    def stolen(self):
        return f"{self.since['since']}, says its revocation" + (f" ({self.since['reason']})" if self.since["reason"] else "")

    def acts(self, record):  # names who used what was given to another one
        agent, info = record["payload"]["agentId"], record.get("delegation")
        actor = info["delegationChain"][-1] if info and info["act"] is not None and info["delegationChain"] else None
        name = f"/company/{self.file['companyId']}/agent/{agent}"
        if actor is not None and self.not_actor is None and not re.fullmatch("spiffe://[^/]+" + re.escape(name), actor):
            self.not_actor = actor
            self.checked.append(f"record {record['index']} is of the agent {agent}, and its delegation was given to {actor}")
