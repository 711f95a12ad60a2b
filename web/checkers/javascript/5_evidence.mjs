const signer = (log, { index }) => log.keys.findLast(({ fromIndex }) => fromIndex <= index);

export class Evidence { // a file while it is checked
  checked = [];
  notes = new Map(); // of each log its one checkpoint
  cosigners = [];

  // known has fingerprints of companies' keys: of them one counts without fingerprint and policy
  constructor(source, { fingerprint, policy, agentKey, known = new Map() } = {}) {
    Object.assign(this, { source, fingerprint, policy, agentKey, known, isKnown: false });
  }

  * steps() {
    yield* [["MALFORMED", this.form], ["KEYS", this.keys], ["RECORD", this.record], ["HEX_PROOF", this.hexProof], ["WITNESSES", this.readWitnesses]];
    yield* [["LOG_PROOF", this.logProof], ["DELEGATION", this.delegation], ["STATEMENT", this.statement], ["AUTHORITY", this.authority]];
    yield* [["PASSPORT", this.passport], ["STATUS", this.status], ["WITNESSES", this.allCosigned], ["NOT_PROVEN", this.notProven]];
    yield* [["KEY", this.key], ["POLICY", this.byPolicy]];
  }

  verdict() { // {verdict, code, reason}
    for (const [code, check] of this.steps()) {
      try {
        check.call(this);
      } catch (refused) {
        return { verdict: "fails", code: refused instanceof Pruned ? "PRUNED" : code, reason: refused.message };
      }
    }
    if (this.fingerprint || this.policy) return { verdict: "holds", code: "", reason: "" };
    return { verdict: "self-consistent", code: "", reason: "key not confirmed: anyone can make such a file" };
  }

  form() {
    const text = textOf(this.source);
    this.source = null; // one of them is enough to hold
    const file = this.file = read(text);
    hasForm(file, EVIDENCE, "file");
    must(file.keys.length > 0, "keys is empty");
    const { payload } = file.record;
    must(!file.agentKey || payload && typeof payload === "object" && Object.hasOwn(payload, "statement"), "agentKey is there, and the record has no statement");
    this.opening();
  }

  opening() { // what the checks use of the form
    const { file } = this;
    this.entries = [...file.agentKey?.records ?? [], ...file.passport?.records ?? [], ...file.authority?.records ?? []];
    this.logs = Object.fromEntries(file.logs.map((log) => [log.log, log]));
    this.raw = file.keys.map(({ jwk: { x } }) => unbase64url(x));
  }

  needed() { // the logs without which the file could not be checked
    const { file, raw, logs: { control } } = this, later = control && control.keys.length > 0 && control.keys.length !== raw.length;
    return [...(file.log === "actions" || later ? ["actions"] : []), ...(file.log === "control" || this.entries.length > 0 ? ["control"] : [])];
  }

