import assert from 'node:assert/strict';
import test from 'node:test';
import { grows } from '../console/lib/consistency.js';

// The slow, obvious tree: a node's hash is its children in brackets, so that two trees are one
// where their texts are.
const join = async (left, right) => `(${left}${right})`;
const split = (n) => 2 ** Math.floor(Math.log2(n - 1));
const tree = (leaves) =>
  (leaves.length === 1 ? leaves[0]
    : `(${tree(leaves.slice(0, split(leaves.length)))}${tree(leaves.slice(split(leaves.length)))})`);
const leaves = (n) => Array.from({ length: n }, (_, i) => `${i}.`);
const root = (n) => (n ? tree(leaves(n)) : '');

// RFC 6962 §2.1.2.
function subproof(m, all, whole) {
  if (m === all.length) return whole ? [] : [tree(all)];
  const k = split(all.length);
  return m <= k
    ? [...subproof(m, all.slice(0, k), whole), tree(all.slice(k))]
    : [...subproof(m - k, all.slice(k), false), tree(all.slice(0, k))];
}
const prove = (from, to) => (from ? subproof(from, leaves(to), true) : []);

test('a tree is the beginning of each longer one, for every pair of sizes, and no changed proof says so', async () => {
  for (let to = 1; to <= 33; to++) {
    for (let from = 0; from <= to; from++) {
      const claim = { from, to, fromRoot: root(from), toRoot: root(to), proof: prove(from, to) };
      const where = `${from} to ${to}`;
      assert.equal(await grows(claim, join), true, where);
      if (from === 0) continue;
      const wrong = [
        { fromRoot: 'x' }, { toRoot: 'x' }, { proof: [...claim.proof, 'x'] }, { from: to + 1 },
        ...claim.proof.map((_, i) => ({ proof: claim.proof.with(i, 'x') })),
        ...claim.proof.map((_, i) => ({ proof: claim.proof.toSpliced(i, 1) })),
      ];
      for (const change of wrong) assert.equal(await grows({ ...claim, ...change }, join), false,
        `${where} ${JSON.stringify(change)}`);
    }
  }
});
