import assert from 'node:assert/strict';
import test from 'node:test';
import { Tally, greatest, histogram } from '../console/core/report_tally.js';

const change = (timestamp, before, witnesses) =>
  ({ log: 'control', index: 0, timestamp, agentId: 'service', action: 'settings.changed', before, witnesses });
const at = (minute) => `2026-01-01T00:${String(minute).padStart(2, '0')}:00.000Z`;

test('times without a witness are those that attestd report says', () => {
  const alone = (...changes) => {
    const tally = new Tally(at(0));
    tally.addEvents(changes);
    return [tally.alone, tally.witnesses];
  };
  assert.deepEqual(alone(), [[], null]);
  assert.deepEqual(alone(change(at(1), null, null)), [[], null]);
  assert.deepEqual(alone(change(at(1), null, '')), [[{ from: at(1), to: '' }], '']); // a company that registers
  assert.deepEqual(alone(change(at(1), '', 'w')), [[{ from: at(0), to: at(1) }], 'w']);
  assert.deepEqual(alone(change(at(1), 'w', ''), change(at(2), '', 'w'), change(at(3), 'w', '')),
    [[{ from: at(1), to: at(2) }, { from: at(3), to: '' }], '']);
  assert.deepEqual(alone(change(at(1), 'w', 'v'), change(at(2), 'v', 'w')), [[], 'w']);
});

test('what was done is counted by agent, action and delegation, and failures are listed', () => {
  const tally = new Tally(at(0));
  const action = (index, agentId, name, delegated = false) =>
    ({ log: 'actions', index, timestamp: at(index), agentId, action: name, delegated });
  tally.addEvents([action(0, 'b', 'tool.failed'), action(1, 'a', 'pay', true), action(2, 'a', 'pay'),
    action(3, 'a', 'pay', true), action(4, 'a', 'undenied')]);
  assert.deepEqual(tally.result().deeds.map(Object.values),
    [['a', 'pay', true, 2], ['a', 'pay', false, 1], ['a', 'undenied', false, 1], ['b', 'tool.failed', false, 1]]);
  assert.deepEqual(tally.failures.list, [{ index: 0, timestamp: at(0), agentId: 'b', action: 'tool.failed' }]);
  assert.deepEqual(tally.result().span, [Date.parse(at(0)), Date.parse(at(4))]);
  assert.deepEqual(greatest(tally.actions.agents, 1), [['a', 4], ['(others)', 1]]);
});

test('a histogram holds every time, in parts of a round length, however long the period is', () => {
  for (const length of [0, 1, 59, 60, 61, 3600, 86400, 40 * 86400, 4000 * 86400, 90000 * 86400].map((seconds) =>
    seconds * 1000)) {
    const first = Date.parse('2026-01-01T00:00:30.000Z');
    const times = [first, first + length, first + Math.floor(length / 2)];
    const { width, parts } = histogram(times, [first, first + length]);
    assert.ok(parts.length <= 62, `${parts.length} parts`);
    assert.equal(parts.reduce((sum, [, n]) => sum + n, 0), 3);
    assert.ok(parts[0][0] <= first && parts[0][0] % width === 0 && parts.at(-1)[0] + width > first + length);
  }
});
