// @ts-check
// The approvals in a file: whether people approved what its records did. What each check is,
// package evidence says.
import { approvalForm, approvalID, callOf, challengeOf, isApprovalID, personID, quorumOf } from '../approval.js';
import { unbase64url } from '../bytes.js';
import { hash, having, integer, json, list, refuse, string, timestamp } from '../form.js';
import { must } from '../note.js';
import { checkAssertion, passkey } from '../passkey.js';
import { table } from '../table.js';
import { shown } from './summary.js';

const APART = 5000; // ms, by which the times of the two logs may differ
const MOST_USES = 1000;
const MOST_NAMED = 10;
const MOST_ROLES = 10_000;

/** @type {Record<string, string>} */
const KINDS = table({
  'approval.granted': 'approval:', 'approval.denied': 'approval:', 'approval.used': 'approval:',
  'approval.withdrawn': 'approval:', 'passkey.enrolled': 'passkey:', 'passkey.revoked': 'passkey:',
  'person.created': 'person:', 'person.changed': 'person:', 'person.deleted': 'person:',
});

/**
 * Bytes in base64url, at most so many.
 * @param {number} most
 * @returns {Form<Bytes>}
 */
const blob = (most) => (node, source, name) => {
  const bytes = unbase64url(string(node, source, name));
  return bytes.length <= most ? bytes : refuse(name, `at most ${most} bytes`);
};

/** @type {Form<number>} */
const algorithm = (node, source, name) =>
  node.type === 'number' && /^-[1-9][0-9]{0,5}$/.test(node.lexeme) ? Number(node.lexeme)
    : refuse(name, 'the number of an algorithm');
const asked = having({ approvalId: approvalID, expiresAt: timestamp });
const enrolledForm = having({ personId: personID, credentialId: string, publicKey: blob(1024), algorithm });
const personForm = having({ roles: list(string, MOST_ROLES) }, { disabledAt: json });
const grantForm = having({
  object: approvalForm, credentialId: string, authenticatorData: blob(1024), clientDataJSON: blob(4096),
  signature: blob(512),
});
const useForm = having({ approvalId: string, log: string, index: integer, hash, remaining: integer });

/**
 * @typedef {{record: LogRecord, call: ReturnType<typeof callOf>, name: string, ends?: string}}
 *   Asked
 * @typedef {Awaited<ReturnType<typeof passkey>> & {at: number, person: string, isRevoked: boolean}}
 *   Passkey
 * @typedef {{index: number, timestamp: string, at: number, origin: string, fingerprint: string,
 *   object: ReturnType<typeof approvalForm>}} Grant
 * @typedef {{request: Asked, grants: Grant[], end: string, uses: number, left: number,
 *   used: Map<number, {hash: string, grants: Grant[]}>}} Approval
 */

/**
 * Whether an event may stand among those of approvals.
 * @param {ControlEvent} event
 */
export const isOfApprovals = ({ subject, action }) =>
  KINDS[action] !== undefined && subject.startsWith(KINDS[action]);

/**
 * The approval by which a record was allowed; undefined for none.
 * @param {LogRecord} record
 */
export const approvalOf = ({ decision }) => (decision?.verdict === 'allow' ? decision.approval : undefined);

/** What a file says of approvals. */
export class Approvals {
  held = false; // the file has them

  origin = ''; // of the log of actions

  recorded = 0; // how many records were allowed with one

  missing = ''; // ID of the first that the file does not have

  /** @type {Map<number, Asked>} */
  requests = new Map();

  /** @type {Map<string, Passkey>} */
  passkeys = new Map(); // by credential ID

  /** @type {Map<string, {isGone: boolean, isApprover: boolean}>} */
  people = new Map();

  /** @type {Map<string, Approval>} */
  byID = new Map();

  /** @type {string[]} */
  named = []; // by whose passkeys, in words

  /** @param {string[] | undefined} pins fingerprints of the passkeys of approvers */
  constructor(pins) {
    this.pins = pins;
  }

  /**
   * A record that asked.
   * @param {LogRecord} record
   */
  ask(record) {
    const { index, actionType, inner, source, decision } = record;
    let name = decision?.verdict === 'ask' ? decision.approval : undefined;
    let ends;
    if (actionType === 'approval.requested')
      ({ approvalId: name, expiresAt: ends } = asked(inner, source, `record ${index}`));
    must(name !== undefined && isApprovalID(name), `record ${index} asked for no approval`);
    this.requests.set(index, { record, call: callOf(record), name, ends });
  }

