import assert from 'node:assert/strict';
import test from 'node:test';

// A storage whose content the tests choose.
const kept = new Map();
globalThis.localStorage = { getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => { kept.set(name, String(value)); } };
const { MOST_SAVED, queryOf, removeSearch, saveSearch, savedSearches, searchesOf } = await import(
  '../console/core/saved_searches.js');
const names = (companyId = 'acme') => searchesOf(companyId, savedSearches.get()).map(({ name }) => name);

test('a search is kept by its name for its company, replaced by another of that name, and removed', () => {
  assert.equal(saveSearch('acme', ' Denials ', { action: 'tool.denied', last: '24h', follow: '1', key: 'svc_secret' }), '');
  assert.equal(saveSearch('globex', 'Denials', { q: 'x' }), '');
  assert.equal(saveSearch('acme', 'Bash', { payload: 'tool=Bash' }), '');
  assert.deepEqual(names(), ['Bash', 'Denials']);
  assert.deepEqual(names('globex'), ['Denials']);
  assert.deepEqual(searchesOf('acme', savedSearches.get())[1].query, { action: 'tool.denied', last: '24h' });
  assert.ok(!kept.get('attestd.searches').includes('svc_secret'));
  saveSearch('acme', 'Denials', { action: 'tool.*' });
  assert.deepEqual(searchesOf('acme', savedSearches.get())[1].query, { action: 'tool.*' });
  removeSearch('acme', 'Denials');
  assert.deepEqual([names(), names('globex')], [['Bash'], ['Denials']]);
  assert.deepEqual(queryOf({ order: 'oldest', other: 'x', q: '' }), { order: 'oldest' });
});

test('number and size are bounded, and names are plain', () => {
  savedSearches.change(() => []);
  for (let i = 0; i < MOST_SAVED; i++) assert.equal(saveSearch('acme', `search ${i}`, { q: 'x' }), '');
  assert.match(saveSearch('acme', 'one more', { q: 'x' }), /Remove one/);
  assert.equal(saveSearch('acme', 'search 7', { q: 'y' }), '');
  assert.equal(saveSearch('globex', 'another company', { q: 'x' }), '');
  for (const name of ['', '  ', 'x'.repeat(61), 'a\u202eb', 'a\nb', '\u0000'])
    assert.notEqual(saveSearch('initech', name, { q: 'x' }), '', JSON.stringify(name));
  assert.notEqual(saveSearch('initech', 'long', { q: 'x'.repeat(2049) }), '');
  assert.deepEqual(names('initech'), []);
});

test('what was put into the storage by others is not taken', () => {
  const good = { companyId: 'acme', name: 'good', query: { q: 'x' } };
  savedSearches.change(() => []);
  for (const bad of ['{', '{}', '[1]', [{ ...good, more: 1 }], [{ ...good, query: { page: 'x' } }], [{ ...good, query: { q: 1 } }],
    [{ ...good, name: 'a\u202eb' }], [{ ...good, name: {} }], [{ ...good, query: { q: 'x'.repeat(2049) } }],
    [{ ...good, query: [] }], [{ companyId: 'acme', name: 'x' }]]) {
    kept.set('attestd.searches', typeof bad === 'string' ? bad : JSON.stringify(bad));
    savedSearches.change((all) => all);
    assert.deepEqual(names(), [], JSON.stringify(bad));
  }
  kept.set('attestd.searches', JSON.stringify(Array.from({ length: 100 }, (_, i) => ({ ...good, name: `n${i}` }))));
  savedSearches.change((all) => all);
  assert.equal(names().length, MOST_SAVED);
});
