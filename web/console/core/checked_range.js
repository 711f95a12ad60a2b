// @ts-check
// The records of the chain that this page has checked one after the other. Of those that begin with
// the first, both trees are computed, and held against what this browser has seen of the chain and
// against the root that the server names.
import { WholeLog } from '../lib/whole_log.js';
import { readLogs } from './growth.js';
import { headsOf, pinChecked, pinHead, rewrittenSince } from './heads.js';

const LOG = 'actions';

export class CheckedRange {
  #whole;

  /** @type {{size: number, root: string, logRoot: string} | null} */
  #top = null; // the head that was settled last

  #agreed = false;

  /**
   * The range of no record that begins at an index; of all that was read already with its state as
   * of WholeLog.
   * @param {number} from
   * @param {WholeLogState} [state]
   */
  constructor(from, state) {
    this.#whole = from === 0 ? new WholeLog(state) : null;
    this.from = from;
    this.to = from + (this.#whole?.length ?? 0);
  }

  /** Whether it begins with the first record, and so has a root. */
  get isWhole() {
    return this.#whole !== null;
  }

  /** What the store of Live has of it. */
  get shown() {
    return {
      range: { from: this.from, to: this.to },
      whole: this.isWhole,
      agreed: this.#agreed,
      root: this.#top?.root ?? '',
    };
  }

  /** What is shown is out of date: it is checked again. */
  invalidate() {
    this.#agreed = false;
  }

  /**
   * Adds the record after the last one, which was checked: {hash, leaf}.
   * @param {{hash: string, leaf: Bytes}} record
   * @param {NamedKey} key
   */
  async add(record, key) {
    this.to++;
    this.#agreed = false;
    const other = await this.#whole?.append([record], headsOf(key, LOG));
    if (other)
      rewrittenSince(key, LOG, other, {
        from: Math.max(
          0,
          ...headsOf(key, LOG)
            .map(({ size }) => size)
            .filter((size) => size < other.size),
        ),
        now: this.to,
      });
  }

  /**
   * Holds the roots against the root that the server named with a chain of so many records or more,
   * which may be under way. Resolves to why they are not the server's, and to '' where they are or
   * nothing is known yet.
   * @param {{root?: string, length: number}} said
   * @param {NamedKey} key
   */
  async compareRoots({ root: named, length }, key) {
    if (!this.#whole) return '';
    const top = await this.#whole.head();
    if (top.root !== named) {
      const [now] = await readLogs();
      if (now.size > top.size) return '';
      if (now.size < top.size)
        rewrittenSince(
          key,
          LOG,
          { size: top.size, at: new Date().toISOString(), source: 'checked' },
          { from: 0, now: now.size },
        );
      else if (length === top.size || now.merkleRoot !== top.root || now.root !== top.logRoot)
        return `the server reports another chain root or log root for ${top.size} records`;
    }
    // Where more was seen than was read here, the rest is under way.
    if ((await this.#whole.contradicts(headsOf(key, LOG))) || headsOf(key, LOG).some(({ size }) => size > top.size))
      return '';
    // The beginnings of the chain are stored once; after that it only grows.
    if (this.#top) pinHead(key, { log: LOG, ...top, source: 'checked' }, [this.#top]);
    else await pinChecked(key, LOG, this.#whole);
    this.#top = top;
    this.#agreed = true;
    return '';
  }
}
