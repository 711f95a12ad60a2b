// The console finds the same calls that disobeyed a refusal as every other checker: the cases are
// those of package action.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { CallTracker, disobeyedText } from '../console/lib/calls.js';
import { parse } from '../console/lib/json.js';

const cases = JSON.parse(readFileSync(new URL('../../chain/action/cases.json', import.meta.url), 'utf8'));

/** @param {{agentId: string, actionType: string, payload: unknown}} record */
const recordOf = ({ payload, ...record }) => ({ ...record, inner: parse(JSON.stringify(payload)) });

test('the cases that all checkers share', () => {
  assert.ok(cases.length > 30);
  for (const { name, records, found } of cases) {
    const tracker = new CallTracker();
    const got = records.flatMap((record, at) => {
      const one = tracker.add(at, recordOf(record));
      return one ? [{ at, ...one }] : [];
    });
    assert.deepEqual(got, found, name);
  }
});

test('what is remembered is bounded: the calls whose first record came first are forgotten', () => {
  const tracker = new CallTracker();
  const add = (actionType, callId) =>
    tracker.add(callId, recordOf({ agentId: 'bot', actionType, payload: { source: 'mcp', callId: String(callId) } }));
  for (let n = 0; n <= 10_000; n++) add('tool.denied', n);
  assert.equal(add('tool.completed', 0), null);
  assert.equal(add('tool.completed', 1), null); // forgotten for the one that came again
  assert.deepEqual(add('tool.completed', 3), { refused: 3, done: 3, tool: '' });
});

test('of many calls the first ten are named', () => {
  const list = Array.from({ length: 12 }, (_, i) => ({ refused: i, done: i + 1, tool: '' }));
  assert.match(disobeyedText(list), /^refused at record 0, done at record 1; .*; and 2 more$/);
  assert.equal(disobeyedText(list.slice(0, 1)), 'refused at record 0, done at record 1');
});
