// @ts-check
// The statements of one session in the order of their places: whether all are there, and what the
// service has refused. Sequence of package statement is its specification, limits included: its
// memory does not grow with the number of statements.
import { must } from './note.js';

const GAPS = 1000;
const NAMED = 10_000;
const RECENT = 4096;
const RECORDED = 100;
const SHOWN = 100; // gaps in a sentence

/** @typedef {{seq: number, hash: string}} RefusedPlace */
/** @typedef {{seq: number, prev?: string, refused?: RefusedPlace[], end?: boolean}} PlaceClaims */

export class Sequence {
  last = -1; // seq of the last statement

  sealed = false;

  refused = 0; // places that are missing and that a later statement names as refused

  /**
   * Places that are there although the service had told the agent that it refused them, and the
   * indexes of their records, -1 where the statement is no longer known. The first ones.
   * @type {[number, number][]}
   */
  recorded = [];

  isMore = false; // there are more of them

  // after: prev of the statement after the gap
  /** @type {{first: number, last: number, after?: string}[]} */
  #gaps = [];

  #forgotten = 0; // gaps beyond those

  /** @type {Map<number, string>} */
  #named = new Map(); // hashes of refused places

  /** @type {Map<number, {index: number, hash: string}>} */
  #recent = new Map(); // the last statements, by seq

  /**
   * Adds the next statement, which is in the record of an index.
   * @param {PlaceClaims} claims
   * @param {number} index
   * @param {string} hash
   */
  add({ seq, prev, refused = [], end = false }, index, hash) {
    const before = this.#recent.get(this.last);
    must(seq !== this.last,
      `the agent’s key signed two statements with the seq ${seq}: in the records ${before?.index} and ${index}`);
    must(seq > this.last && !this.sealed, `seq ${seq} of record ${index} stands after ${this.last}, or after the end`);
    must(!before || seq > this.last + 1 || prev === before.hash,
      `prev of record ${index} is not the hash of the statement in record ${before?.index}`);
    if (seq > this.last + 1) this.#skip({ first: this.last + 1, last: seq - 1, after: prev });
    for (const one of refused) this.#take(one);
    this.last = seq;
    this.sealed = end;
    this.#recent.set(seq, { index, hash });
    if (this.#recent.size > RECENT) this.#recent.delete(/** @type {number} */ (this.#recent.keys().next().value));
  }

  /** @param {{first: number, last: number, after?: string}} gap */
  #skip(gap) {
    if (this.#gaps.length === GAPS) this.#forgotten++;
    else this.#gaps.push(gap);
  }

  /**
   * Takes an entry of refused.
   * @param {{seq: number, hash: string}} entry
   */
  #take({ seq, hash }) {
    const there = this.#recent.get(seq);
    if (there) {
      must(there.hash === hash,
        `it says that number ${seq} was refused, and the agent’s key signed another statement ` +
        `of that number, in record ${there.index}`);
      this.#wasRecorded(seq, there.index);
      return;
    }
    const known = this.#named.get(seq);
    if (known !== undefined) {
      must(known === hash, `it says that number ${seq} was refused, and an earlier statement says so of another ` +
        'statement of that number');
      return;
    }
    const at = this.#gapAt(seq);
    if (at < this.#gaps.length && this.#gaps[at].first <= seq) this.#fill(at, seq, hash);
    else if (this.#forgotten === 0) this.#wasRecorded(seq, -1);
  }

  /**
   * The first gap that ends at a place or later.
   * @param {number} seq
   */
  #gapAt(seq) {
    let at = 0;
    for (let end = this.#gaps.length; at < end;) {
      const middle = (at + end) >> 1;
      if (this.#gaps[middle].last >= seq) end = middle;
      else at = middle + 1;
    }
    return at;
  }

  /**
   * Takes a place out of a gap.
   * @param {number} at
   * @param {number} seq
   * @param {string} hash
   */
  #fill(at, seq, hash) {
    const { first, last, after } = this.#gaps[at];
    must(seq < last || after === undefined || after === hash,
      'it says that a statement was refused that is not the one which the statement after it names in prev');
    const rest = [{ first, last: seq - 1 }, { first: seq + 1, last, after }].filter((gap) => gap.first <= gap.last);
    if (this.refused === NAMED || this.#gaps.length - 1 + rest.length > GAPS) return;
    this.#gaps.splice(at, 1, ...rest);
    this.#named.set(seq, hash);
    this.refused++;
  }

  /**
   * @param {number} seq
   * @param {number} index
   */
  #wasRecorded(seq, index) {
    if (this.recorded.some(([known]) => known === seq)) return;
    if (this.recorded.length === RECORDED) this.isMore = true;
    else this.recorded.push([seq, index]);
  }

  /** How many ranges are missing. */
  get missing() {
    return this.#gaps.length + this.#forgotten;
  }

  /** How many places are in these ranges; Infinity where it is no longer known. */
  get absent() {
    return this.#forgotten ? Infinity : this.#gaps.reduce((sum, { first, last }) => sum + last - first + 1, 0);
  }

  /** Complete, open at n, or missing a–b. */
  state() {
    const refused = this.refused > 0 ? `, ${this.refused} refused` : '';
    if (this.missing === 0)
      return `${this.sealed ? `complete: 0 to ${this.last}, sealed` : `open at ${this.last}`}${refused}`;
    const gaps = this.#gaps.slice(0, SHOWN)
      .map(({ first, last }) => (first === last ? `${first}` : `${first}–${last}`));
    const more = this.missing > SHOWN ? ` and ${this.missing - SHOWN} ranges more` : '';
    return `missing ${gaps.join(', ')}${more}${this.sealed ? '' : `, open at ${this.last}`}${refused}`;
  }

  /** What the service did that it had told the agent that it did not, in sentences. */
  served() {
    const sentences = this.recorded.map(([seq, index]) => (index < 0
      ? `The service recorded number ${seq}, although it had told the agent that it refused a statement of that ` +
        'number; whether it is the same one is not compared here.'
      : `The service recorded number ${seq}, record ${index}, although it had told the agent that it refused it.`));
    return this.isMore ? [...sentences, 'There are more numbers that the service recorded although it had told the ' +
      'agent that it refused them.'] : sentences;
  }
}
