// Where Ctrl-K goes for what is typed.
import assert from 'node:assert/strict';
import test from 'node:test';
import { destinations } from '../console/core/destinations.js';

const pages = [{ id: 'start', name: 'Start' }, { id: 'records', name: 'Records' }, { id: 'agents', name: 'Agents' }];
/**
 * @param {string} typed
 * @param {string[]} [agents]
 */
const names = (typed, agents = []) =>
  destinations(typed, pages, agents).map(({ kind, name, page }) => `${kind} ${name} → ${page}`);

test('nothing typed offers the pages', () => {
  assert.deepEqual(names(''), ['Page Start → start', 'Page Records → records', 'Page Agents → agents']);
});

test('a number is a record, and a hash finds one', () => {
  assert.deepEqual(names(' #007 ')[0], 'Record #7 → records');
  const hash = 'AB'.repeat(32);
  assert.deepEqual(destinations(hash, pages, [])[0].query, { hash: hash.toLowerCase() });
  assert.equal(names('1'.repeat(16))[0], `Records whose payload contains ${'1'.repeat(16)} → records`);
});

test('pages that begin so come before those that contain it, then agents, then a search', () => {
  assert.deepEqual(names('r', ['runner']), ['Page Records → records', 'Page Start → start', 'Agent runner → agents',
    'Records whose payload contains r → records']);
});

test('there are never more than twelve', () => {
  assert.equal(names('a', Array.from({ length: 40 }, (_, i) => `a${i}`)).length, 12);
});
