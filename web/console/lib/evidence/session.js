// @ts-check
// Checks the file of a session (attestd-session/v1), line by line: package evidence is its
// specification, and gives the codes.
import { text as utf8Text, unbase64, unbase64url } from '../bytes.js';
import { CallTracker, disobeyedText } from '../calls.js';
import { FormError, exactly, integer, list, oneOf, string, stringThat } from '../form.js';
import { lossless } from '../jcs.js';
import { member, parse } from '../json.js';
import { leads, leafHash, must } from '../note.js';
import { Sequence } from '../sequence.js';
import { goesOn, isThumbprint, madeFor, readStatement, session, statementHash } from '../statement.js';
import { AgentKeys, isOfAgentKey } from './agent_keys.js';
import { bounded } from './bounds.js';
import { EvidenceCheck, check } from './check.js';
import {
  agentKey, approvals, companyId, keys, log, notProven, passports, policies, record, witnesses,
} from './file.js';
import { checkKeys } from './keys.js';
import { sessionNotProven } from './not_proven.js';
import { PrunedError, sameList } from './checkpoints.js';
import { Tally } from './summary.js';

const FORMAT = 'attestd-session/v1';
const LONGEST = 8 << 20; // bytes of a line
const MOST = 1_000_000; // records
const MOST_NAMED = 10; // calls that disobeyed

/** @type {Form<number>} */
const records = (node, source, name) => {
  const count = integer(node, source, name);
  if (count < 1 || count > MOST) throw new FormError(`${name} is not from 1 to ${MOST}`);
  return count;
};
const headerForm = exactly({
  format: oneOf(FORMAT), companyId, agentId: string, kid: stringThat(isThumbprint, 'a thumbprint'), sid: session,
  records, checkpoint: string, logs: list(exactly(log), 2), keys, witnesses, agentKey, notProven,
}, { passports, policies, approvals });
const sibling = stringThat((s) => unbase64(s).length === 32, 'a hash in base64');
const lineForm = exactly({ record, proof: list(sibling, 60) });

/**
 * The lines of a file, each with its line feed.
 * @param {Bytes} bytes
 */
function* linesOf(bytes) {
  for (let from = 0, end; from < bytes.length; from = end) {
    const at = bytes.indexOf(0x0a, from);
    end = at < 0 ? bytes.length : at + 1;
    yield bytes.subarray(from, end);
  }
}

/**
 * A session while it is checked.
 * @extends {EvidenceCheck}
 */
export class SessionCheck extends EvidenceCheck {
  /** @type {SessionHeader} */
  header; // as it was read

  /** @type {{hashes: Bytes[], record: EvidenceRecord} | undefined} */
  line; // the one that is checked

  places = new Sequence();

  calls = new CallTracker();

  tally = new Tally();

  /** @type {DisobeyedCall[]} */
  disobeyed = []; // the first ones

  disobeyedCount = 0; // all of them

  /** @type {ReturnType<typeof readStatement>['claims'] | undefined} */
  claims; // of the last statement

  /** @type {{sid: string, kid: string, hash: string} | undefined} */
  continues; // of the first statement

  older = 0; // statements of version 1

  exchanged = 0; // those of them that have a delegation

  /** @type {Set<number>} */
  indexes = new Set(); // of its records

  sinceStolen = 0; // records of a time when the key was in other hands

  /**
   * @param {Bytes} bytes
   * @param {Trust} trust
   */
  constructor(bytes, trust) {
    super(bytes, trust);
    this.lines = linesOf(bytes);
  }

  /**
   * @template T
   * @param {Form<T>} form
   * @param {string} name
   * @returns {T}
   */
  take(form, name) {
    const { value: line } = this.lines.next();
    must(line && line.length <= LONGEST && line[line.length - 1] === 0x0a,
      `${name} is missing, or longer than ${LONGEST} bytes, or has no line feed`);
    const text = utf8Text(line);
    bounded(text);
    const node = parse(text);
    lossless(node);
    return form(node, text, name);
  }

  form() {
    this.header = this.take(headerForm, 'header');
    must(this.header.keys.length > 0, 'header.keys is empty');
    this.say(`It has the form of ${FORMAT}, of the company ${this.header.companyId}.`);
    // what the steps of evidence read
    this.file = /** @type {EvidenceFile} */ (/** @type {unknown} */ ({ ...this.header, log: 'actions' }));
  }

  needed() {
    return ['actions', 'control'];
  }

  async openedCheckpoint() {
    this.signedTree = await this.checkpoint(this.log('actions'), this.header.checkpoint);
  }

  async signer() {
    const { agentId, kid, agentKey: { records } } = this.header;
    this.agentKeys = new AgentKeys(this.header.companyId, agentId, this.log('actions').origin);
    await this.agentKeys.read(await this.events(records, isOfAgentKey), kid);
    this.say(this.agentKeys.whoseWord(this.pin, 'every record of this session'));
  }

  notProven() {
    must(sameList(this.header.notProven, sessionNotProven(this.header)), 'notProven is not the list for a session');
  }

  next() {
    const { record, proof } = this.take(lineForm, 'line');
    this.line = { record, hashes: proof.map(unbase64) };
  }

  async one() {
    must(this.line, 'no line');
    this.subject = await this.signed(this.line.record, this.log('actions'));
  }

