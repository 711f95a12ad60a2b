  said(entries, about) { // control records, each of which must be about what it may be about
    let last = -1n;
    return entries.map(({ record, tlogProof }) => {
      this.signed(this.logs.control, record);
      this.placed(this.logs.control, record, tlogProof);
      const { index, timestamp: at, payload: { actionType: action, payload } } = record;
      const own = (name) => (Object.hasOwn(payload, name) ? payload[name] : undefined), text = (name) => (isString(own(name)) ? own(name) : "");
      must(payload && typeof payload === "object" && !Array.isArray(payload), "it does not say what was changed");
      must(isString(own("subject")) && (isString(own("by")) || own("by") === null), "it does not name what was changed and by whom");
      must(index > last && about(own("subject"), action, text("agentId")), `control record ${index} does not belong there`);
      last = index;
      this.checked.push(`control record ${index}, ${at}: ${action}, ${own("subject")}, by ${own("by") || "the service itself"}`);
      return { action, payload, record, revokedAt: text("revokedAt"), reason: canonical(own("reason") ?? null) };
    });
  }

  authority() {
    const { record: { payload: { agentId }, delegation }, companyId, authority } = this.file, agents = new Set([agentId]);
    for (const id of delegation?.delegationChain ?? []) {
      const path = id.slice(id.indexOf("/", 9) + 1), prefix = `company/${companyId}/agent/`;
      if (id.startsWith("spiffe://") && id.indexOf("/", 9) > 0 && path.startsWith(prefix)) agents.add(path.slice(prefix.length));
    }
    this.allowed = this.said(authority?.records ?? [], (subject, action, agent) => {
      const [kind] = subject.split(":", 1), name = subject.slice(kind.length + 1);
      return kind === "agent" ? agents.has(name) : kind === "passport" ? agents.has(agent) : kind === "signing-key" && name === this.by;
    });
  }

  passport() {
    const { passport } = this.file;
    let owner = "";
    this.events = this.said(passport?.records ?? [], (subject, action, agent) => {
      if (subject !== `passport:${passport.jti}`) return action === "agent.disabled" && owner !== "" && subject === `agent:${owner}`;
      if (action === "passport.issued") owner = agent;
      return true;
    });
  }

  status() {
    const { status: answer, passport, companyId } = this.file, raw = this.raw.at(-1);
    must(Boolean(passport) === Boolean(answer), "only one of passport and status is present");
    if (!answer) return;
    const { caPublicKey, signature, ...signed } = answer, { status, revokedAt, reason } = signed, revoked = status === "revoked";
    must(answer.jti === passport.jti && answer.companyId === companyId, "the status is of another passport");
    must(["valid", "revoked", "unknown"].includes(status) && revoked === ("revokedAt" in answer) && (revoked || !("reason" in answer)), "not a status");
    const base64 = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw]).toString("base64");
    must(caPublicKey === `-----BEGIN PUBLIC KEY-----\n${base64}\n-----END PUBLIC KEY-----\n`, "the status is of another key");
    must(verifies(raw, unbase64url(signature), sha256(canonical(signed))), "the last key has not signed the status");
    for (const event of this.events) {
      must(event.action !== "passport.issued" || status !== "unknown", "the passport was issued");
      must(!["passport.revoked", "agent.disabled"].includes(event.action) || revoked, "the passport was revoked");
      must(event.action !== "passport.revoked" || event.revokedAt === revokedAt && event.reason === canonical(reason ?? null), "the passport was revoked otherwise");
    }
    this.checked.push(`passport ${passport.jti}: ${status} at ${answer.checkedAt}`);
  }

  allCosigned() {
    must(canonical(this.cosigners) === canonical(this.file.witnesses), "the witnesses are not those who have cosigned");
  }

  unproven() {
    const has = (name) => Object.hasOwn(this.file, name);
    return [...NOT_PROVEN, ...NOT_PROVEN_OF.filter(([, members, others = []]) => members.some(has) && !others.some(has)).map(([said]) => said)];
  }

  notProven() {
    must(canonical(this.file.notProven) === canonical(this.unproven()), "notProven is not the list for the members of this file");
  }

  key() {
    if (!this.fingerprint && !this.policy) {
      this.fingerprint = this.known.get(this.file.companyId);
      this.isKnown = this.fingerprint !== undefined;
    }
    must(!this.fingerprint || this.file.keys.some(({ fingerprint }) => fingerprint === this.fingerprint), "the file does not contain the key that you trust");
  }

  byPolicy() {
    if (!this.policy) return;
    const { logs, witnesses, groups, quorum } = this.policy, raw = this.raw.at(-1);
    must(this.file.logs.some(({ origin }) => logs.some((log) => log.name === origin && log.raw.equals(raw))), "the policy does not name the last key");
    for (const { others, body } of this.notes.values()) {
      const names = new Set(["none"]);
      for (const [name, witness] of witnesses) if (others.map((line) => cosigner(line, body, [witness])).some(Boolean)) names.add(name);
      for (const [name, k, members] of groups) if (members.filter((member) => names.has(member)).length >= k) names.add(name);
      must(names.has(quorum), "a checkpoint is not cosigned by a quorum of the policy");
    }
  }
