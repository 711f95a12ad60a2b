import assert from 'node:assert/strict';
import test from 'node:test';
import { callParts } from '../console/core/call_parts.js';
import { SessionCalls } from '../console/core/session_calls.js';
import { pauseText, placeOf, storyOf, taskOf } from '../console/core/session_story.js';
import { parse } from '../console/lib/json.js';
import { recordForm } from '../console/lib/record.js';

const MINUTE = 60_000;

function recordOf(index, actionType, payload, minutes = index) {
  const text = JSON.stringify({
    index, timestamp: new Date(1750000000000 + minutes * MINUTE).toISOString(),
    payload: { agentId: 'bot', companyId: 'acme', actionType, payload }, hash: '0'.repeat(64), signature: 'A'.repeat(86),
  });
  return recordForm(parse(text), text, 'it');
}

/** The calls of [minute, action, payload]. */
function callsOf(...records) {
  const calls = new SessionCalls();
  records.forEach(([minutes, action, payload], index) =>
    calls.add({ index, check: null }, recordOf(index, action, { source: 'x', sessionId: 's', ...payload }, minutes)));
  return calls;
}

test('a time in which nothing ran is a row, and one in which a call ran is none', () => {
  const calls = callsOf(
    [0, 'tool.requested', { tool: 'Bash', callId: 'a' }], [1, 'tool.requested', { tool: 'Task', callId: 'b' }],
    [2, 'tool.completed', { callId: 'a' }], [10, 'tool.requested', { callId: 'c' }], [11, 'tool.completed', { callId: 'c' }],
    [30, 'tool.completed', { callId: 'b' }], [34, 'tool.requested', { callId: 'd' }], [75, 'tool.requested', { callId: 'e' }],
  );
  assert.deepEqual(storyOf(calls.list).map(({ call, pause, at }) => (call ? at : pauseText(pause))),
    [0, 1, 2, 3, '41 minutes later', 4]);
  calls.addBroken({ index: null, check: { ok: false, reason: 'r' } });
  assert.equal(storyOf(calls.list).length, 7);
  assert.deepEqual(storyOf([]), []);
});

test('a pause is told in two units at most', () => {
  for (const [minutes, want] of [[5, '5 minutes later'], [60, '1 hour later'], [125, '2 hours 5 minutes later'],
    [1440, '1 day later'], [3 * 1440 + 61, '3 days 1 hour later']])
    assert.equal(pauseText(minutes * MINUTE), want);
});

test('a session is about its first prompt or, where none is on record, its first command', () => {
  const call = [0, 'tool.requested', { tool: 'Bash', callId: 'a', input: { command: 'ls' } }];
  assert.equal(taskOf(callsOf()), null);
  assert.equal(taskOf(callsOf(call)).words.what, 'ls');
  const prompt = [1, 'otel.event', { name: 'claude_code.user_prompt', attributes: { prompt: 'Fix the build' } }];
  const { words, is } = taskOf(callsOf(call, prompt));
  assert.deepEqual([words.what, is], ['Fix the build', 'prompt']);
  const read = [0, 'tool.requested', { tool: 'Read', callId: 'r', input: { path: '/a' } }];
  assert.deepEqual([taskOf(callsOf(read, call)).words.what, taskOf(callsOf(read)).words.what], ['ls', '/a']);
  // A prompt of which only the hash is recorded says nothing, and one of a subagent is a call.
  const hashed = [1, 'otel.event', { name: 'x', attributes: { prompt: { sha256: 'a', bytes: 3 } } }];
  assert.equal(taskOf(callsOf(hashed, call)).is, 'command');
  assert.equal(taskOf(callsOf([0, 'tool.requested', { tool: 'Task', input: { prompt: 'p' } }])).is, 'call');
});

test('the repository is that of a record, and of no other member', () => {
  assert.equal(placeOf(callsOf([0, 'tool.requested', { input: { cwd: '/x' } }])), '');
  assert.equal(placeOf(callsOf([0, 'note', { cwd: 7 }], [1, 'note', { cwd: '/src/shop' }])), '/src/shop');
  assert.equal(placeOf(callsOf([0, 'otel.event', { resource: { 'vcs.repository.name': 'shop' } }])), 'shop');
});

const parts = (action, payload) => callParts(recordOf(0, action, payload));
const diffs = (tool, input) =>
  parts('tool.requested', { tool, input }).changes.map((lines) => lines.map((line) => line.join('')).join('|'));

test('a call that writes has its lines, as far as they are on record', () => {
  assert.deepEqual(diffs('Edit', { file_path: '/a', old_string: 'a\nb', new_string: 'a\nc' }), [' a|-b|+c']);
  assert.deepEqual(diffs('MultiEdit', { file_path: '/a',
    edits: [{ old_string: 'a', new_string: '' }, { old_string: '', new_string: 'b' }, 7] }), ['-a', '+b']);
  assert.deepEqual(diffs('Write', { file_path: '/a', content: 'x\ny\n' }), ['+x|+y']);
  assert.deepEqual(diffs('NotebookEdit', { notebook_path: '/n', new_source: 'x' }), ['+x']);
  assert.deepEqual(diffs('apply_patch', { command: '*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch' }),
    [' *** Begin Patch| *** Update File: a|-x|+y| *** End Patch']);
  for (const [tool, input] of [['Write', { file_path: '/a', content: 7 }], ['Edit', { file_path: '/a', old_string: 'x' }],
    ['Write', { sha256: 'ab', bytes: 9, head: '{"content":"x' }], ['Bash', { command: 'ls', content: 'x' }], ['Read', null],
    ['apply_patch', {}], ['Edit', '__proto__']]) assert.deepEqual(diffs(tool, input), [], `${tool} ${JSON.stringify(input)}`);
});

test('a call in full is not cut off', () => {
  const command = `a\n${'x'.repeat(5000)}`;
  assert.equal(parts('tool.requested', { tool: 'Bash', input: { command } }).asked, command);
  assert.equal(parts('run.started', { source: 'run', command: ['go', 'a b'] }).asked, "go 'a b'");
  const { why, output } = parts('tool.failed', { tool: 'Bash', error: 'a\nb', output: { stdout: 'c\n' } });
  assert.deepEqual([why, output], ['a\nb', 'c\n']);
  assert.deepEqual(parts('note', { input: { command: 'ls' } }), { kind: 'command', asked: '', changes: [], why: '', output: '' });
});
