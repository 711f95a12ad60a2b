import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { askedOf, callWords, oneLine, sentenceOf } from '../console/core/call_words.js';
import { parse } from '../console/lib/json.js';
import { recordForm } from '../console/lib/record.js';

/** A record of an action, with the JSON of a payload. */
function recordOf(actionType, json) {
  const text = `{"index":0,"timestamp":"2026-11-27T10:00:00.000Z","payload":{"agentId":"bot","companyId":"acme",` +
    `"actionType":${JSON.stringify(actionType)},"payload":${json}},"hash":"${'0'.repeat(64)}",` +
    `"signature":"${'A'.repeat(86)}"}`;
  return recordForm(parse(text), text, 'it');
}
const words = (action, payload) => callWords(recordOf(action, JSON.stringify(payload)));
const sentence = (action, payload) => sentenceOf(words(action, payload));
const hook = (tool, input) => {
  const { kind, what, tool: shown } = words('tool.requested', { source: 'claude-code', tool, callId: 'c', input });
  return `${kind} ${shown}: ${what}`;
};

test('a call of a coding agent is its command, its path, its address or its prompt', () => {
  for (const [tool, input, want] of [
    ['Bash', { command: 'git push --force origin main', description: 'Push' }, 'command Bash: git push --force origin main'],
    ['Bash', 'ls -l', 'command Bash: ls -l'],
    ['shell', { command: ['bash', '-lc', 'rm -rf "a b"'] }, `command shell: bash -lc 'rm -rf "a b"'`],
    ['exec_command', { cmd: "echo it's" }, "command exec_command: echo it's"],
    ['run_shell_command', { command: 'ls' }, 'command run_shell_command: ls'],
    ['Read', { file_path: '/src/a.ts', limit: 3 }, 'file Read: /src/a.ts'],
    ['Write', { content: 'x', file_path: '/a' }, 'file Write: /a'],
    ['Write', { command: 'ls', path: '/etc/passwd' }, 'file Write: /etc/passwd'],
    ['MultiEdit', { file_path: '/a', edits: [] }, 'file MultiEdit: /a'],
    ['NotebookEdit', { notebook_path: '/n.ipynb', new_source: '' }, 'file NotebookEdit: /n.ipynb'],
    ['apply_patch', { command: '*** Begin Patch\n*** Update File: a.go\n*** Add File: b.go\n*** End Patch' },
      'file apply_patch: a.go and 1 more'],
    ['WebFetch', { prompt: 'what is it', url: 'https://example.com' }, 'url WebFetch: https://example.com'],
    ['WebSearch', { query: 'go 1.26' }, 'other WebSearch: go 1.26'],
    ['Grep', { path: 'src', pattern: 'toFixed' }, 'other Grep: toFixed in src'],
    ['Glob', { pattern: '**/*.go' }, 'other Glob: **/*.go'],
    ['Task', { description: 'Look', prompt: 'Find it', subagent_type: 'Explore' }, 'prompt Task: Find it'],
    ['mcp__github__create_issue', { owner: 'acme', title: 'Rounding' }, 'other github create_issue: Rounding'],
    ['mcp__db__run', { sql: 'drop table a' }, 'other db run: drop table a'],
    ['TodoWrite', { todos: [1] }, 'other TodoWrite: {"todos":[1]}'],
    ['Bash', {}, 'other Bash: {}'],
  ]) assert.equal(hook(tool, input), want);
  assert.equal(words('tool.requested', { source: 'mcp', tool: 'search', server: 'wiki', input: { q: 1 } }).tool, 'wiki search');
});

test('a value that was shortened says what is left of it', () => {
  const sha256 = 'ab'.repeat(32);
  for (const [tool, input, want] of [
    ['Bash', { sha256, bytes: 30000, head: '{"command":"echo \\"a\\"\\nxx' }, 'command Bash: echo "a" xx…'],
    ['Edit', { sha256, bytes: 30000, head: '{"file_path":"/a.ts","new_string":"x' }, 'file Edit: /a.ts…'],
    ['Bash', { sha256, bytes: 30000, head: '{"command":"echo \\u00' }, 'command Bash: echo \\u00…'],
    ['Write', { sha256, bytes: 30000, head: '{"content":"x' }, 'other Write: {"content":"x…'],
    ['Bash', { sha256, bytes: 12 }, 'other Bash: 12 bytes, recorded as a hash'],
    ['Bash', { sha256, bytes: 12, command: 'ls' }, 'command Bash: ls'], // not shortened
  ]) assert.equal(hook(tool, input), want);
});

