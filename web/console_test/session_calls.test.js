import assert from 'node:assert/strict';
import test from 'node:test';
import { recordForm } from '../console/lib/record.js';
import { parse } from '../console/lib/json.js';
import {
  SessionCalls, endsOf, entriesOf, misstated, stateOf, strangerTo, timesOf, wholeOf,
} from '../console/core/session_calls.js';

const hook = { agentId: 'bot', sid: 's', kind: 'hook', kid: '' };
const at = (i) => new Date(1750000000000 + i * 100).toISOString();

/** A record at a place, with a payload of a call. */
function recordOf(index, actionType, payload, { agentId = 'bot', ...more } = {}) {
  const text = JSON.stringify({
    index, timestamp: at(index), payload: { agentId, companyId: 'acme', actionType, payload, ...more },
    hash: '0'.repeat(64), signature: 'A'.repeat(86),
  });
  return recordForm(parse(text), text, 'it');
}

/** The calls of [action, payload] one after the other, all of which hold. */
function callsOf(...records) {
  const calls = new SessionCalls();
  records.forEach(([action, payload, word], index) => {
    const record = recordOf(index, action, { source: 'x', sessionId: 's', ...payload });
    calls.add({ index, check: { ok: true, reason: '' }, ...(word && { word }) }, record);
  });
  return calls;
}

const said = (calls) =>
  calls.list.map((call) => `${stateOf(call)} ${entriesOf(call).map(({ record }) => record.index)} ${call.note}`.trim());
const listed = (records, more) => ({ ...hook, state: 'unproven', records, ...more });

test('an outcome stands beside what was asked, whatever comes between', () => {
  const calls = callsOf(
    ['tool.requested', { tool: 'Bash', callId: 'a' }], ['tool.requested', { tool: 'Read', callId: 'b' }],
    ['tool.completed', { tool: 'Read', callId: 'b', durationMs: 42 }], ['tool.pending', { tool: 'Bash', callId: 'a' }],
    ['tool.denied', { tool: 'Bash', callId: 'a', reason: 'no' }], ['tool.requested', { tool: 'Bash', callId: 'c' }],
    ['session.ended', {}],
  );
  assert.deepEqual(said(calls), ['denied 0,3,4', 'completed 1,2', 'none 5', 'event 6']);
  assert.deepEqual(timesOf(calls.list[1]), { start: Date.parse(at(1)), end: Date.parse(at(2)), ms: 42 });
  assert.equal(timesOf(calls.list[0]).ms, 400);
  assert.equal(calls.list[0].outcome.words.why, 'no');
  assert.equal(calls.ended, true);
  assert.deepEqual(calls.span, { from: Date.parse(at(0)), to: Date.parse(at(6)) });
});

test('an ID that comes twice hides nothing, and an outcome without its request is shown', () => {
  const calls = callsOf(
    ['tool.requested', { tool: 'a', callId: '1' }], ['tool.completed', { tool: 'a', callId: '1' }],
    ['tool.requested', { tool: 'b', callId: '1' }], ['tool.failed', { tool: 'b', callId: '1', error: 'e' }],
    ['tool.completed', { tool: 'b', callId: '1' }], ['tool.completed', { tool: 'z', callId: '9' }],
    ['tool.completed', { tool: 'a', callId: '1', source: 'y' }], // of another source
  );
  assert.deepEqual(said(calls), [
    'completed 0,1', 'failed 2,3 the ID of an earlier call', 'completed 4 a second outcome of its call',
    'completed 5 what was asked is not on record', 'completed 6 what was asked is not on record',
  ]);
});

test('without an ID an outcome is of the one open call of its tool, and of none where there are several', () => {
  const one = callsOf(['tool.requested', { tool: 'a' }], ['tool.requested', { tool: 'b' }], ['tool.failed', { tool: 'a' }],
    ['tool.requested', { tool: 'a' }], ['tool.completed', { tool: 'a' }]);
  assert.deepEqual(said(one), ['failed 0,2', 'none 1', 'completed 3,4']);
  const two = callsOf(['tool.requested', { tool: 'a' }], ['tool.requested', { tool: 'a' }], ['tool.completed', { tool: 'a' }]);
  assert.deepEqual(said(two), ['none 0', 'none 1', 'completed 2 what was asked is not on record']);
});