  async place() {
    const { subject, line, signedTree } = this;
    must(line && signedTree && BigInt(subject.index) < signedTree.size, `record ${subject.index} is not in the log`);
    const leaf = await leafHash(subject.hash, unbase64url(subject.signature), subject.signer.raw);
    must(await leads(line.hashes, leaf, subject.index, signedTree),
      `the proof of record ${subject.index} does not lead to the log root of the checkpoint`);
  }

  async said() {
    const { header, subject } = this;
    const { index, statement } = subject;
    must(statement !== undefined && this.agentKeys, `record ${index} has no statement`);
    must(subject.agentId === header.agentId, `record ${index} is of another agent`);
    const { claims } = await this.agentKeys.signed(subject);
    const { sid, seq = 0, log, delegation } = claims;
    must(sid === header.sid, `record ${index} is of another session`);
    this.places.add({ ...claims, seq }, index, await statementHash(statement));
    this.indexes.add(index);
    this.continues ??= claims.continues;
    this.claims = claims;
    if (log === undefined) {
      this.older++;
      if (delegation) this.exchanged++;
    }
    if (this.agentKeys.isStolen(subject)) this.sinceStolen++;
    this.acts();
    this.tally.add(this.notActor, subject);
    this.heard();
  }

  end() {
    must(this.lines.next().done, 'there are more lines than the header says');
    const { header: { sid, agentId, records: count }, older, exchanged, sinceStolen } = this;
    this.say(`Session ${sid} of the agent ${agentId}: ${count} records, ${this.state()}.`);
    this.sayDecisions();
    this.sayApprovals();
    if (this.claims) this.say(madeFor(this.claims));
    if (older > 0 && older < count)
      this.say(`${older} of its statements do not say which service they were made for: those are of the older form.`);
    if (exchanged > 0)
      this.say(`${exchanged} of its statements cover the ID of a delegation alone, not what the delegation said.`);
    if (this.continues) this.say(`It ${goesOn(this.continues)}.`);
    this.say('A session that goes on from this one may exist elsewhere.');
    for (const sentence of this.places.served()) this.say(sentence);
    if (sinceStolen > 0)
      this.say(`${this.agentKeys?.sinceWhen()}; ${sinceStolen} of these records are of that time.`);
  }

  /** Looks whether the record shows that a call was refused and ran all the same. */
  heard() {
    const call = this.calls.add(this.subject.index, this.subject);
    if (!call) return;
    this.disobeyedCount++;
    if (this.disobeyed.length < MOST_NAMED) this.disobeyed.push(call);
  }

  /** Complete, open at n, or missing a–b; before that which calls disobeyed a refusal. */
  state() {
    const places = this.places.state();
    if (!this.disobeyedCount) return places;
    return `disobeyed: ${disobeyedText(this.disobeyed, this.disobeyedCount)}; ${places}`;
  }
}

/** @typedef {[string, (check: SessionCheck) => unknown]} SessionStep */
/** @type {SessionStep[]} */
const HEADER = [
  ['MALFORMED', (check) => check.form()],
  ['KEYS', (check) => check.keys()],
  ['WITNESSES', (check) => check.witnesses()],
  ['LOG_PROOF', (check) => check.openedCheckpoint()],
  ['STATEMENT', (check) => check.signer()],
  ['DECISION', (check) => check.readPolicies()],
  ['APPROVAL', (check) => check.readApprovals()],
  ['WITNESSES', (check) => check.cosigned()],
  ['NOT_PROVEN', (check) => check.notProven()],
  ['KEY', (check) => check.trustedKey()],
  ['POLICY', (check) => check.trustedPolicy()],
];
/** @type {SessionStep[]} */
const LINE = [
  ['MALFORMED', (check) => check.next()],
  ['RECORD', (check) => check.one()],
  ['LOG_PROOF', (check) => check.place()],
  ['STATEMENT', (check) => check.said()],
  ['DECISION', (check) => check.holdDecision()],
  ['APPROVAL', (check) => check.holdApproval()],
];

/** @param {SessionCheck} check */
function* steps(check) {
  yield* HEADER;
  for (let n = 0; n < check.header.records; n++) yield* LINE;
  yield /** @type {SessionStep} */ (['MALFORMED', () => check.end()]);
}

/**
 * Checks the bytes of the file of a session, as check does those of one record.
 * @param {Bytes} bytes
 * @param {Trust} trust
 */
export async function checkSession(bytes, trust) {
  const found = new SessionCheck(bytes, trust);
  for (const [code, step] of steps(found)) {
    try {
      await step(found);
    } catch (err) {
      const of = err instanceof PrunedError ? 'PRUNED' : code;
      return Object.assign(found, { verdict: 'fails', code: of, failed: code, reason: err.message });
    }
  }
  return Object.assign(found, { verdict: trust.fingerprint || trust.policy ? 'holds' : 'self-consistent' });
}

/** @param {Bytes} bytes */
function isSession(bytes) {
  try {
    const { value: line } = linesOf(bytes).next();
    if (!line || line.length > LONGEST) return false;
    const text = utf8Text(line);
    bounded(text);
    const format = member(parse(text), 'format');
    return format?.type === 'string' && format.value === FORMAT;
  } catch {
    return false;
  }
}

/**
 * Checks a file of one record or of a session, whichever it is.
 * @param {Bytes} bytes
 * @param {Trust} trust
 */
export const checkFile = (bytes, trust) => (isSession(bytes) ? checkSession(bytes, trust) : check(bytes, trust));
