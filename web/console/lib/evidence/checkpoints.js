// @ts-check
// What the checks of evidence files and of reports have in common: checkpoints, who has cosigned
// them, control records, and what the person trusts.
import { hex, unbase64url } from '../bytes.js';
import {
  COSIGNER, LOG, cosignature, leads, leafHash, must, noteKey, readCheckpoint, readProof, readVKey, signedBy,
} from '../note.js';
import { quorum } from '../policy.js';
import { checkRecord, controlRecordForm, recordForm } from '../record.js';
import { eventOf } from './control.js';

/**
 * Only the hash of a record could not be recomputed, because its payload was pruned: the code is
 * PRUNED.
 */
export class PrunedError extends Error {}

/**
 * @template T
 * @param {T[]} a
 * @param {T[]} b
 */
export const sameList = (a, b) => a.length === b.length && a.every((element, i) => element === b[i]);

/**
 * The key that signs a record of a log.
 * @param {EvidenceLog} log
 * @param {number} index
 */
export const signerOf = ({ ring }, index) =>
  ring.findLast(({ fromIndex }) => fromIndex <= index) ?? ring[ring.length - 1];

/**
 * A file while it is checked. What a step has found is there for the next ones.
 * @template {EvidenceLogs & {companyId: string, witnesses: string[], notProven: string[]}} F
 */
export class Check {
  /** @type {string[]} */
  checked = []; // in words

  /** @type {string[]} */
  passed = []; // steps that found nothing wrong

  verdict = ''; // holds, fails or self-consistent

  code = ''; // of what failed

  failed = ''; // the step that failed

  reason = '';

  /** @type {Map<LogName, CheckedCheckpoint>} */
  checkpoints = new Map(); // by log

  /** @type {F} */
  file; // as it was read

  /** @type {EvidenceKey[]} */
  all; // keys, the oldest first

  /** @type {EvidenceKey} */
  last; // of the keys

  /** @type {Map<LogName, EvidenceLog>} */
  logs; // by name, with their rings

  /** @type {(NoteKey & {vkey: string})[]} */
  known = []; // witnesses

  /** @type {string[]} */
  cosigners = []; // vkeys, in the order in which they are met

  /**
   * @param {Trust} trust
   */
  constructor({ fingerprint, policy, agentKey }) {
    this.fingerprint = fingerprint;
    this.policy = policy;
    this.pin = agentKey; // thumbprint of a key of the agent
  }

  /** @param {string} words */
  say(words) {
    this.checked.push(words);
  }

  /** @param {LogName} name */
  log(name) {
    const log = this.logs.get(name);
    must(log, `the log ${name} is missing`);
    return log;
  }

  async witnesses() {
    this.known = await Promise.all(this.file.witnesses.map((vkey) => readVKey(vkey, COSIGNER)));
    must(new Set(this.known.map(({ raw }) => hex(raw))).size === this.known.length, 'a witness is listed twice');
  }

  /**
   * The one checkpoint of a log, once its signatures are checked.
   * @param {{log: LogName, origin: string}} log
   * @param {string} signed
   */
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

  /**
   * The record is read in the form of recordForm, and its hash and signature are checked.
   * @param {JSONText} text
   * @param {EvidenceLog} log
   * @returns {Promise<SignedRecord>}
   */
  async signed({ node, source }, log) {
    const read = (log.log === 'control' ? controlRecordForm : recordForm)(node, source, 'record');
    const key = { companyId: this.file.companyId, ...this.last, ring: log.ring };
    const { ok, reason, pruned } = await checkRecord(read, key);
    if (pruned) throw new PrunedError(`record ${read.index}: ${reason}`);
    must(ok, `record ${read.index}: ${reason}`);
    return { ...read, signer: signerOf(log, read.index) };
  }

  /**
   * @param {SignedRecord} record
   * @param {EvidenceLog} log
   * @param {string} proof
   */
  async placed(record, log, proof) {
    const { hashes, signed } = readProof(proof, record.index);
    const checkpoint = await this.checkpoint(log, signed);
    const leaf = await leafHash(record.hash, unbase64url(record.signature), record.signer.raw);
    must(await leads(hashes, leaf, record.index, checkpoint),
      'the proof does not lead to the log root of the checkpoint');
    return checkpoint;
  }

  /**
   * Control records in order, each of which must be about what about takes.
   * @param {{record: JSONText, tlogProof: string}[]} entries
   * @param {(event: ControlEvent) => boolean} about
   */
  async events(entries, about) {
    const events = [];
    for (const { record, tlogProof } of entries) {
      const control = this.log('control');
      const read = await this.signed(record, control);
      await this.placed(read, control, tlogProof);
      const event = { ...eventOf(read), source: read.source };
      const inOrder = !events.length || event.index > events[events.length - 1].index;
      must(inOrder, `control record ${event.index} does not stand in order`);
      must(about(event), `control record ${event.index} is about something else, ${event.subject}`);
      events.push(event);
    }
    return events;
  }

  cosigned() {
    must(
      sameList(this.cosigners, this.file.witnesses),
      'witnesses does not list exactly the cosigners, in order',
    );
  }

  trustedKey() {
    if (!this.fingerprint) return;
    const at = this.all.findIndex(({ fingerprint }) => fingerprint === this.fingerprint);
    must(at >= 0, `the file does not contain the key that you trust, ${this.fingerprint}`);
    this.say(
      `The key that you trust, number ${at + 1} of ${this.all.length}, ` +
        `${this.all[at] === this.last ? 'has signed every checkpoint here'
          : 'is followed by the one that has signed every checkpoint here'}.`,
    );
  }

  /**
   * By whom a policy takes each checkpoint, as [{log, by}]. Throws where it does not. The file must
   * have passed all other steps.
   * @param {Policy} policy
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

/** @param {bigint} seconds */
function timeOf(seconds) {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? `second ${seconds}` : date.toISOString().replace('.000Z', 'Z');
}
