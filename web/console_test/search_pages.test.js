import assert from 'node:assert/strict';
import test from 'node:test';
import { mustName } from '../console/core/asked.js';
import { mustBeInOrder, mustGoOn } from '../console/core/search_pages.js';

const page = (from, to, next = '', size = 100) => ({ size, read: { from, to }, next });
const newest = { order: 'newest', proven: 100 };

test('pages that have read the whole log, one after the other, are taken', () => {
  mustGoOn(page(0, 100), null, newest);
  mustGoOn(page(60, 100, 'c'), null, newest);
  mustGoOn(page(0, 60), page(60, 100, 'c'), newest);
  mustGoOn(page(0, 40, 'c'), null, { order: 'oldest', proven: 7 });
  mustGoOn(page(40, 100), page(0, 40, 'c'), { order: 'oldest', proven: 7 });
  mustGoOn(page(30, 80), null, { ...newest, since: 's', until: 'u' }); // a time bounds it
  mustGoOn(page(0, 0, '', 0), null, { ...newest, proven: 0 });
});

test('records that are left out at either end, or between two pages, are missed', () => {
  for (const [given, before, search] of [
    [page(0, 98), null, newest], [page(3, 100), null, newest], [page(0, 98), null, { ...newest, since: 's' }],
      [page(3, 100), null, { ...newest, until: 'u' }],
    [page(0, 55), page(60, 100, 'c'), newest], [page(0, 65), page(60, 100, 'c'), newest],
      [page(0, 60, '', 99), page(60, 100, 'c'), newest],
    [page(2, 100), null, { order: 'oldest', proven: 7 }], [page(0, 97), null, { order: 'oldest', proven: 7 }],
    [page(0, 90, '', 90), null, newest], // shorter than what was signed
    [page(0, 101), null, newest], [page(5, 4), null, newest],
  ]) assert.throws(() => mustGoOn(given, before, search), /not answer what was asked/,
    JSON.stringify([given, before, search]));
});

test('records of a page come in their order, each once, from what it has read', () => {
  const of = (...indexes) => indexes.map((index) => ({ index }));
  mustBeInOrder(of(9, 5, 2), page(2, 10), newest);
  mustBeInOrder(of(2, 5, 9), page(2, 10), { order: 'oldest' });
  for (const found of [of(9, 9), of(5, 9), of(10),
    of(1)]) assert.throws(() => mustBeInOrder(found, page(2, 10), newest));
});

test('an answer names what was asked', () => {
  mustName({ agentId: 'a', index: 3 }, { agentId: 'a', index: 3, more: 1 });
  for (const answer of [{ agentId: 'b', index: 3 }, { agentId: 'a' },
    { agentId: 'a', index: 4 }]) assert.throws(() => mustName({ agentId: 'a', index: 3 }, answer),
      /not answer what was asked/);
});
