import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { grows } from '../console/lib/consistency.js';
import { LogTree, nodeOfHex, readConsistency } from '../console/lib/log_tree.js';
import { WholeLog } from '../console/lib/whole_log.js';
import { rarely } from './long.js';

const sha = (...parts) => new Uint8Array(createHash('sha256').update(Buffer.concat(parts)).digest());
const leaves = Array.from({ length: 40 }, (_, i) => sha(Buffer.from([0, i])));
const split = (n) => 2 ** Math.floor(Math.log2(n - 1));

// RFC 6962 §2.1 and §2.1.2, as they stand there.
function rootOf(list) {
  if (list.length < 2) return list[0] ?? sha(Buffer.alloc(0));
  const k = split(list.length);
  return sha(Buffer.from([1]), rootOf(list.slice(0, k)), rootOf(list.slice(k)));
}
function proofOf(m, list, whole = true) {
  if (m === list.length) return whole ? [] : [rootOf(list)];
  const k = split(list.length);
  return m <= k ? [...proofOf(m, list.slice(0, k), whole), rootOf(list.slice(k))]
    : [...proofOf(m - k, list.slice(k), false), rootOf(list.slice(0, k))];
}
const treeOf = (n) => ({ size: n, root: rootOf(leaves.slice(0, n)) });
const hex = (bytes) => Buffer.from(bytes).toString('hex');
const isBeginning = (from, to, proof) =>
  grows({ from: from.size, to: to.size, fromRoot: hex(from.root), toRoot: hex(to.root), proof: proof.map(hex) },
    nodeOfHex);

test('a tree that grows by leaves, many or few at a time, has the root that its leaves have, from any frontier on',
  async () => {
  for (let first = 0; first <= leaves.length; first += rarely) {
    for (const step of [1, 3, 40]) {
      const grown = new LogTree();
      await grown.append(leaves.slice(0, first));
      assert.deepEqual(await grown.root(), treeOf(first).root);
      for (let at = first; at < leaves.length; at += step) await grown.append(leaves.slice(at, at + step));
      assert.equal(grown.size, leaves.length);
      assert.deepEqual(await grown.root(), treeOf(leaves.length).root);
    }
    const frontier = [];
    for (let at = 0, width = 64; width >= 1; width /= 2) if (first & width) frontier.push(rootOf(leaves.slice(at,
      at += width)));
    const taken = LogTree.from(first, frontier);
    assert.deepEqual(await taken.root(), treeOf(first).root);
    await taken.append(leaves.slice(first));
    assert.deepEqual(await taken.root(), treeOf(leaves.length).root);
    assert.throws(() => LogTree.from(first, [...frontier, leaves[0]]));
    if (frontier.length) assert.throws(() => LogTree.from(first, frontier.slice(1)));
  }
});

test('of all sizes, only the right proof shows that one tree is the beginning of another', async () => {
  for (let to = 0; to <= 20; to++) {
    for (let from = 0; from <= to; from += to % rarely + 1) {
      const proof = from ? proofOf(from, leaves.slice(0, to)) : [];
      assert.equal(await isBeginning(treeOf(from), treeOf(to), proof), true, `${from} in ${to}`);
      const no = async (...given) => assert.equal(await isBeginning(...given), false, `${from} in ${to}`);
      await no(treeOf(from), treeOf(to), [...proof, leaves[0]]);
      if (from) await no({ ...treeOf(from), root: leaves[39] }, treeOf(to), proof);
      if (from) await no(treeOf(from), { ...treeOf(to), root: leaves[39] }, proof);
      if (from < to) await no(treeOf(to), treeOf(from), proof);
      for (let i = 0; i < proof.length; i++) {
        await no(treeOf(from), treeOf(to), proof.toSpliced(i, 1));
        await no(treeOf(from), treeOf(to), proof.toSpliced(i, 1, leaves[39]));
      }
    }
  }
});

test('a proof of consistency is read in its one form', () => {
  const line = Buffer.from(leaves[0]).toString('base64');
  assert.deepEqual(readConsistency(`old 2\n${line}\n\ncheckpoint\n`, 2),
    { hashes: [leaves[0]], signed: 'checkpoint\n' });
  for (const bad of [`old 3\n${line}\n\nx`, `old 2\n${line}\nx`, `old 2\n${line.slice(1)}\n\nx`,
    `old 2\n${Buffer.from('short').toString('base64')}\n\nx`, `old 2\n${`${line}\n`.repeat(64)}\nx`]) {
    assert.throws(() => readConsistency(bad, 2));
  }
});

test('a log that is read whole finds the first head that is not its beginning, in either tree, however its ' +
  'records come', async () => {
  const records = leaves.map((leaf) => ({ hash: hex(sha(leaf)), leaf }));
  const heads = [];
  const log = new WholeLog();
  for (const record of records) {
    assert.equal(await log.append([record]), null);
    heads.push(await log.head());
  }
  assert.deepEqual(heads.map(({ logRoot }) => logRoot), heads.map(({ size }) => hex(treeOf(size).root)));
  for (const step of [1, 7, 40]) {
    for (const at of [0, 6, 7, 21, 39]) {
      for (const wrong of [null, { root: hex(sha()) }, { logRoot: hex(sha()) }, { root: undefined },
        { logRoot: undefined }]) {
        const given = heads.map((head, i) => (i === at ? { ...head, ...wrong } : head));
        let read = new WholeLog();
        let found = null;
        for (let i = 0; i < records.length; i += step) {
          const one = await read.append(records.slice(i, i + step), given);
        found ??= one;
          read = new WholeLog(structuredClone(read.state)); // as it goes from a worker to the page
        }
        assert.equal(found, Object.values(wrong ?? {})[0] ? given[at] : null, `${step} ${at}`);
        assert.deepEqual(await read.head(), heads.at(-1));
      }
    }
  }
});