test('a sentence ends with what came of a call, and why', () => {
  const payload = { source: 'claude-code', tool: 'Bash', callId: 'c' };
  for (const [action, more, want] of [
    ['tool.requested', { input: { command: 'ls' } }, 'Bash ls'],
    ['tool.denied', { reason: 'not on Fridays' }, 'Bash → denied: not on Fridays'],
    ['tool.denied', { reason: 'attestd: no valid passport of the agent "bot" covers tool:Bash, so this call is refused and ' +
      'recorded. Do not look for a way around it; ask the user.' },
    'Bash → denied: no valid passport of the agent "bot" covers tool:Bash'],
    ['tool.failed', { error: 'Exit code 3\nno such file' }, 'Bash → failed: Exit code 3 no such file'],
    ['tool.failed', { error: '<tool_use_error>no such tool</tool_use_error>' }, 'Bash → failed: no such tool'],
    ['tool.completed', { output: { stdout: 'a\nb', stderr: '' } }, 'Bash → completed'],
    ['tool.ended', { output: 'a' }, 'Bash → ended'],
    ['tool.pending', {}, 'Bash → pending'],
    ['tool.permission-requested', { input: { command: 'ls' } }, 'permission for Bash ls'],
  ]) assert.equal(sentence(action, { ...payload, ...more }), want);
  assert.equal(sentenceOf({ ...words('tool.requested', { ...payload, input: { command: 'git push --force origin main' } }),
    outcome: 'denied', why: 'needs a passport' }), 'Bash git push --force origin main → denied: needs a passport');
  assert.equal(words('tool.completed', { ...payload, output: { stdout: 'a\nb', stderr: 'c' } }).output, 'a b c');
  assert.equal(words('tool.completed', { ...payload, output: { content: [{ type: 'text', text: 'hello' }] } }).output, 'hello');
  assert.equal(words('tool.completed', { ...payload, output: { llmContent: 'hi' } }).output, 'hi');
  assert.equal(sentence('session.ended', { source: 'claude-code', sessionId: 's', reason: 'exit' }), 'session → ended: exit');
  assert.equal(sentence('tool.subagent-ended', { source: 'x', agentType: 'Explore', output: 'done' }), 'subagent Explore → ended');
});

test('a run is its command, a commit its subject, an event that was too large its size', () => {
  const run = { source: 'run', runId: 'r' };
  for (const [action, payload, want] of [
    ['run.started', { ...run, command: ['go', 'test', './...'] }, 'run go test ./...'],
    ['run.ended', { ...run, exitStatus: 0, durationMs: 3 }, 'run → completed'],
    ['run.ended', { ...run, exitStatus: 3 }, 'run → failed: exit status 3'],
    ['run.ended', { ...run, signal: 'killed' }, 'run → failed: killed'],
    ['run.ended', { ...run, error: 'the command was not found' }, 'run → failed: the command was not found'],
    ['git.commit', { ...run, subject: 'store: add rows', commit: 'ab' }, 'git commit store: add rows'],
    ['hook.oversized', { source: 'x', input: { sha256: 'ab', bytes: 9 } }, 'hook.oversized an event of 9 bytes, too large to be read'],
    ['ticket.opened', { a: 1 }, 'ticket.opened {"a":1}'],
  ]) assert.equal(sentence(action, payload), want);
});

// What the service has made of real exports, one record a line.
const exported = (name) => readFileSync(new URL(`../../service/telemetry/testdata/${name}.txt`, import.meta.url), 'utf8')
  .split('\n----\n')[1].split('\n').flatMap((line) => {
    const [, action, json] = /^\S+ (otel\.\w+) (\{.*\})$/.exec(line) ?? [];
    return action ? [sentenceOf(callWords(recordOf(action, json)))] : [];
  });

test('telemetry is a call by its arguments, a prompt by its text and all else by its name', () => {
  const said = exported('claude_code_keep');
  assert.ok(said.includes('otel.event go'), said);
  assert.ok(said.some((one) => one.startsWith('Bash ls -l → failed: Exit code 3')), said);
  assert.ok(said.some((one) => /^Bash .*→ denied: user_reject/.test(one)), said);
  assert.ok(said.includes('otel.model claude_code.api_request'), said);
  for (const [name, want] of [['codex', 'exec_command codex.tool_result → completed'],
    ['gemini_logs', 'run_shell_command gemini_cli.tool_call → completed']])
    assert.ok(exported(name).includes(want), `${exported(name)}`);
  assert.ok(exported('gemini_spans').length && exported('genai_keep').length && exported('mixed_all').length);
});