  keys() {
    const { file, raw } = this, count = raw.length, needed = this.needed();
    file.keys.forEach((key, i) => {
      const digest = sha256(Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), raw[i]])), kid = digest.toString("hex").slice(0, 16);
      const is = { kid, fingerprint: `SHA256:${digest.toString("base64url")}`, jwk: { kty: "OKP", crv: "Ed25519", x: key.jwk.x, kid, alg: "EdDSA", use: "sig" } };
      must(canonical(key) === canonical(is), "a key is not the one that it says");
    });
    must(new Set(file.keys.map(({ jwk: { x } }) => x)).size === count, "a key stands twice");
    must(canonical(file.logs.map(({ log }) => log)) === canonical(needed), `the logs are not ${needed}`);
    for (const { log, logId, origin, keys } of file.logs) {
      must(origin.endsWith(`/v1/log/${logId}`), "an origin is of another log");
      must(keys.length > 0 && keys.length <= count && (log === "control" || keys.length === count), "a log has not its keys");
      keys.forEach((one, i) => {
        one.raw = raw[count - keys.length + i];
        must(one.kid === file.keys[count - keys.length + i].kid, "a log has other keys");
        if (i === 0) return must(one.fromIndex === 0n && !one.rotation, "the first key of a log is missing");
        const old = keys[i - 1], { statement, oldSignature, newSignature } = one.rotation;
        must(one.fromIndex >= old.fromIndex, "the keys are not in order");
        const both = file.keys.slice(count - keys.length).slice(i - 1, i + 1);
        must(statements(origin, one.fromIndex, ...both).includes(statement), "the proof is of another rotation");
        for (const [key, signature] of [[old, oldSignature], [one, newSignature]]) {
          must(verifies(key.raw, unbase64url(signature), Buffer.from(statement)), "a rotation is not signed by both keys");
        }
      });
    }
    this.checked.push(`keys: ${count}, each named by the one before it, up to ${file.keys.at(-1).fingerprint}`);
  }

  signed(log, record) {
    checkSigned(record, this.file.companyId, log.log, (digest) =>
      must(verifies(signer(log, record).raw, unbase64url(record.signature), digest), "it was not signed with the company's key at that time"));
  }

  record() {
    const { record, log: name } = this.file, log = this.logs[name];
    this.signed(log, record);
    const { index, timestamp: at, payload: { agentId, actionType } } = record;
    this.by = signer(log, record).kid;
    this.checked.push(`record ${index} of ${name}, ${at}, ${agentId}, ${actionType}: signed by key ${this.by}`);
  }

  hexProof() {
    const { hexProof: { proof, root, size }, record: { index, hash } } = this.file, steps = proof.values();
    must(index < size, "there is no such record in the tree");
    let node = hash;
    for (let at = index, n = size - 1n; n > 0n; at >>= 1n, n >>= 1n) {
      if (!(at & 1n) && at >= n) continue;
      const { value: step } = steps.next();
      must(step, "a step is missing");
      const { sibling, position } = step;
      must((position === "left") === Boolean(at & 1n), "a step is on the other side");
      node = sha256(position === "left" ? sibling + node : node + sibling).toString("hex");
    }
    must(steps.next().done && node === root, "the steps do not lead to the chain root");
    this.checked.push(`its hash leads to the chain root ${root} of ${size} records`);
  }

  readWitnesses() {
    this.witnesses = this.file.witnesses.map((vkey) => readVKey(vkey, 4));
    must(new Set(this.witnesses.map(({ raw }) => raw.toString("hex"))).size === this.witnesses.length, "a witness stands twice");
  }

  opened({ log, origin, keys }, signed) { // a log's one checkpoint, once its signatures are checked
    if (!this.notes.has(log)) {
      const { raw } = keys.at(-1), parts = signed.split("\n\n"), [head, size, root, ...rest] = parts[0].split("\n"), body = `${parts[0]}\n`;
      must(parts.length === 2 && rest.length === 0 && head === origin && isName(origin) && /^(0|[1-9][0-9]*)$/.test(size), "the checkpoint is of another log");
      must(BigInt(size) < 2n ** 53n && unbase64(root).length === 32, "not a checkpoint");
      const [[name, blob], ...others] = signatureLines(parts[1]);
      must(name === origin && blob.subarray(0, 4).equals(keyID(origin, 1, raw)) && blob.length === 68, "the last key has not signed the checkpoint");
      must(verifies(raw, blob.subarray(4), Buffer.from(body)), "the last key has not signed the checkpoint");
      const by = others.map((line) => cosigner(line, body, this.witnesses)?.vkey);
      must(!by.includes(undefined) && new Set(by).size === by.length, "a line below the checkpoint is of nobody, or of somebody twice");
      this.cosigners.push(...by.filter((vkey) => !this.cosigners.includes(vkey)));
      this.notes.set(log, { signed, size: BigInt(size), root: unbase64(root), others, body });
      this.checked.push(`checkpoint of ${log} at ${size} records, signed by the last key and cosigned by ${by.join(", ") || "nobody"}`);
    }
    must(this.notes.get(log).signed === signed, "the checkpoint is another one");
    return this.notes.get(log);
  }

  placed(log, record, proof) { // in the log that standard tools read; returns its size
    const cut = proof.indexOf("\n\n"), [version, at, ...lines] = proof.slice(0, cut).split("\n");
    must(cut > 0 && version === "c2sp.org/tlog-proof@v1" && at === `index ${record.index}`, "the proof is of another record");
    const { size, root } = this.opened(log, proof.slice(cut + 2));
    this.included(log, record, lines, size, root);
    return size;
  }

  included(log, record, siblings, size, root) {
    const hashes = siblings.map(unbase64);
    must(record.index < size && hashes.length <= 60 && hashes.every((h) => h.length === 32), "not a proof of the record");
    const join = (...parts) => sha256(Buffer.concat(parts));
    let node = join(Buffer.of(0), Buffer.from(record.hash, "hex"), unbase64url(record.signature), sha256(signer(log, record).raw));
    let i = record.index, n = size - 1n;
    for (const sibling of hashes) { // RFC 9162, section 2.1.3.2
      must(n > 0n, "the proof is too long");
      const left = Boolean(i & 1n) || i === n;
      node = left ? join(Buffer.of(1), sibling, node) : join(Buffer.of(1), node, sibling);
      for (; left && i > 0n && !(i & 1n); n >>= 1n) i >>= 1n;
      i >>= 1n;
      n >>= 1n;
    }
    must(n === 0n && node.equals(root), "the proof does not lead to the log root of the checkpoint");
  }

  logProof() {
    const { log, record, tlogProof, hexProof: { size } } = this.file;
    must(this.placed(this.logs[log], record, tlogProof) === size, "the two proofs are of trees of two sizes");
  }

  delegation() {
    const of = (object) => (Object.hasOwn(object, "delegation") ? canonical(object.delegation) : "");
    must(of(this.file) === of(this.file.record), "delegation differs from record.delegation");
    if (this.file.log === "actions") this.acts(this.file.record);
  }