  /** @param {ControlEvent & {source: string}} event */
  async add(event) {
    const name = event.subject.slice(KINDS[event.action].length);
    switch (event.action) {
      case 'passkey.enrolled': await this.#enrol(name, event); break;
      case 'passkey.revoked': {
        const key = this.passkeys.get(name);
        if (key) key.isRevoked = true;
        break;
      }
      case 'person.deleted': this.people.set(name, { isGone: true, isApprover: false }); break;
      case 'person.created':
      case 'person.changed': {
        const { roles, disabledAt } = personForm(event.inner, event.source, `control record ${event.index}`);
        const isGone = disabledAt !== undefined && disabledAt.node.type !== 'null';
        this.people.set(name, { isGone, isApprover: roles.includes('approver') });
        break;
      }
      case 'approval.withdrawn': {
        const one = this.byID.get(name);
        if (one) one.end = 'it was withdrawn';
        break;
      }
      case 'approval.used': this.#use(name, event); break;
      default: await this.#decide(name, event);
    }
  }

  /**
   * @param {string} name
   * @param {ControlEvent & {source: string}} event
   */
  async #enrol(name, { index, timestamp: time, inner, source }) {
    const said = enrolledForm(inner, source, `control record ${index}`);
    const key = await passkey(said.publicKey);
    must(said.credentialId === name && said.algorithm === key.algorithm,
      `control record ${index} does not name the passkey and its algorithm`);
    must(!this.passkeys.has(name), `control record ${index} enrols a passkey twice`);
    this.passkeys.set(name, { ...key, at: Date.parse(time), person: said.personId, isRevoked: false });
  }

  /**
   * What a person decided.
   * @param {string} name
   * @param {ControlEvent & {source: string}} event
   */
  async #decide(name, { index, timestamp: time, action, by, inner, source }) {
    const what = `control record ${index}`;
    const { object, credentialId, ...assertion } = grantForm(inner, source, what);
    const { approvalId, person, verdict } = object;
    const at = Date.parse(time);
    const key = this.passkeys.get(credentialId);
    must(key, `not complete: nothing before ${what} enrolled the passkey that signed it`);
    must(!key.isRevoked, `the passkey of ${what} was revoked before`);
    must(key.person === person && by === `person:${person}`, `${what} is of another person than its passkey`);
    must(key.at - at <= APART, `the passkey of ${what} was enrolled later`);
    must(approvalId === name && (verdict === 'approve') === (action === 'approval.granted'),
      `the object of ${what} is of another approval, or of another verdict`);
    const known = this.people.get(person);
    must(!known || (known.isApprover && !known.isGone), `${person} was no approver at ${what}`);
    const origin = await checkAssertion(assertion, key, await challengeOf(object.node));
    this.#grant(what, { index, timestamp: time, at, origin, object, fingerprint: key.fingerprint });
  }

  /**
   * A decision whose signature was checked: what it is about.
   * @param {string} what
   * @param {Grant} grant
   */
  #grant(what, grant) {
    const { at, object } = grant;
    const { approvalId, log, index, hash: hashed, agentId, tool, person, verdict, uses, expiresAt } = object;
    const request = this.requests.get(index);
    must(request, `not complete: the record of which ${what} is is not in the file`);
    must(log === this.origin && hashed === request.record.hash && approvalId === request.name,
      `the object of ${what} is of another record`);
    must(agentId === request.call.agent && tool === request.call.tool,
      `the object of ${what} names another agent or tool`);
    must(Date.parse(request.record.timestamp) - at <= APART, `${what} was made before the record that it is about`);
    for (const end of [expiresAt, request.ends])
      must(end === undefined || at - Date.parse(end) <= APART, `${what} was made after the end of the approval`);
    /** @type {Approval} */
    const one = this.byID.get(approvalId)
      ?? { request, grants: [], end: '', uses: MOST_USES, left: MOST_USES, used: new Map() };
    this.byID.set(approvalId, one);
    must(one.request === request, `${what} approves another record than another person`);
    must(one.end === '', `the approval ${approvalId} had ended: ${one.end}`);
    must(one.grants.every(({ object: other }) => other.person !== person), `${person} decided twice`);
    if (verdict === 'deny') {
      one.end = `${person} denied it`;
      return;
    }
    one.grants.push(grant);
    one.uses = Math.min(one.uses, uses);
    if (!one.used.size) one.left = one.uses;
  }

  /**
   * @param {string} name
   * @param {ControlEvent & {source: string}} event
   */
  #use(name, { index, inner, source }) {
    const said = useForm(inner, source, `control record ${index}`);
    const one = this.byID.get(name);
    must(said.approvalId === name && said.log === this.origin,
      `control record ${index} does not name the approval, and the record that used it`);
    must(one && one.grants.length > 0, `not complete: nothing before control record ${index} granted the approval`);
    must(one.end === '', `the approval ${name} had ended: ${one.end}`);
    must(said.remaining < one.left, `the approval ${name} was used more often than was approved`);
    must(!one.grants.some(({ object }) => this.people.get(object.person)?.isGone),
      `one who approved ${name} was disabled or deleted before its use`);
    must(!one.used.has(said.index), `record ${said.index} used the approval ${name} twice`);
    one.left = said.remaining;
    one.used.set(said.index, { hash: said.hash, grants: [...one.grants] });
  }

  /**
   * Holds the approval by which a record was allowed, if it was. demanded has the quorums of the
   * policies, undefined where the file does not have them. Returns who approved it.
   * @param {LogRecord} record
   * @param {Map<string, number[]> | undefined} demanded
   */
  hold(record, demanded) {
    const name = approvalOf(record);
    if (name === undefined) return [];
    const { index } = record;
    this.recorded++;
    if (!this.held) {
      must(!this.pins, `you pinned a key of an approver, and the approval ${name} is not in the file`);
      this.missing ||= name;
      return [];
    }
    const one = this.byID.get(name);
    must(one, `not complete: the approval ${name} is not in the file`);
    const used = one.used.get(index);
    must(used && used.hash === record.hash, `nothing here says that record ${index} used the approval ${name}`);
    must(isSame(one.request.call, callOf(record)), `record ${index} does not ask for what was approved`);
    must(one.request.record.index < index, 'it was asked for later');
    used.grants.forEach((grant) => this.#given(grant, Date.parse(record.timestamp)));
    const quorum = demanded ? quorumOf(demanded, record.decision?.by ?? []) : 1;
    must(used.grants.length >= quorum, `${used.grants.length} approved it, and the policies demand ${quorum}`);
    used.grants.forEach((grant) => this.#name(grant));
    return used.grants;
  }

  /**
   * Requires that a person had approved what was done at a time, with a passkey that is known.
   * @param {Grant} grant
   * @param {number} at
   */
  #given({ at: granted, object: { person, expiresAt }, fingerprint }, at) {
    must(granted - at <= APART, `${person} approved it later`);
    must(at - Date.parse(expiresAt) <= APART, `the approval had ended, at ${expiresAt}`);
    must(!this.pins || this.pins.includes(fingerprint),
      `${person} approved it with a key that you did not pin, ${fingerprint}`);
  }

  /** @param {Grant} grant */
  #name({ object: { person }, fingerprint }) {
    const said = this.pins ? `by ${person}'s passkey ${fingerprint}, which you named`
      : `by a passkey that the company enrolled for ${person}, ${fingerprint}; that it is ${person}'s own is not ` +
        'confirmed';
    if (!this.named.includes(said) && this.named.length < MOST_NAMED) this.named.push(said);
  }

  /** The line of a summary; '' where nothing was allowed with an approval. */
  line() {
    if (!this.recorded) return '';
    if (!this.held) return `not in this file: nothing here shows who gave the approval ${this.missing}`;
    return (this.recorded > 1 ? `${this.recorded} records, ` : '') + this.named.join('; ');
  }
}

/**
 * @param {ReturnType<typeof callOf>} request
 * @param {ReturnType<typeof callOf>} call
 */
const isSame = (request, call) =>
  request.agent === call.agent && request.isCall === call.isCall && request.tool === call.tool &&
  request.arguments === call.arguments && ['', call.session, call.hooks].includes(request.session);

/**
 * What a person approved, in words.
 * @param {Grant} grant
 */
export function grantWords({ origin, timestamp: time, index, object }) {
  const { approvalId, index: of, uses, expiresAt, reason } = object;
  return `Approved on ${origin} at ${time}, control record ${index}: approval ${approvalId} of record ${of}, for ` +
    `${uses} use${uses === 1 ? '' : 's'} until ${expiresAt}` +
    `${reason === null ? '' : `; reason: ${shown(JSON.stringify(reason))}`}.`;
}
