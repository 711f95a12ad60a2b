// @ts-check
// Checks an evidence file, step by step in the order of package evidence. The first step that fails
// gives the code.
import { canonical } from '../jcs.js';
import { climb, sidesOf } from '../merkle.js';
import { must } from '../note.js';
import { goesOn, madeFor, readStatement } from '../statement.js';
import { Check, PrunedError, sameList } from './checkpoints.js';
import { AgentKeys, isOfAgentKey } from './agent_keys.js';
import { Approvals, approvalOf, grantWords, isOfApprovals } from './approvals.js';
import { bearsOn, checkStatus, notActor, ofPassport } from './control.js';
import { readFile } from './file.js';
import { checkKeys, neededLogs } from './keys.js';
import { notProven } from './not_proven.js';
import { Passports, isOfPassports } from './passports.js';
import { Policies, isOfPolicies } from './policies.js';

/**
 * @typedef {'form' | 'keys' | 'record' | 'hexProof' | 'witnesses' | 'logProof' | 'delegation' |
 *   'statement' | 'authority' | 'passport' | 'status' | 'decision' | 'approval' | 'cosigned' |
 *   'notProven' | 'trustedKey' | 'trustedPolicy'} Step
 */
/** @type {[string, Step][]} */
const STEPS = [
  ['MALFORMED', 'form'],
  ['KEYS', 'keys'],
  ['RECORD', 'record'],
  ['HEX_PROOF', 'hexProof'],
  ['WITNESSES', 'witnesses'],
  ['LOG_PROOF', 'logProof'],
  ['DELEGATION', 'delegation'],
  ['STATEMENT', 'statement'],
  ['AUTHORITY', 'authority'],
  ['PASSPORT', 'passport'],
  ['STATUS', 'status'],
  ['DECISION', 'decision'],
  ['APPROVAL', 'approval'],
  ['WITNESSES', 'cosigned'],
  ['NOT_PROVEN', 'notProven'],
  ['KEY', 'trustedKey'],
  ['POLICY', 'trustedPolicy'],
];

/**
 * An evidence file while it is checked.
 * @extends {Check<EvidenceFile>}
 */
export class EvidenceCheck extends Check {
  /** @type {SignedRecord} */
  subject; // the record, once it was checked

  /** @type {AgentKeys | undefined} */
  agentKeys; // where the record has a statement

  /** @type {string | null} */
  notActor = null; // of a record whose delegation was given to another one

  /** @type {ControlEvent[]} */
  allowed; // events of the authority

  /** @type {ControlEvent[]} */
  ofPassport; // events of the passport

  #policies = new Policies();

  #passports = new Passports();

  /** @type {Approvals} */
  approvals;

  /**
   * @param {Bytes} bytes
   * @param {Trust} trust
   */
  constructor(bytes, trust) {
    super(trust);
    this.bytes = bytes;
    this.approvals = new Approvals(trust.approvers);
  }

  form() {
    this.file = readFile(this.bytes);
    this.say(`It has the form of attestd-evidence/v1, of the company ${this.file.companyId}.`);
  }

  needed() {
    return neededLogs(this.file);
  }

  async keys() {
    const { keys, logs } = await checkKeys(this.file, this.needed());
    Object.assign(this, { all: keys, logs, last: keys.at(-1) });
    this.say(
      keys.length > 1
        ? `The company’s ${keys.length} keys follow from one another, up to ${this.last.fingerprint}.`
        : `The company’s key is ${this.last.fingerprint}.`,
    );
  }

  async record() {
    this.subject = await this.signed(this.file.record, this.log(this.file.log));
    const { index, timestamp, agentId, actionType, signer } = this.subject;
    this.say(
      `Record ${index} of the log ${this.file.log} (${timestamp}, ${agentId}, ${actionType}) is as key ${signer.kid} ` +
        `signed it.`,
    );
  }

  async hexProof() {
    const { proof, root, size } = this.file.hexProof;
    const { index, hash } = this.subject;
    must(index < size, `there is no record ${index} in a tree of ${size}`);
    must(
      sidesOf(index, size).join() === proof.map(({ position }) => position).join(),
      `the steps do not match record ${index} in a tree of ${size}`,
    );
    must((await climb(hash, proof)).root === root, 'the steps do not lead to the chain root');
    this.say(`Its hash leads to the chain root ${root} of ${size} records.`);
  }

  async logProof() {
    const { log, tlogProof, hexProof } = this.file;
    const { size } = await this.placed(this.subject, this.log(log), tlogProof);
    must(size === BigInt(hexProof.size), `the checkpoint is of ${size} records, and hexProof of ${hexProof.size}`);
    this.say('It is in the log that standard tools read, below that checkpoint.');
  }

  delegation() {
    const { delegation, record } = this.file;
    /** @param {JSONText | undefined} value */
    const of = (value) => (value ? canonical(value.node) : '');
    must(of(delegation) === of(record.delegation), 'delegation differs from record.delegation');
    if (this.file.log === 'actions') this.acts();
  }

  /** Names who used what was given to another one: a file that holds may have such a record. */
  acts() {
    const { index, agentId } = this.subject;
    const actor = notActor(this.subject);
    if (actor === null || this.notActor !== null) return;
    this.notActor = actor;
    this.say(`Record ${index} is of the agent ${agentId}, and its delegation was given to ${actor}.`);
  }