test('a run is a call of its command, and fails by its exit status', () => {
  const run = (...records) => said(callsOf(...records.map(([a, p]) => [a, { source: 'run', runId: 'r', ...p }])));
  assert.deepEqual(run(['run.started', { command: ['go'] }], ['git.commit', { subject: 'x' }], ['run.ended', { exitStatus: 0 }]),
    ['completed 0,2', 'event 1']);
  assert.deepEqual(run(['run.started', {}], ['run.ended', { exitStatus: 1 }]), ['failed 0,1']);
  assert.deepEqual(run(['run.started', {}], ['run.ended', { signal: 'killed' }]), ['failed 0,1']);
});

test('a record of another agent, session or kind is none of the session', () => {
  const of = (action, payload, more) => strangerTo(recordOf(0, action, payload, more), hook);
  assert.equal(of('tool.requested', { source: 'x', sessionId: 's' }), '');
  assert.equal(of('session.ended', { source: 'x', sessionId: 's' }), '');
  for (const [action, payload, more] of [
    ['tool.requested', { source: 'x', sessionId: 't' }], ['tool.requested', {}], ['tool.requested', [1]],
    ['tool.requested', { source: 'mcp', sessionId: 's' }], ['otel.x', { sessionId: 's' }], ['note', { sessionId: 's' }],
    ['tool.requested', { source: 'x', sessionId: 's' }, { agentId: 'other' }],
    ['tool.requested', { source: 'x', sessionId: ['s'] }],
  ]) assert.notEqual(of(action, payload, more), '', JSON.stringify([action, payload, more]));
  assert.notEqual(strangerTo(recordOf(0, 'note', {}), { ...hook, kind: 'statement', kid: 'k' }), '');
});

test('of a session without statements the whole is never proven, and records that are left out show', () => {
  const calls = callsOf(['tool.requested', { callId: '1' }], ['tool.completed', { callId: '1' }]);
  assert.equal(wholeOf(calls, listed(2), true).is, 'unproven');
  assert.equal(wholeOf(calls, listed(2), false).is, 'checking');
  assert.equal(wholeOf(calls, listed(3), true).is, 'lacking');
  assert.equal(wholeOf(calls, listed(2), true, [0, 1]).is, 'unproven');
  assert.equal(wholeOf(calls, listed(2), true, [2]).is, 'lacking');
  calls.entries[1].row.check = null;
  assert.equal(wholeOf(calls, listed(2), true).is, 'checking');
  calls.entries[1].row.check = { ok: false, reason: 'r' };
  assert.equal(wholeOf(calls, listed(2), true).is, 'fails');
  const broken = callsOf(['tool.requested', {}]);
  broken.addBroken({ index: null, check: { ok: false, reason: 'r' } });
  assert.equal(wholeOf(broken, listed(1), true).is, 'fails');
  assert.equal(said(broken)[1], 'broken');
});

test('a call that was refused and ran all the same is the verdict of its session, with what is known of the rest', () => {
  const ran = [
    ['tool.requested', { tool: 'Bash', callId: 'a' }], ['tool.denied', { tool: 'Bash', callId: 'a' }],
    ['tool.completed', { tool: 'Bash', callId: 'a' }],
  ];
  const refused = 'disobeyed: refused at record 1, done at record 2; ';
  const calls = callsOf(...ran);
  assert.deepEqual(wholeOf(calls, listed(3), true), { is: 'disobeyed', says: `${refused}completeness cannot be proven` });
  assert.equal(wholeOf(calls, listed(4), true).is, 'lacking');
  const steps = ran.map(([action, payload], seq) => [action, payload, {
    is: 'agent', session: { sid: 's', seq, prev: seq ? `h${seq - 1}` : '', hash: `h${seq}`, end: seq === 2 },
  }]);
  const signed = { kind: 'statement', kid: 'k', state: 'disobeyed', completeness: 'sealed' };
  assert.deepEqual(wholeOf(callsOf(...steps), listed(3, signed), true), { is: 'disobeyed', says: `${refused}complete: 0 to 2, sealed` });
  const gap = callsOf(...steps.slice(0, 2), [...steps[2].slice(0, 2), { ...steps[2][2], session: { ...steps[2][2].session, seq: 3 } }]);
  assert.equal(wholeOf(gap, listed(3, signed), true).says, `${refused}missing 2, though the server says that it is sealed`);
  calls.entries[0].row.check = { ok: false, reason: 'r' };
  assert.equal(wholeOf(calls, listed(3), true).is, 'fails');
});

