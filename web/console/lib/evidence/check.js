// @ts-check
// Checks an evidence file, step by step in the order of package evidence. The first step that fails
// gives the code.
import { hex, unbase64url } from '../bytes.js';
import { canonical } from '../jcs.js';
import { keyAt } from '../keyring.js';
import { climb, sidesOf } from '../merkle.js';
import {
  COSIGNER,
  LOG,
  cosignature,
  leads,
  leafHash,
  must,
  noteKey,
  readCheckpoint,
  readProof,
  readVKey,
  signedBy,
} from '../note.js';
import { quorum } from '../policy.js';
import { checkRecord, controlRecordForm, recordForm } from '../record.js';
import { bearsOn, checkStatus, eventOf, ofPassport } from './control.js';
import { readFile } from './file.js';
import { checkKeys } from './keys.js';
import { notProven } from './not_proven.js';

const STEPS = [
  ['MALFORMED', 'form'],
  ['KEYS', 'keys'],
  ['RECORD', 'record'],
  ['HEX_PROOF', 'hexProof'],
  ['WITNESSES', 'witnesses'],
  ['LOG_PROOF', 'logProof'],
  ['DELEGATION', 'delegation'],
  ['AUTHORITY', 'authority'],
  ['PASSPORT', 'passport'],
  ['STATUS', 'status'],
  ['WITNESSES', 'cosigned'],
  ['NOT_PROVEN', 'notProven'],
  ['KEY', 'trustedKey'],
  ['POLICY', 'trustedPolicy'],
];

export const sameList = (a, b) => a.length === b.length && a.every((element, i) => element === b[i]);

/** A file while it is checked. What a step has found is there for the next ones. */
export class Check {
  /** @type {string[]} */
  checked = []; // in words

  /** @type {string[]} */
  passed = []; // steps that found nothing wrong

  checkpoints = new Map(); // by log

  /** @type {any} */
  file; // as it was read

  /** @type {any} */
  all; // keys, the oldest first

  /** @type {any} */
  last; // of the keys

  /** @type {any} */
  logs; // by name, with their rings

  /** @type {any} */
  subject; // the record, once it was checked

  /** @type {any[]} */
  known = []; // witnesses

  /** @type {any} */
  allowed; // events of the authority

  /** @type {any} */
  ofPassport; // events of the passport

  /** @type {string[]} */
  cosigners = []; // vkeys, in the order in which they are met

  constructor(bytes, { fingerprint, policy }) {
    this.bytes = bytes;
    this.fingerprint = fingerprint;
    this.policy = policy;
  }

  say(words) {
    this.checked.push(words);
  }

  form() {
    this.file = readFile(this.bytes);
    this.say(`It has the form of attestd-evidence/v1, of the company ${this.file.companyId}.`);
  }

  async keys() {
    const { keys, logs } = await checkKeys(this.file);
    Object.assign(this, { all: keys, logs, last: keys.at(-1) });
    this.say(
      keys.length > 1
        ? `The company’s ${keys.length} keys follow from one another, up to ${this.last.fingerprint}.`
        : `The company’s key is ${this.last.fingerprint}.`,
    );
  }

  // The record is read in the form of recordForm, and its hash and signature are checked.
  async signed({ node, source }, { log, ring }) {
    const read = (log === 'control' ? controlRecordForm : recordForm)(node, source, 'record');
    const { ok, reason } = await checkRecord(read, { companyId: this.file.companyId, ring });
    must(ok, `record ${read.index}: ${reason}`);
    return { ...read, signer: keyAt({ ring }, read.index) };
  }

  async record() {
    this.subject = await this.signed(this.file.record, this.logs.get(this.file.log));
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
    must((await climb(hash, proof)).root === root, 'the steps do not lead to the root');
    this.say(`Its hash leads to the root ${root} of ${size} records.`);
  }

  async witnesses() {
    this.known = await Promise.all(this.file.witnesses.map((vkey) => readVKey(vkey, COSIGNER)));
    must(new Set(this.known.map(({ raw }) => hex(raw))).size === this.known.length, 'a witness stands twice');
  }

  // The one checkpoint of a log, once its signatures are checked.
  async checkpoint({ log, origin }, signed) {
    const known = this.checkpoints.get(log);
    if (known) {
      must(known.signed === signed, `the checkpoint of the log ${log} is another one`);
      return known;
    }
    /** @type {{vkey: string, at: string}[]} */
    const cosignatures = [];
    const read = { signed, cosignatures, ...readCheckpoint(signed) };
    must(read.origin === origin, `the checkpoint is of the log ${read.origin}`);
    must(
      await signedBy(read.lines[0], read.text, await noteKey(origin, LOG, this.last.raw)),
      'the last key has not signed the checkpoint in the first line',
    );
    this.say(
      `The checkpoint of the log ${log} (${origin}) at ${read.size} records is signed by the company’s last key.`,
    );
    const by = new Set();
    for (const line of read.lines.slice(1)) {
      const found = await cosignature(line, read.text, this.known);
      must(
        found && !by.has(found.witness),
        'a line below the checkpoint is of no witness of the file, or of one twice',
      );
      by.add(found.witness);
      cosignatures.push({ vkey: found.witness.vkey, at: timeOf(found.time) });
      if (!this.cosigners.includes(found.witness.vkey)) this.cosigners.push(found.witness.vkey);
      this.say(
        `It was cosigned at ${timeOf(found.time)} by ${found.witness.vkey}, a witness only if you know it as one.`,
      );
    }
    this.checkpoints.set(log, read);
    return read;
  }

