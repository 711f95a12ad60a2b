
  // the keys of an agent from the one that signed on, each endorsed by the one behind it
  keyChain(entries, agent, kid) {
    const known = new Map(), actions = ["agent-key.enrolled", "agent-key.revoked"];
    Object.assign(this, { agent, audience: undefined, chain: [] });
    for (const { action, payload, record } of this.said(entries, (subject, what) => subject.startsWith("agent-key:") && actions.includes(what))) {
      const own = (name) => (Object.hasOwn(payload, name) ? payload[name] : undefined), thumbprint = own("thumbprint");
      must(isString(thumbprint) && thumbprint !== "" && payload.subject === `agent-key:${thumbprint}`, "not the control record of a key");
      must(agent !== "" && own("agentId") === agent, `control record ${record.index} is of a key of another agent`);
      if (!known.has(thumbprint)) known.set(thumbprint, { revoked: [] });
      const one = known.get(thumbprint);
      if (action === "agent-key.revoked") {
        const [reason, since] = ["reason", "since"].map((name) => own(name) ?? null);
        must([reason, since].every((value) => value === null || isString(value)) && (since === null || timestamp(since)), "not the control record of a revocation");
        one.revoked.push({ ...record, reason, since });
        continue;
      }
      must(!one.key, "a key is enrolled twice");
      const [expiresAt, enrolment, endorsement] = ["expiresAt", "enrolment", "endorsement"].map(own);
      must([expiresAt, enrolment, endorsement].every((value) => value === null || isString(value) && value !== ""), "not the control record of a key");
      must(expiresAt === null || timestamp(expiresAt), "expiresAt is not a timestamp");
      const version = { undefined: 1, 1: 1, 2: 2 }[own("statementVersion")];
      must(version && ["undefined", "bigint"].includes(typeof own("statementVersion")), "statementVersion is not 1 or 2");
      Object.assign(one, { thumbprint, version, expiresAt, enrolment, endorsement: endorsement && readEndorsement(endorsement), by: payload.by, record, key: agentKey(own("jwk")) });
      must(one.key.thumbprint === thumbprint, "jwk is another key than the control record says");
    }
    for (let one = known.get(kid), before; ; one = before) {
      must(one?.key, `not complete: the control record of the key ${kid} is not in the file`);
      this.chain.push(one);
      if (!one.endorsement) break;
      kid = one.endorsement.kid;
      before = known.get(kid);
      must(before?.key, `not complete: the control record of the key ${kid}, which signed for another one, is not in the file`);
      must(before.record.index < one.record.index, "a key stands before the one that signed for it");
      must(before.revoked.every(({ index }) => index > one.record.index), "the key that signed for another one was revoked before");
      this.named(one.endorsement);
      one.endorsement.check(before.key);
      must(one.endorsement.claims.jkt === one.thumbprint, "an endorsement is of another key");
      this.endorsedInLife(one, before);
    }
    [this.revoked] = this.chain[0].revoked.map(({ timestamp: at }) => at).sort();
    // when the key came into other hands, as it is known
    [this.since] = this.chain[0].revoked.filter(({ since }) => since !== null).sort((a, b) => (a.since < b.since ? -1 : a.since > b.since ? 1 : 0));
    must(this.chain.length === known.size, "there is a control record of a key from which the signing one does not follow");
  }

  // while the key before lived, and just before the next one was enrolled
  endorsedInLife({ endorsement: { claims: { iat } }, record }, before) {
    const made = Number(iat) * 1000, at = milliseconds(record.timestamp), expires = before.expiresAt === null ? Infinity : milliseconds(before.expiresAt);
    must(at < expires + 300_000, "the key that signed for another one had expired");
    must(made >= milliseconds(before.record.timestamp) - 60_000 && made < expires, "an endorsement was not made while its key lived");
    must(made <= at + 60_000 && made >= at - 300_000, "an endorsement was not made when the next key was enrolled");
  }

  named({ claims: { iss, aud } }) { // by the SPIFFE IDs of company and agent, in one trust domain
    const domain = /^spiffe:\/\/([^/]+)\//.exec(aud);
    must(domain && aud === `${domain[0]}company/${this.file.companyId}`, "aud is not the SPIFFE ID of the company");
    must(iss === `${aud}/agent/${this.agent}`, "iss is not the SPIFFE ID of the agent");
    must((this.audience ??= aud) === aud, "aud is of another trust domain than what a key of the agent signed before");
  }

  // returns the statement
  signedByAgent({ payload: { statement, ...action }, timestamp: time, delegation }) {
    const said = readStatement(statement), { claims, kid } = said, [signer] = this.chain, at = milliseconds(time), age = at - Number(claims.iat) * 1000;
    must(signer.version === 1 || Object.hasOwn(claims, "log"), "the statement does not name its log, and its key was enrolled since statements do");
    said.check(signer.key);
    this.named(said);
    must((claims.log ?? this.logs.actions.origin) === this.logs.actions.origin, "the statement was made for another log");
    must(claims.action_hash === digestOfParts([action]).toString("hex"), "the statement is of another action");
    const authority = !delegation ? "" : Object.hasOwn(claims, "log") ? digestOfParts([delegation]).toString("hex") : delegation.tokenId;
    must((claims.delegation ?? "") === authority, "the statement is of another delegation");
    must(age >= -60_000 && age <= 30 * 86400_000 + 300_000, "the statement was not made at the time of the record");
    must(signer.record.timestamp <= time, `the key ${kid} was enrolled after the record`);
    must(signer.expiresAt === null || at < milliseconds(signer.expiresAt) + 300_000, `the key ${kid} expired before the record`);
    must(!this.revoked || milliseconds(this.revoked) + 5_000 >= at, `the key ${kid} was revoked before the record`);
    return said;
  }

  whoseWord(what) { // as far as it is known; a pin that does not fit is refused
    const [{ thumbprint, endorsement, enrolment, by: credential, record }] = this.chain, pin = this.agentKey;
    const by = endorsement ? `the key before it, ${endorsement.kid}` : enrolment ? `the enrolment token ${enrolment}`
      : `an admin's credential, ${credential || "the service itself"}`;
    const who = `${thumbprint}, enrolled at ${record.timestamp} by ${by}`;
    if (!pin) return this.checked.push(`a key that the company enrolled for this agent signed ${what}: ${who}`);
    must(this.chain.some((one) => one.thumbprint === pin), `the key that you pinned, ${pin}, did not sign this, nor for the key that did: ${who}`);
    this.checked.push(`the agent's own key ${thumbprint} signed ${what}${pin === thumbprint ? "" : `: it follows from the key that you pinned, ${pin}`}`);
  }

  statement() {
    const { record, agentKey: given } = this.file, { payload } = record;
    if (!Object.hasOwn(payload, "statement")) return must(!this.agentKey, "you pinned a key of the agent, and nothing here is signed with one");
    const { kid, claims } = readStatement(payload.statement);
    must(given, `not complete: the control record of the key ${kid} is not in the file`);
    this.keyChain(given.records, payload.agentId, kid);
    this.signedByAgent(record);
    this.whoseWord("this");
    this.signedFor(claims);
    if (!Object.hasOwn(claims, "log") && Object.hasOwn(claims, "delegation")) this.checked.push("its statement covers the ID of the delegation alone, not what the delegation said");
    this.place(claims);
    if (this.isStolen(record)) this.checked.push(`the key was in other hands since ${this.stolen()}`);
  }

  signedFor({ iss, aud, log }) { // and what an older statement leaves open
    this.checked.push(log !== undefined ? `its statement is by ${iss}, for ${aud} and its log ${log}`
      : `its statement is by ${iss}, for ${aud}, and does not say which service it was made for: another one may have the same names`);
  }

  place({ sid, seq, refused, continues }) { // in a session
    if (sid === undefined) return;
    this.checked.push(`it is number ${seq} of the session ${sid} of that key`);
    if (refused) this.checked.push(`it says that the service refused ${refused.length} earlier statements of that session, the first of them number ${refused[0].seq} (${refused[0].code})`);
    if (continues) this.checked.push(`the session ${goesOn(continues)}`);
  }

  isStolen({ timestamp: at }) {
    return this.since !== undefined && at >= this.since.since;
  }

  stolen() {
    const { since, reason } = this.since;
    return `${since}, says its revocation${reason ? ` (${reason})` : ""}`;
  }

  // names who used what was given to another one
  acts({ index, payload: { agentId }, delegation }) {
    const actor = delegation && delegation.act !== null ? delegation.delegationChain.at(-1) : undefined;
    if (actor === undefined || this.notActor !== undefined) return;
    const end = `/company/${this.file.companyId}/agent/${agentId}`, domain = actor.startsWith("spiffe://") && actor.slice(9).endsWith(end) ? actor.slice(9, -end.length) : "";
    if (domain !== "" && !domain.includes("/")) return;
    this.notActor = actor;
    this.checked.push(`record ${index} is of the agent ${agentId}, and its delegation was given to ${actor}`);
  }
}

const goesOn = ({ sid, kid, hash }) => `goes on from the session ${sid} of the key ${kid}, whose last statement has the hash ${hash}`;