test('of a session of statements the agent’s own numbers say what is missing', () => {
  const step = (seq, { prev = seq ? `h${seq - 1}` : '', hash = `h${seq}`, is = 'agent', stolen, ...more } = {}) =>
    ['note', {}, { is, stolen, session: { sid: 's', seq, prev, hash, ...more } }];
  const found = (steps, state = 'open') =>
    wholeOf(callsOf(...steps), listed(steps.length, { kind: 'statement', kid: 'k', state }), true);
  const whole = (...given) => (({ is, says }) => ({ is, says }))(found(...given));
  const refused = (...seqs) => seqs.map((seq) => ({ seq, hash: `h${seq}`, code: 'AGENT_DISABLED' }));
  const complete = { is: 'complete', says: 'complete: 0 to 1, sealed' };
  assert.deepEqual(whole([step(0), step(1, { end: true })], 'sealed'), complete);
  assert.deepEqual(whole([step(1, { end: true }), step(0)]), complete);
  assert.deepEqual(whole([step(0), step(1)]), { is: 'open', says: 'open at 1' });
  assert.deepEqual(whole([step(1), step(4, { end: true })], 'sealed'),
    { is: 'missing', says: 'missing 0, 2–3, though the server says that it is sealed' });
  assert.deepEqual(whole([step(0), step(3, { refused: refused(1, 2), end: true })], 'sealed'),
    { is: 'complete', says: 'complete: 0 to 3, sealed, 2 refused' });
  assert.deepEqual(whole([step(0), step(3, { refused: refused(1) })]), { is: 'missing', says: 'missing 2, open at 3, 1 refused' });
  assert.match(whole([step(0), step(2, { refused: [{ seq: 1, hash: 'x', code: 'A' }] })]).says, /names in prev/);
  for (const steps of [
    [step(0), step(1), step(1)], [step(0), step(1, { prev: 'x' })], [step(0, { end: true }), step(1)],
    [step(0), ['note', {}, { is: 'fails' }]],
    [step(0), step(1), step(2, { refused: [{ seq: 0, hash: 'x', code: 'A' }] })],
  ]) assert.equal(whole(steps).is, 'fails', JSON.stringify(steps));
  const says = (steps) => found(steps).notes.map((note) => note.says).join('\n');
  assert.match(says([step(0), step(1, { refused: refused(0) })]), /recorded number 0, record 0, although it had told/);
  assert.match(says([step(0, { stolen: true })]), /1 are of a time when the key was in other hands/);
  assert.match(says([step(0)]), /^A session that goes on from this one may exist elsewhere\.$/);
  const continues = { sid: 'r', kid: 'k', hash: 'h' };
  assert.deepEqual(found([step(0, { continues }), step(1)]).continues, continues);
  assert.equal(whole([step(0), ['note', {}]]).is, 'checking'); // whose word it is, is not known yet
});

test('five thousand calls are put together', () => {
  const calls = new SessionCalls();
  const records = Array.from({ length: 10000 }, (_, i) =>
    recordOf(i, i % 2 ? 'tool.completed' : 'tool.requested', { source: 'x', sessionId: 's', tool: 't', callId: `${i >> 1}` }));
  records.forEach((record, index) => calls.add({ index, check: { ok: true, reason: '' } }, record));
  assert.equal(calls.list.length, 5000);
  assert.ok(calls.list.every((call) => stateOf(call) === 'completed'));
});

test('times and source of a session are those of its records, whatever the server lists', () => {
  const calls = callsOf(['tool.requested', { tool: 'a', callId: '1' }], ['tool.completed', { tool: 'a', callId: '1' }]);
  const honest = listed(2, { firstAt: at(0), lastAt: at(1), source: 'x' });
  assert.deepEqual(endsOf(calls).map(({ record }) => record.index), [0, 1]);
  assert.deepEqual(misstated(calls, honest), []);
  for (const [lie, says] of [
    [{ firstAt: at(-5) }, /began at .*; record 0/], [{ lastAt: at(9) }, /ended at .*; record 1/],
    [{ source: 'claude-code' }, /lists the source claude-code; record 0 names x/], [{ source: '' }, /lists the source –/],
  ]) {
    const found = misstated(calls, { ...honest, ...lie });
    assert.equal(found.length, 1);
    assert.match(found[0], says);
  }
  assert.deepEqual(misstated(calls, { ...honest, records: 3, lastAt: at(2) }), [], 'a record is still to come');
  const long = callsOf(['tool.requested', { tool: 'a', source: 'x'.repeat(255) }]);
  assert.deepEqual(misstated(long, listed(1, { firstAt: at(0), lastAt: at(0), source: '' })), []);
  const signed = callsOf(['a', {}, { session: { sid: 's', seq: 1 } }], ['b', {}, { session: { sid: 's', seq: 0 } }]);
  assert.deepEqual(endsOf(signed).map(({ record }) => record.index), [1, 0], 'the agent’s own order');
});
