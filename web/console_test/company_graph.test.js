// Who acted for whom in a whole company.
import assert from 'node:assert/strict';
import test from 'node:test';
import { companyGraph } from '../console/lib/company_graph.js';

const entry = (index, chain, tone = 'ok', tokenId = `t${index}`) =>
  ({ record: { index, timestamp: `2026-03-02T09:00:0${index}.000Z`, delegation: { chain, tokenId } }, tone });

test('each step of the chains is one line, with its records, tokens and times', () => {
  const { nodes, edges, alone } = companyGraph([
    entry(4, ['acme', 'a', 'b']), entry(3, ['acme', 'a'], 'ok', 't'), entry(2, ['acme', 'a'], 'ok', 't'), entry(1, ['b']),
    { record: { index: 0, timestamp: '' }, tone: 'ok' },
  ]);
  assert.deepEqual(edges.map(({ from, to, count, tokens, index, since, last }) =>
    [from, to, count, tokens, index, since.slice(17, 19), last.slice(17, 19)]), [
    ['acme', 'a', 3, 2, 4, '02', '04'], ['a', 'b', 1, 1, 4, '04', '04']]);
  assert.deepEqual(edges[0].entries.map(({ index }) => index), [4, 3, 2]);
  assert.deepEqual(nodes, [{ name: 'acme', count: 3 }, { name: 'a', count: 3 }, { name: 'b', count: 1 }]);
  assert.equal(alone, 1);
});

test('a line is as good as the worst of its records', () => {
  const toneOf = (...tones) => companyGraph(tones.map((tone, i) => entry(9 - i, ['x', 'y'], tone))).edges[0].tone;
  assert.equal(toneOf('ok', 'ok'), 'ok');
  assert.equal(toneOf('ok', 'warn', 'ok'), 'warn');
  assert.equal(toneOf('ok', '', 'warn'), '');
  assert.equal(toneOf('', 'bad', 'ok'), 'bad');
});

test('chains that go in circles count once a record, and a line names its newest 50 records', () => {
  const { nodes, edges } = companyGraph([entry(1, ['x', 'y', 'x', 'y'])]);
  assert.deepEqual(edges.map(({ from, to, count }) => [from, to, count]), [['x', 'y', 1], ['y', 'x', 1]]);
  assert.deepEqual(nodes.map(({ count }) => count), [1, 1]);
  const many = companyGraph(Array.from({ length: 80 }, () => entry(1, ['x', 'y'])));
  assert.deepEqual([many.edges[0].count, many.edges[0].entries.length], [80, 50]);
});