test('a decision names the tool, the action or the audience that was asked for', () => {
  const asked = (action, id, given) =>
    sentence(action, { door: 'authzen', action: 'call', resource: { type: 'tool', id }, ...given });
  assert.equal(asked('authorization.denied', 'bank/transfer', { arguments: { amount: 250 } }),
    'authorization for bank/transfer {"amount":250}');
  assert.equal(asked('authorization.allowed', 'Bash', { arguments: { command: 'git push' } }),
    'authorization for Bash git push');
  assert.equal(asked('authorization.denied', 'https://api.example'), 'authorization for https://api.example');
  for (const action of ['authorization.denied', 'authorization.of-others'])
    assert.equal(sentence(action, { a: 1 }), `${action} {"a":1}`);
});

test('no payload makes it throw, and each text is one line of a bounded length', () => {
  const long = '{"command":'.repeat(10) + 'x'.repeat(100_000);
  const odd = [null, true, 0, '', 'x', '[', '{"command":', `{"a":${'['.repeat(500)}`, [], [[]], {}, { command: 7 },
    { command: ['a', 1] }, { command: { a: 1 } }, { file_path: null }, { sha256: 'a', bytes: 'b' },
    { sha256: 'a', bytes: 1, head: 7 }, { sha256: 'a', bytes: 1, head: '{"__proto__":"x' }, long, { command: long },
    { command: ' '.repeat(100_000) + 'rm -rf /' }, { content: [null, { text: 1 }, { text: long }] }, { stdout: [] },
    { command: `${'x'.repeat(239)}\u{1f600}` }, '\u202e\u200b', { prompt: '\u2028\n\r\0' }];
  const names = ['tool', 'server', 'input', 'output', 'reason', 'error', 'command', 'subject', 'signal', 'exitStatus',
    'attributes', 'status', 'name', 'agentType', 'resource', 'arguments'];
  const actions = ['tool.requested', 'tool.denied', 'tool.completed', 'tool.failed', 'tool.__proto__', 'tool.constructor',
    '__proto__', 'constructor', 'run.started', 'run.ended', 'git.commit', 'session.ended', 'otel.tool', 'otel.event',
    'otel.decision', 'hook.oversized', 'authorization.denied', 'x', ''];
  for (const action of actions) {
    for (const tool of ['Bash', '__proto__', 'constructor', 'apply_patch', 'mcp__a__b', '\u202e']) {
      for (const value of odd) {
        const payloads = [JSON.stringify(value), ...names.map((name) =>
          `{"tool":${JSON.stringify(tool)},"__proto__":{"x":1},${JSON.stringify(name === 'tool' ? 'server' : name)}:` +
            `${JSON.stringify(value)}}`)];
        for (const json of payloads) {
          const said = callWords(recordOf(action, json));
          for (const text of Object.values(said)) {
            assert.equal(typeof text, 'string');
            assert.ok(text.length <= 241 && !/[\n\r\t]/.test(text) && text.isWellFormed(), `${action} ${json.slice(0, 80)}`);
          }
          assert.equal(typeof sentenceOf(said), 'string');
        }
      }
    }
  }
});

test('spaces hide no command, and a text that is cut off says so', () => {
  assert.equal(words('tool.requested', { tool: 'Bash', input: `${' '.repeat(100_000)}rm -rf /` }).what, 'rm -rf /');
  assert.equal(oneLine('x'.repeat(300)), `${'x'.repeat(240)}…`);
  assert.equal(oneLine(`${'x'.repeat(239)}\u{1f600}`), `${'x'.repeat(239)}…`);
  assert.equal(oneLine('a\n\t b'), 'a b');
  const text = JSON.stringify({ command: 'a\nb' });
  assert.equal(askedOf('Bash', parse(text), text).what, 'a\nb');
});

test('of a record without its payload nothing is said', () => {
  const text = `{"index":0,"timestamp":"2026-11-27T10:00:00.000Z","payload":null,"pruned":true,"hash":"${'0'.repeat(64)}",` +
    `"signature":"${'A'.repeat(86)}"}`;
  assert.equal(sentenceOf(callWords(recordForm(parse(text), text, 'it'))), '');
});
