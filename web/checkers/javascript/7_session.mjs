const SESSION_NOT_PROVEN = [
  "That the agent did nothing else: this file shows one session of one key, not what came before it, after it or beside it.",
  "That nothing followed in a session that is open: only its end, which the agent signs, shows that.",
  "That what payloads say is true: only that they were signed, and that the service was given them, and when by the service's clock.",
  ...NOT_PROVEN.slice(2, 5),
  "That no other record of the control log bears on this session: what is missing here may stand there.",
  NOT_ORDERED, NOT_ONCE, NOT_OWN_KEY,
];
const HEADER = {
  format: oneOf("attestd-session/v1"), companyId: COMPANY, agentId: isString, kid: isThumbprint, sid: SESSION,
  records: (n) => number(n) && n >= 1n && n <= 1_000_000n, checkpoint: isString, logs: LOGS, keys: KEYS, witnesses: [isString, 16],
  agentKey: { records: ENTRIES }, notProven: [isString, 10_000],
};
const LINE = { record: RECORD, proof: [isString, 60] };
const LONGEST = 8 << 20; // of a line, in bytes

function isSession(line) { // by the first line of a file
  try {
    bounded(line);
    return read(decoded(line)).format === "attestd-session/v1";
  } catch {
    return false;
  }
}

export class Session extends Evidence { // the file of a session while it is checked, line by line
  places = new Places();
  calls = new Calls();
  tally = new Tally();
  // with a statement of version 1, and of those with a delegation; since the key was in other hands
  records = { older: 0, exchanged: 0, stolen: 0 };

  * steps() {
    yield* [["MALFORMED", this.header], ["KEYS", this.keys], ["WITNESSES", this.readWitnesses], ["LOG_PROOF", this.checkpoint], ["STATEMENT", this.whose]];
    yield* [["WITNESSES", this.allCosigned], ["NOT_PROVEN", this.notProven], ["KEY", this.key], ["POLICY", this.byPolicy]];
    for (let n = 0n; n < this.file.records; n++) {
      yield* [["MALFORMED", this.next], ["RECORD", this.record], ["LOG_PROOF", this.logProof], ["STATEMENT", this.statement]];
    }
    yield ["MALFORMED", this.end];
  }

  line(form, name) {
    const line = this.source.line(LONGEST);
    must(line.at(-1) === 10 && line.length <= LONGEST, `${name} is missing, or longer than ${LONGEST} bytes, or has no line feed`);
    bounded(line);
    const value = read(decoded(line));
    hasForm(value, form, name);
    return value;
  }

  header() {
    this.file = this.line(HEADER, "header");
    must(this.file.keys.length > 0, "keys is empty");
    this.opening();
  }

  needed() {
    return ["actions", "control"];
  }

  checkpoint() {
    const { size, root } = this.opened(this.logs.actions, this.file.checkpoint);
    Object.assign(this, { size, root });
  }

  whose() {
    this.keyChain(this.file.agentKey.records, this.file.agentId, this.file.kid);
    this.whoseWord("every record of this session");
  }

  unproven() {
    return SESSION_NOT_PROVEN;
  }

  next() {
    this.one = this.line(LINE, "line");
    must(this.one.proof.every((sibling) => unbase64(sibling).length === 32), "not a proof");
  }

  record() {
    this.signed(this.logs.actions, this.one.record);
  }

  logProof() {
    this.included(this.logs.actions, this.one.record, this.one.proof, this.size, this.root);
  }

  statement() {
    const { file, one: { record, record: { index, payload } } } = this;
    must(Object.hasOwn(payload, "statement"), `record ${index} has no statement`);
    must(payload.agentId === file.agentId, `record ${index} is of another agent`);
    const { claims } = this.signedByAgent(record), { sid, log, delegation, continues } = claims;
    must(sid === file.sid, `record ${index} is of another session`);
    this.places.add(claims, index, sha256(payload.statement).toString("hex"));
    this.continues ??= continues;
    this.last = claims;
    this.records.older += log === undefined;
    this.records.exchanged += log === undefined && delegation !== undefined;
    this.records.stolen += this.isStolen(record);
    this.acts(record);
    this.calls.add(record);
    this.tally.add(this, record);
  }

  end() {
    must(this.source.line(LONGEST).length === 0, "there are more lines than the header says");
    const { file: { sid, agentId, records }, places, continues, records: { older, exchanged, stolen } } = this, say = (line) => this.checked.push(line);
    say(`session ${sid} of the agent ${agentId}: ${records} records, ${this.calls.state(places.state())}`);
    this.signedFor(this.last);
    if (older > 0 && BigInt(older) < records) say(`${older} of its statements do not say which service they were made for: those are of the older form`);
    if (exchanged > 0) say(`${exchanged} of its statements cover the ID of a delegation alone, not what the delegation said`);
    if (continues) say(`it ${goesOn(continues)}`);
    say("a session that goes on from this one may exist elsewhere");
    for (const [seq, index] of places.recorded) {
      say(index < 0n ? `the service recorded number ${seq}, although it had told the agent that it refused a statement of that number; whether it is the same one is not compared here`
        : `the service recorded number ${seq}, record ${index}, although it had told the agent that it refused it`);
    }
    if (places.isMore) say("there are more numbers that the service recorded although it had told the agent that it refused them");
    if (stolen > 0) say(`the key was in other hands since ${this.stolen()}; ${stolen} of these records are of that time`);
  }
}
