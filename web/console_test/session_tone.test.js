// What may be green of a session, on its page, in a list and of its file.
import test from 'node:test';
import assert from 'node:assert/strict';
import { lackingIn, toneOfSession, wholeOfFile } from '../console/core/session_tone.js';
import { toneOfSet } from '../console/core/verdict.js';
import { table } from '../console/lib/table.js';

const checked = ['ok', 'ok'];

test('a session has one tone for each of its states, wherever it is shown', () => {
  const file = (of) => wholeOfFile({ disobeyedCount: 0, places: { missing: 0, sealed: false }, ...of });
  for (const { state, is, ofFile, tone } of [
    { state: 'sealed', is: 'complete', ofFile: { places: { missing: 0, sealed: true } }, tone: 'ok' },
    { state: 'open', is: 'open', ofFile: {}, tone: '' },
    { state: 'gap', is: 'missing', ofFile: { places: { missing: 2, sealed: true } }, tone: 'bad' },
    { state: 'disobeyed', is: 'disobeyed', ofFile: { disobeyedCount: 1, places: { missing: 0, sealed: true } }, tone: 'bad' },
    { state: 'broken', is: 'fails', ofFile: null, tone: 'bad' },
  ]) {
    assert.equal(toneOfSession(is, checked), tone, `page: ${state}`);
    if (ofFile) {
      assert.equal(file(ofFile), is, `file: ${state}`);
      assert.equal(toneOfSession(file(ofFile), ['ok']), tone, `file: ${state}`);
    }
    assert.equal(toneOfSession(is, []), tone === 'bad' ? 'bad' : '', `list, where nothing was checked: ${state}`);
  }
  for (const is of ['checking', 'unproven', 'open', 'lacking']) assert.notEqual(toneOfSession(is, checked), 'ok', is);
  assert.equal(toneOfSession('complete', ['ok', 'warn']), 'warn');
  assert.equal(toneOfSession('complete', ['ok', '']), '');
  assert.equal(toneOfSession('open', ['ok', 'bad']), 'bad');
});

test('a file is of a session only where it has each of its records, and encloses their times', () => {
  const session = { records: 3, firstAt: '2026-11-27T10:00:00.000Z', lastAt: '2026-11-27T10:00:05.000Z' };
  const whole = { indexes: new Set([4, 7, 9]), from: '2026-11-27T10:00:00.000Z', to: '2026-11-27T10:00:05.001Z' };
  assert.equal(lackingIn(session, whole, [4, 9]), '');
  assert.match(lackingIn(session, { ...whole, indexes: new Set() }, []), /0 of the 3 records/);
  assert.match(lackingIn(session, { ...whole, indexes: new Set([4, 7, 8]) }, [9]), /lacks record 9/);
  assert.match(lackingIn(session, { ...whole, from: '2026-11-27T10:00:00.001Z' }, []), /another time/);
  assert.match(lackingIn(session, { ...whole, to: session.lastAt }, []), /another time/);
});

test('a table finds nothing by the names that every object has', () => {
  const names = table({ gone: 'the endpoint is gone' });
  assert.equal(names.gone, 'the endpoint is gone');
  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf'])
    assert.equal(names[name], undefined, name);
  assert.throws(() => { names.gone = ''; });
});

test('a set is as good as the worst of its members, and nothing where it has none', () => {
  assert.equal(toneOfSet([]), '');
  assert.equal(toneOfSet(['ok', 'ok']), 'ok');
  assert.equal(toneOfSet(['ok', 'warn']), 'warn');
  assert.equal(toneOfSet(['warn', '']), '');
  assert.equal(toneOfSet(['ok', '', 'bad']), 'bad');
});
