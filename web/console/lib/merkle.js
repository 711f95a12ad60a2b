// @ts-check
// The Merkle tree over a chain: leaf = a record's hash as a hex string; node = SHA-256 of its two
// children's hex strings joined; the shape of RFC 6962 §2.1 (an odd node moves up unhashed).
import { exactly, hash, list, oneOf } from './form.js';
import { sha256hex } from './sha256.js';

/**
 * @param {string} left
 * @param {string} right
 */
export const nodeHash = (left, right) => sha256hex(left + right);

/**
 * Climbs from a leaf to the root. Each step is {left, right, position, parent}, where position says
 * on which side the sibling of the proof is.
 * @param {string} leaf
 * @param {{sibling: string, position: 'left' | 'right'}[]} proof
 */
export async function climb(leaf, proof) {
  const steps = [];
  let current = leaf;
  for (const { sibling, position } of proof) {
    const [left, right] = position === 'left' ? [sibling, current] : [current, sibling];
    const parent = await nodeHash(left, right);
    steps.push({ left, right, position, parent });
    current = parent;
  }
  return { steps, root: current };
}

/**
 * On which side the sibling of each step is on the way from a record to the root of a tree of a
 * size, as [position…]: index and size leave no choice. Both are whole numbers up to 2^53 - 1, and
 * index is below size.
 * @param {number} index
 * @param {number} size
 */
export function sidesOf(index, size) {
  const sides = [];
  for (let at = index, last = size - 1; last > 0; at = Math.floor(at / 2), last = Math.floor(last / 2)) {
    if (at % 2) sides.push('left');
    else if (at < last) sides.push('right');
  }
  return sides;
}

/**
 * Whether there is a size with these sides for a record: only in the last subtree of each level a
 * step may be missing, and from there on all others stand on the left.
 * @param {number} index
 * @param {string[]} sides
 */
export function fitsSomeSize(index, sides) {
  for (let level = 0, at = index; level <= sides.length; at = Math.floor(at / 2), level++) {
    const rest = sides.slice(level);
    if (rest.every((side) => side === 'left') && rest.length === at.toString(2).replace(/0/g, '').length) return true;
    if (sides[level] !== (at % 2 ? 'left' : 'right')) return false;
  }
  return false;
}

/** The form of one step of a proof. */
export const proofStep = exactly({ sibling: hash, position: oneOf('left', 'right') });

/** The form of a proof; 64 levels are more than any chain has. */
export const proofForm = list(proofStep, 64);

/**
 * A growing tree that remembers only the roots of its perfect subtrees: O(log n) memory at any
 * length.
 */
export class Frontier {
  #peaks; // {size, hash}, the largest first

  length;

  /**
   * peaks: those of a frontier that was kept.
   * @param {{size: number, hash: string}[]} peaks
   */
  constructor(peaks = []) {
    this.#peaks = peaks.slice();
    this.length = peaks.reduce((sum, { size }) => sum + size, 0);
  }

  get peaks() {
    return this.#peaks.slice();
  }

  /** @param {string} leaf */
  async push(leaf) {
    let node = { size: 1, hash: leaf };
    while (this.#peaks.at(-1)?.size === node.size) {
      const [left] = this.#peaks.splice(-1);
      node = { size: 2 * node.size, hash: await nodeHash(left.hash, node.hash) };
    }
    this.#peaks.push(node);
    this.length++;
  }

  async root(peaks = this.#peaks) {
    if (peaks.length === 0) return sha256hex('');
    let root = peaks[peaks.length - 1].hash;
    for (let i = peaks.length - 2; i >= 0; i--) root = await nodeHash(peaks[i].hash, root);
    return root;
  }

  /**
   * The beginnings of the tree that end where a perfect subtree ends, the whole of it at last:
   * {size, root} of each.
   */
  beginnings() {
    return Promise.all(this.#peaks.map(async (_, i) => {
      const peaks = this.#peaks.slice(0, i + 1);
      return { size: peaks.reduce((sum, { size }) => sum + size, 0), root: await this.root(peaks) };
    }));
  }
}