  async placed(record, log, proof) {
    const { hashes, signed } = readProof(proof, record.index);
    const checkpoint = await this.checkpoint(log, signed);
    const leaf = await leafHash(record.hash, unbase64url(record.signature), record.signer.raw);
    must(await leads(hashes, leaf, record.index, checkpoint), 'the proof does not lead to the root of the checkpoint');
    return checkpoint;
  }

  async logProof() {
    const { log, tlogProof, hexProof } = this.file;
    const { size } = await this.placed(this.subject, this.logs.get(log), tlogProof);
    must(size === BigInt(hexProof.size), `the checkpoint is of ${size} records, and hexProof of ${hexProof.size}`);
    this.say('It stands in the log that standard tools read, below that checkpoint.');
  }

  delegation() {
    const { delegation, record } = this.file;
    const of = (value) => (value ? canonical(value.node) : '');
    must(of(delegation) === of(record.delegation), 'delegation differs from record.delegation');
  }

  // Control records in order, each of which must be about what about takes.
  async events(entries, about) {
    const events = [];
    const control = this.logs.get('control');
    for (const { record, tlogProof } of entries) {
      const read = await this.signed(record, control);
      await this.placed(read, control, tlogProof);
      const event = eventOf(read);
      must(!(event.index <= events.at(-1)?.index), `control record ${event.index} does not stand in order`);
      must(about(event), `control record ${event.index} is about something else, ${event.subject}`);
      events.push(event);
    }
    return events;
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
    if (!status) return;
    await checkStatus(status, passport.jti, companyId, this.last, this.ofPassport);
    this.say(
      `The passport ${passport.jti} was ${status.status} at ${status.checkedAt}, as the company’s last key has signed.`,
    );
  }

  cosigned() {
    must(
      sameList(this.cosigners, this.file.witnesses),
      'witnesses does not list exactly the cosigners, in order',
    );
  }

  notProven() {
    must(sameList(this.file.notProven, notProven(this.file)), 'notProven is not the list for the members of this file');
  }

  trustedKey() {
    if (!this.fingerprint) return;
    const at = this.all.findIndex(({ fingerprint }) => fingerprint === this.fingerprint);
    must(at >= 0, `the key that you trust, ${this.fingerprint}, is none of the file’s`);
    this.say(
      `The key that you trust, number ${at + 1} of ${this.all.length}, ` +
        `${this.all[at] === this.last ? 'has signed every checkpoint here'
          : 'is followed by the one that has signed every checkpoint here'}.`,
    );
  }

  /**
   * By whom a policy takes each checkpoint, as [{log, by}]. Throws where it does not. The file must
   * have passed all other steps.
   */
  async meets(policy) {
    const named = [...this.logs.values()].some(({ origin }) =>
      policy.logs.some(({ name, raw }) => name === origin && hex(raw) === hex(this.last.raw)),
    );
    must(named, 'the policy has no log with the key that has signed the checkpoints');
    const accepted = [];
    for (const [log, checkpoint] of this.checkpoints) {
      const by = await quorum(policy, checkpoint);
      must(by, `the checkpoint of the log ${log} is not cosigned by a quorum of the policy`);
      accepted.push({ log, by });
    }
    return accepted;
  }

  async trustedPolicy() {
    if (!this.policy) return;
    for (const { log, by } of await this.meets(this.policy)) {
      this.say(
        `Your policy accepts the checkpoint of the log ${log}, cosigned by ` +
          `${by.join(', ') || 'no witness, for it asks for none'}.`,
      );
    }
  }
}

function timeOf(seconds) {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? `second ${seconds}` : date.toISOString().replace('.000Z', 'Z');
}

/**
 * Checks the bytes of a file with what the person trusts, {fingerprint} or {policy} (readPolicy) or
 * {}: {verdict, code, reason, checked, …}, with all that the steps have found. verdict is 'holds',
 * 'fails' or 'self-consistent'.
 */
export async function check(bytes, trust) {
  const found = new Check(bytes, trust);
  for (const [code, step] of STEPS) {
    try {
      await found[step]();
      found.passed.push(step);
    } catch (err) {
      return Object.assign(found, { verdict: 'fails', code, failed: step, reason: err.message });
    }
  }
  return Object.assign(found, {
    verdict: trust.fingerprint || trust.policy ? 'holds' : 'self-consistent',
    code: '',
    failed: '',
    reason: '',
  });
}