  async statement() {
    const { subject, file: { agentKey, companyId } } = this;
    if (subject.statement === undefined) {
      must(!this.pin, 'you pinned a key of the agent, and nothing here is signed with one');
      return;
    }
    const { kid } = readStatement(subject.statement);
    must(agentKey, `not complete: the control record of the key ${kid} is not in the file`);
    this.agentKeys = new AgentKeys(companyId, subject.agentId, this.log('actions').origin);
    await this.agentKeys.read(await this.events(agentKey.records, isOfAgentKey), kid);
    const { claims } = await this.agentKeys.signed(subject);
    this.say(this.agentKeys.whoseWord(this.pin, 'this'));
    this.say(madeFor(claims));
    if (claims.log === undefined && claims.delegation)
      this.say('Its statement covers the ID of the delegation alone, not what the delegation said.');
    this.sayPlace(claims);
    if (this.agentKeys.isStolen(subject)) this.say(`${this.agentKeys.sinceWhen()}.`);
  }

  /**
   * The place of a statement in its session.
   * @param {ReturnType<typeof readStatement>['claims']} claims
   */
  sayPlace({ sid, seq, refused, continues }) {
    if (sid === undefined) return;
    this.say(`It is number ${seq} of the session ${sid} of that key.`);
    if (refused)
      this.say(`It says that the service refused ${refused.length} earlier statements of that session, the first of ` +
        `them number ${refused[0].seq} (${refused[0].code}).`);
    if (continues) this.say(`The session ${goesOn(continues)}.`);
  }

  async authority() {
    if (this.file.authority)
      this.allowed = await this.events(this.file.authority.records, bearsOn(this.subject, this.subject.signer.kid));
  }

  async passport() {
    const { passport } = this.file;
    if (passport) this.ofPassport = await this.events(passport.records, ofPassport(passport.jti));
  }

  async status() {
    const { passport, status, companyId } = this.file;
    must(Boolean(passport) === Boolean(status), 'only one of passport and status is present');
    if (!status || !passport) return;
    await checkStatus(status, passport.jti, companyId, this.last, this.ofPassport);
    this.say(
      `The passport ${passport.jti} was ${status.status} at ${status.checkedAt}, as the company’s last key has signed.`,
    );
  }

  async decision() {
    const { subject, file: { policies, passports } } = this;
    must(!policies || subject.decision, 'policies are there, and the record has no decision');
    must(!passports || subject.decision?.passport,
      'passports are there, and the record has no decision that names one');
    await this.readPolicies();
    await this.holdDecision();
    this.sayDecisions();
  }

  /** Holds the decision of the record against the passports and the policies in the file. */
  async holdDecision() {
    this.#passports.hold(this.subject);
    await this.#policies.hold(this.subject);
  }

  sayDecisions() {
    this.#policies.sentences().forEach((sentence) => this.say(sentence));
  }

  /** The changes of policies, and the passports, in the file. */
  async readPolicies() {
    const { policies, passports } = this.file;
    if (policies) {
      this.#policies.begun = true;
      for (const event of await this.events(policies.records, isOfPolicies)) await this.#policies.add(event);
    }
    if (passports)
      for (const event of await this.events(passports.records, isOfPassports)) this.#passports.add(event, event.source);
  }

  async approval() {
    const has = approvalOf(this.subject) !== undefined;
    must(has || !this.file.approvals, 'approvals are there, and the record was not allowed with one');
    must(has || !this.approvals.pins, 'you pinned a key of an approver, and nothing here was allowed with an approval');
    await this.readApprovals();
    this.holdApproval().forEach((grant) => this.say(grantWords(grant)));
    this.sayApprovals();
  }

  /** Holds the approval by which the record was allowed; returns who gave it. */
  holdApproval() {
    return this.approvals.hold(this.subject, this.#policies.demanded(this.subject.decision));
  }

  sayApprovals() {
    const line = this.approvals.line();
    if (line) this.say(`Approved: ${line}.`);
  }

  /** What the file says of approvals. */
  async readApprovals() {
    const { file, approvals } = this;
    if (!file.approvals) return;
    const actions = this.log('actions');
    Object.assign(approvals, { held: true, origin: actions.origin });
    let last = -1;
    for (const { record, tlogProof } of file.approvals.requests) {
      must(!record.pruned, 'the payload of a record that asked was pruned');
      const read = await this.signed(record, actions);
      await this.placed(read, actions, tlogProof);
      must(read.index > last, `record ${read.index} does not stand in order`);
      last = read.index;
      approvals.ask(read);
    }
    for (const event of await this.events(file.approvals.records, isOfApprovals)) await approvals.add(event);
  }

  notProven() {
    must(sameList(this.file.notProven, notProven(this.file)), 'notProven is not the list for the members of this file');
  }
}

/**
 * Checks the bytes of a file with what the person trusts, {fingerprint} or {policy} (readPolicy) or
 * {}: {verdict, code, reason, checked, …}, with all that the steps have found. verdict is 'holds',
 * 'fails' or 'self-consistent'.
 * @param {Bytes} bytes
 * @param {Trust} trust
 */
export async function check(bytes, trust) {
  const found = new EvidenceCheck(bytes, trust);
  for (const [code, step] of STEPS) {
    try {
      await found[step]();
      found.passed.push(step);
    } catch (err) {
      return Object.assign(found, {
        verdict: 'fails',
        code: err instanceof PrunedError ? 'PRUNED' : code,
        failed: step,
        reason: err.message,
      });
    }
  }
  return Object.assign(found, {
    verdict: trust.fingerprint || trust.policy ? 'holds' : 'self-consistent',
    code: '',
    failed: '',
    reason: '',
  });
}
