// @ts-check
// The policies in a file, and whether they are those by which its records were decided. What each
// check is, package evidence says. The rules themselves, which are written in Cedar, are not
// evaluated here.
import { quorums } from '../approval.js';
import { having, integer, string, stringThat } from '../form.js';
import { must } from '../note.js';
import { sha256hex } from '../sha256.js';
import { shown } from './summary.js';

const PUT = 'policy.put';
const DELETED = 'policy.deleted';
const APART = 5000; // ms, by which the times of the two logs may differ
const MOST = 10_000; // changes of a report that are remembered
const MOST_REASONS = 10;
const hash = stringThat((s) => /^[0-9a-f]{64}$/.test(s), 'a SHA-256');
const changeForm = having({
  policyId: stringThat((s) => /^[A-Za-z0-9._-]{1,64}$/.test(s), 'the ID of a policy'), revision: integer, set: hash,
}, { cedar: string, sha256: string });

/**
 * Whether an event is a change of a policy.
 * @param {ControlEvent} event
 */
export const isOfPolicies = ({ subject, action }) => subject === 'policies' && (action === PUT || action === DELETED);

/** The changes of policies in a file, and the decisions that were held against them. */
export class Policies {
  begun = false; // the first changes are what the policies before them were made of

  /**
   * @type {{revision: number, at: number, name: string, digest: string, set: string,
   *   demanded: number[]}[]}
   */
  changes = [];

  why = ''; // why decisions cannot be held against them

  set = { revision: -1, count: 0, hash: '' }; // the last one that they made

  /** @type {Map<string, number[]>} */
  #demanded = new Map(); // by the last set

  decisions = 0;

  by = ''; // of one decision: by what it was made

  /** @type {Map<string, number>} */
  reasons = new Map(); // why decisions were not made again, with how many

  /** @param {ControlEvent} event */
  async add({ index, timestamp, action, inner }) {
    const { policyId, revision, set, cedar = '', sha256 } = changeForm(inner, '', `control record ${index}`);
    must(revision > (this.changes.at(-1)?.revision ?? 0),
      `the revision of control record ${index} is not above that of the change before it`);
    const digest = action === DELETED ? '' : await sha256hex(cedar);
    must(digest === '' || digest === sha256, `control record ${index} has not the SHA-256 of its text`);
    this.changes.push({ revision, at: Date.parse(timestamp), name: policyId, digest, set, demanded: quorums(cedar) });
  }

  /**
   * A control record of a report, which is as long as it may be.
   * @param {ControlEvent} event
   */
  async addLine(event) {
    if (event.subject !== 'policies' || this.why) return;
    if (!isOfPolicies(event)) this.why = 'policies were altered past the control log, and accepted as they were';
    else if (this.changes.length === MOST)
      this.why = 'there are more changes of policies here than this checker remembers';
    else await this.add(event);
  }

  /**
   * Holds the decision of a record, if it has one, against the changes.
   * @param {LogRecord} record
   */
  async hold({ index, timestamp, decision }) {
    if (!decision) return;
    this.decisions++;
    const { revision, policies, code = '' } = decision;
    if (this.why) {
      this.#notAgain(this.why);
      return;
    }
    const at = Date.parse(timestamp);
    const ends = this.#ends(revision);
    const newest = this.changes[ends - 1];
    must(ends === this.changes.length || at - this.changes[ends].at <= APART,
      `the decision of record ${index} was made by policies that had ended`);
    if (revision > 0 && !this.begun) {
      this.#notAgain(`the file does not have the policies of revision ${revision}`);
      return;
    }
    must(revision === 0 || newest?.revision === revision,
      `no control record here made revision ${revision} of the policies, by which record ${index} was decided`);
    must(!newest || newest.at - at <= APART, `the decision of record ${index} was made by policies that began later`);
    if (this.set.revision !== revision) await this.#replay(revision, ends);
    must(this.set.hash === policies && (!newest || newest.set === policies),
      `the control records here do not make the set of policies by which record ${index} was decided`);
    const { count } = this.set;
    this.by = `decided by the ${count} ${count === 1 ? 'policy' : 'policies'} in force, revision ${revision}: ` +
      said(decision);
    const follows = ['', 'POLICY_DENIED', 'DECISION_ERROR', 'DETAILS_DENIED'].includes(code);
    this.#notAgain(follows ? 'the rules were not evaluated here'
      : `denied with ${JSON.stringify(code)}, which does not follow from policies`);
  }

  /**
   * How many changes had been made at a revision.
   * @param {number} revision
   */
  #ends(revision) {
    let from = 0;
    for (let to = this.changes.length; from < to;) {
      const middle = (from + to) >> 1;
      if (this.changes[middle].revision > revision) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  /**
   * What the first changes leave.
   * @param {number} revision
   * @param {number} ends
   */
  async #replay(revision, ends) {
    const sums = new Map(this.changes.slice(0, ends).map(({ name, digest }) => [name, digest]));
    const held = [...sums].filter(([, digest]) => digest !== '').sort(([a], [b]) => (a < b ? -1 : 1));
    // IDs and digests have no character that JSON escapes
    const text = `{${held.map(([name, digest]) => `"${name}":"${digest}"`).join(',')}}`;
    this.set = { revision, count: held.length, hash: await sha256hex(text) };
    const demanded = new Map(this.changes.slice(0, ends).map((change) => [change.name, change.demanded]));
    this.#demanded = new Map(held.map(([name]) => [name, demanded.get(name) ?? []]));
  }

  /**
   * How many people the policies of a decision demand that was held against them, by their IDs;
   * undefined where the file does not have them.
   * @param {Decision | undefined} decision
   */
  demanded = (decision) =>
    !decision || this.why || this.set.revision !== decision.revision ? undefined : this.#demanded;

  /** @param {string} why */
  #notAgain(why) {
    const reason = this.reasons.has(why) || this.reasons.size < MOST_REASONS ? why : 'for other reasons';
    this.reasons.set(reason, (this.reasons.get(reason) ?? 0) + 1);
  }

  /** What was found of the decisions of a file. */
  sentences() {
    const one = this.decisions === 1;
    const reasons = [...this.reasons].sort(([a], [b]) => (a < b ? -1 : 1));
    return [
      ...(one && this.by ? [`It was ${this.by}.`] : []),
      ...reasons.map(([why, count]) => one ? `It was not decided again: ${why}.`
        : `${count} of ${this.decisions} decisions not decided again: ${why}.`),
    ];
  }
}

/**
 * A decision in words: deny by no-force.
 * @param {Decision} decision
 */
function said({ verdict, by, errors, code = '' }) {
  return verdict + (by.length ? ` by ${shown(by.join(', '))}` : '') +
    (errors ? `; with errors: ${shown(errors.join(', '))}` : '') +
    (code && code !== 'POLICY_DENIED' ? ` (${code})` : '');
}
