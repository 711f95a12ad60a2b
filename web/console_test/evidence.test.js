import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { check } from '../console/lib/evidence/check.js';
import { open } from '../console/lib/evidence/open.js';
import { fitsSomeSize, sidesOf } from '../console/lib/merkle.js';
import { readPolicy } from '../console/lib/policy.js';

const sample = (name) => readFileSync(new URL(`../../chain/evidence/testdata/${name}`, import.meta.url));
const utf8 = (text) => new TextEncoder().encode(text);

// The tree of package chain, by its definition: split at the largest power of two below n.
function sidesByDefinition(index, n) {
  if (n === 1) return [];
  let k = 1;
  while (2 * k < n) k *= 2;
  return index < k ? [...sidesByDefinition(index, k), 'right'] : [...sidesByDefinition(index - k, n - k), 'left'];
}

test('the sides of a path follow from index and size', () => {
  for (let size = 1; size <= 130; size++) {
    for (let index = 0; index < size; index++) assert.deepEqual(sidesOf(index, size), sidesByDefinition(index, size),
      `${index} of ${size}`);
  }
  assert.equal(sidesOf(2 ** 53 - 2, 2 ** 53 - 1).length > 0, true);
});

test('a path without a size is one that its record can have in a tree of some size, and no other', () => {
  const limit = 64; // records; all sides of up to 7 steps occur at sizes below 128
  for (let index = 0; index < limit; index++) {
    const possible = new Set();
    for (let size = index + 1; size <= 256; size++) possible.add(sidesOf(index, size).join());
    for (let length = 0; length <= 7; length++) {
      for (let bits = 0; bits < 2 ** length; bits++) {
        const sides = Array.from({ length }, (_, i) => (bits >> i & 1 ? 'left' : 'right'));
        assert.equal(fitsSomeSize(index, sides), possible.has(sides.join()), `${index}: ${sides}`);
      }
    }
  }
});

test('what stands in a file of the service is there for a page, with who cosigned and when', async () => {
  const opened = await open(sample('whole.json'));
  assert.equal(opened.ok, true);
  assert.equal(opened.size, 5);
  assert.equal(opened.record.index, 2);
  assert.equal(opened.leaf, opened.record.hash);
  assert.equal(opened.key.ring.length, 3);
  const { cosignatures } = opened.found.checkpoints.get('actions');
  assert.deepEqual(cosignatures.map(({ at, vkey }) => [at.slice(0, 4), vkey.split('+')[0]]),
    [['2026', 'witness-101.example'], ['2026', 'witness-102.example']]);
  assert.deepEqual(await opened.found.meets(await readPolicy(sample('policy').toString())),
    [{ log: 'actions', by: ['a', 'b'] }, { log: 'control', by: ['a'] }]);
  await assert.rejects(async () =>
    opened.found.meets(await readPolicy(sample('policy').toString().replace('any', 'all'))),
      /not cosigned by a quorum/);
});

test('a file about a control record is opened with the keys of its log', async () => {
  const opened = await open(sample('control.json'));
  assert.equal(opened.ok, true);
  assert.equal(opened.log, 'control');
  assert.equal(opened.recordKey.ring.length, 3);
});

test('a file that fails is shown as far as it can be read', async () => {
  const text = sample('whole.json').toString();
  const opened = await open(utf8(text.replace('Grüße', 'Gruesse')));
  assert.equal(opened.ok, false);
  assert.equal(opened.code, 'RECORD');
  assert.deepEqual(opened.passed, ['form', 'keys']);
  assert.notEqual(opened.leaf, opened.record.hash); // computed of what is shown
  await assert.rejects(open(utf8('{"type":"something else"}')), /^Error: not an evidence file: file/);
  await assert.rejects(open(utf8('{')), /not an evidence file/);
  await assert.rejects(open(Uint8Array.of(0xff)), /not an evidence file/);
});

// The mutations of package evidence, which every checker must refuse: none opens as one that holds.
test('no mutation of package evidence opens as a file that holds', async () => {
  const mutations = JSON.parse(sample('mutations.json'));
  let refused = 0;
  for (const { of, at, find, replace, code } of mutations) {
    if (at || !find || !code) continue; // changes of the text alone: the others are held by package test
    const text = sample(`${of}.json`).toString().replace(find, () => replace);
    const opened = await open(utf8(text)).catch(() => null);
    if (['KEY', 'POLICY', 'NEWER'].includes(code)) continue;
    assert.equal(opened?.ok ?? false, false, text.slice(0, 200));
    refused++;
  }
  assert.ok(refused > 5, `${refused}`);
  assert.equal((await check(sample('small.json'), {})).verdict, 'self-consistent');
});
