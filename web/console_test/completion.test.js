import assert from 'node:assert/strict';
import test from 'node:test';

globalThis.BroadcastChannel = undefined; // of the tabs of a browser: it would keep the process
const { beginnings, completions } = await import('../console/core/completion.js');

test('a list has each name that contains what is typed once, those that begin so first, and 20 at most', () => {
  assert.deepEqual(completions(['mail-bot', 'bot', 'Bot-2', 'other', 'bot'], 'bo'), ['bot', 'Bot-2', 'mail-bot']);
  assert.deepEqual(completions(['bot'], 'bot'), []);
  assert.equal(completions(Array.from({ length: 99 }, (_, i) => `n${i}`), '').length, 20);
});

test('a name that reads otherwise than it is does not complete anything', () => {
  assert.deepEqual(completions(['a\u202eb', 'a\nb', 'a\u0000', ' a', '', 'a\u200bb', 'a b'], ''), ['a b']);
});

test('actions that begin alike are found by their beginning', () => {
  assert.deepEqual(beginnings(['tool.called', 'note', 'tool.denied', 'tool.failed', 'mail.sent']), ['tool.*']);
});
