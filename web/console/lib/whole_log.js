// @ts-check
// A log that is read from its first record on, with both of its trees: the specification's, over
// the hashes of records, and that of RFC 6962, over their signatures and keys too.
import { hex } from './bytes.js';
import { LogTree } from './log_tree.js';
import { Frontier } from './merkle.js';

export class WholeLog {
  #frontier;

  #tree;

  /**
   * state: of a log that was read so far, as state gives it.
   * @param {{peaks?: {size: number, hash: string}[], roots?: Bytes[]}} [state]
   */
  constructor({ peaks = [], roots = [] } = {}) {
    this.#frontier = new Frontier(peaks);
    this.#tree = LogTree.from(this.length, roots);
  }

  get length() {
    return this.#frontier.length;
  }

  get state() {
    return { peaks: this.#frontier.peaks, roots: this.#tree.frontier };
  }

  /** {size, root, logRoot}, both roots in hex. */
  async head() {
    return { size: this.length, root: await this.#frontier.root(), logRoot: hex(await this.#tree.root()) };
  }

  /**
   * The beginnings that end where a perfect subtree ends, the whole log at last: {size, root} of
   * each.
   */
  beginnings() {
    return this.#frontier.beginnings();
  }

  /**
   * Adds records, {hash, leaf} each, where leaf is that of the log tree. Returns the first of some
   * heads, {size, root, logRoot} of which one root may be missing, that ends within them and is not
   * a beginning of this log; null where there is none.
   * @template {Head} H
   * @param {{hash: string, leaf: Bytes}[]} records
   * @param {H[]} [heads]
   * @returns {Promise<H | null>}
   */
  async append(records, heads = []) {
    /** @type {H | null} */
    let contradicted = null;
    for (let i = 0; i < records.length; ) {
      const next = records.slice(
        i,
        i + Math.min(records.length, ...heads.map(({ size }) => size - this.length).filter((left) => left > 0)),
      );
      for (const { hash } of next) await this.#frontier.push(hash);
      await this.#tree.append(next.map(({ leaf }) => leaf));
      contradicted ??= await this.contradicts(heads);
      i += next.length;
    }
    return contradicted;
  }

  /**
   * The first of some heads that is of as many records as this log, and of others; null where there
   * is none.
   * @template {Head} H
   * @param {H[]} heads
   * @returns {Promise<H | null>}
   */
  async contradicts(heads) {
    const due = heads.filter(({ size }) => size === this.length);
    if (!due.length) return null;
    const own = await this.head();
    return (
      due.find(({ root = own.root, logRoot = own.logRoot }) => root !== own.root || logRoot !== own.logRoot) ?? null
    );
  }
}
