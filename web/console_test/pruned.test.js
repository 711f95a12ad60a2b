import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import {
  UNPROVEN, archiveOf, archiveText, excused, hasFailed, mustBeArchived, verdictOn, verdictOnPruned,
} from '../console/core/pruned.js';
import { SessionCalls, wholeOf } from '../console/core/session_calls.js';
import { verdict } from '../console/core/verdict.js';
import { parse } from '../console/lib/json.js';
import { recordForm } from '../console/lib/record.js';

const archives = [
  { records: 5, archive: 'aa'.repeat(32), index: 7 }, { records: 6, archive: 'bb'.repeat(32), index: 9 },
];
const assess = (keyState) => (ok, about) => verdict({ ok, keyState, found: [], about });

test('a record is pruned only where an archive has it', () => {
  assert.deepEqual([0, 4, 5, 6].map((index) => archiveOf(archives, index)?.index ?? null), [7, 7, 9, null]);
  const result = { ok: false, pruned: true, reason: 'it was' };
  assert.deepEqual(excused(result, 5, archives), { ...result, archive: archives[1] });
  for (const failed of [excused(result, 6, archives), excused(result, 0, [])]) {
    assert.deepEqual(failed, { ok: false, pruned: false, reason: UNPROVEN });
    assert.ok(hasFailed(failed));
    assert.equal(verdictOn(assess('confirmed'), 6, failed).tone, 'bad');
  }
  assert.ok(!hasFailed(excused(result, 0, archives)));
  assert.equal(verdictOn(assess('confirmed'), 0, result).tone, 'warn');
  for (const [state, tone] of [['confirmed', 'warn'], ['unconfirmed', 'warn'], ['other', 'bad']])
    assert.equal(verdictOnPruned(assess(state)).tone, tone);
});

test('a search passes over no more records of what it has read than archives have', () => {
  for (const [passed, from, to] of [[6, 0, 9], [6, 0, Infinity], [2, 4, 9], [4, 0, 4]])
    mustBeArchived(passed, { from, to }, archives);
  for (const [passed, from, to] of [[7, 0, 9], [7, 0, Infinity], [3, 4, 9], [5, 0, 4], [1, 6, 9]])
    assert.throws(() => mustBeArchived(passed, { from, to }, archives), /no signed control record/);
  assert.throws(() => mustBeArchived(1, { from: 0, to: 9 }, []), /no signed control record/);
});

test('archives are named by their SHA-256, with the records that each has', () => {
  assert.equal(archiveText(archives), `The payloads of records 0 to 4 are in the archive with the SHA-256 ${
    'aa'.repeat(32)}. The payload of record 5 is in the archive with the SHA-256 ${'bb'.repeat(32)}.`);
  assert.equal(archiveText([]), '');
});

/** The calls of a session: records without payload, each [index, check], and then signed steps. */
function callsOf(without, steps = []) {
  const calls = new SessionCalls();
  const add = (index, check, payload, word) => {
    const text = JSON.stringify({
      index, timestamp: new Date(1750000000000 + index).toISOString(), ...payload, hash: '0'.repeat(64),
      signature: 'A'.repeat(86),
    });
    calls.add({ index, check, word }, recordForm(parse(text), text, 'it'));
  };
  for (const [index, check] of without) add(index, check, { payload: null, pruned: true });
  steps.forEach((seq, i) => add(100 + i, { ok: true, reason: '' },
    { payload: { agentId: 'bot', companyId: 'acme', actionType: 'note', payload: 1 } },
    { is: 'agent', session: { sid: 's', seq, hash: `${seq}`, prev: `${seq - 1}`, end: false } }));
  return calls;
}

test('a session is pruned where no other record of it fails, contradicts or is missing', () => {
  const [good, bad] = [{ ok: false, pruned: true, reason: '' }, { ok: false, pruned: false, reason: UNPROVEN }];
  const signed = { agentId: 'bot', sid: 's', kind: 'statement', kid: 'k', state: 'pruned' };
  const is = (calls, records, listed = signed) => wholeOf(calls, { ...listed, records }, true).is;
  const hook = { ...signed, kind: 'hook', kid: '', state: 'unproven' };
  assert.equal(is(callsOf([[0, good], [1, good]]), 2), 'pruned');
  assert.equal(is(callsOf([[0, good], [1, good]]), 2, hook), 'pruned');
  assert.equal(is(callsOf([[0, good], [1, good]], [2, 3]), 4), 'pruned');
  assert.equal(is(callsOf([[0, good], [1, bad]]), 2), 'fails');
  assert.equal(is(callsOf([[0, good], [1, null]]), 2), 'checking');
  assert.equal(is(callsOf([[0, good]]), 2), 'lacking');
  assert.equal(is(callsOf([[0, good]], [2, 3]), 3), 'missing');
  assert.equal(is(callsOf([[0, good]], [1, 1]), 3), 'fails');
});

test('no other module decides what is pruned, or gives a verdict on a record by its check', () => {
  const root = new URL('../console/', import.meta.url);
  const own = { 'core/pruned.js': true, 'core/verdict.js': true };
  const found = readdirSync(root, { recursive: true }).filter((name) =>
    /^(core|pages|parts)\/.*\.js$|^[a-z_]+\.js$/.test(name) && !own[name] &&
    /log: 'actions', index|!\S*\bok && !\S*\bpruned|\bok \|\| \S*\bpruned/.test(readFileSync(new URL(name, root), 'utf8')));
  assert.deepEqual(found, []);
});
