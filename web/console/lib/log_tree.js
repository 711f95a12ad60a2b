// @ts-check
// The tree of RFC 6962 that checkpoints are of, and how it grows by leaves. Hashes are 32 raw
// bytes.
import { concat, hex, unbase64, unhex } from './bytes.js';
import { must } from './note.js';
import { sha256 } from './sha256.js';

/**
 * @param {Bytes} left
 * @param {Bytes} right
 */
const node = (left, right) => sha256(concat(Uint8Array.of(1), left, right));

/**
 * The hash of a node from those of its two in hex, for grows of consistency.js.
 * @param {string} left
 * @param {string} right
 */
export const nodeOfHex = async (left, right) => hex(await node(unhex(left), unhex(right)));

/** A growing tree, of which only the roots of its perfect subtrees are held. */
export class LogTree {
  /** @type {(Bytes | null)[]} */
  #peaks = []; // by level; null where the tree has no perfect subtree of that size

  size = 0;

  /**
   * A tree of a size by its frontier: the roots of its perfect subtrees, the largest first. Throws
   * where they do not fit the size.
   * @param {number} size
   * @param {Bytes[]} frontier
   */
  static from(size, frontier) {
    const tree = new LogTree();
    const roots = [...frontier];
    let missing = false;
    for (let left = size; left > 0; left = Math.floor(left / 2)) {
      const root = left % 2 ? roots.pop() : null;
      missing ||= root === undefined;
      tree.#peaks.push(root ?? null);
    }
    must(
      !roots.length && !missing,
      `a frontier of ${frontier.length} hashes does not fit a tree of ${size}`,
    );
    tree.size = size;
    return tree;
  }

  /** The roots of its perfect subtrees, the largest first, as from takes them. */
  get frontier() {
    return this.#peaks.filter((peak) => peak !== null).reverse();
  }

  /**
   * Adds the hashes of leaves. Those of one level are computed together.
   * @param {Bytes[]} leaves
   */
  async append(leaves) {
    this.size += leaves.length;
    let fresh = leaves;
    for (let level = 0; fresh.length; level++) {
      const peak = this.#peaks[level];
      const nodes = peak ? [peak, ...fresh] : fresh;
      this.#peaks[level] = nodes.length % 2 ? nodes[nodes.length - 1] : null;
      const above = [];
      for (let i = 0; i + 1 < nodes.length; i += 2) above.push(node(nodes[i], nodes[i + 1]));
      fresh = await Promise.all(above);
    }
  }

  async root() {
    const [lowest, ...higher] = this.#peaks.filter((peak) => peak !== null);
    if (!lowest) return sha256(new Uint8Array());
    let root = lowest;
    for (const peak of higher) root = await node(peak, root);
    return root;
  }
}

/**
 * Reads the answer of GET /v1/log/{logId}/consistency from a size: {hashes, signed}, with the text
 * of the checkpoint.
 * @param {string} text
 * @param {number | bigint} size
 */
export function readConsistency(text, size) {
  const cut = text.indexOf('\n\n');
  must(cut >= 0, 'not a proof of consistency');
  const [head, ...lines] = text.slice(0, cut).split('\n');
  must(head === `old ${size}`, `the proof is not from the ${size} records that were asked for`);
  const hashes = lines.map(unbase64);
  must(
    hashes.length <= 63 && hashes.every(({ length }) => length === 32),
    'a proof of consistency has hashes that are none',
  );
  return { hashes, signed: text.slice(cut + 2) };
}
