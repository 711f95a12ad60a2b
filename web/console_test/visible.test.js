import assert from 'node:assert/strict';
import test from 'node:test';
import { pieces, visible } from '../console/lib/visible.js';

test('what nobody sees is shown by its number', () => {
  for (const [text, want] of [
    ['pay\u202eelor', 'pay⟨U+202E⟩elor'],
    ['a\u200bb', 'a⟨U+200B⟩b'],
    ['\ufeffadmin\u0000', '⟨U+FEFF⟩admin⟨U+0000⟩'],
    ['\u{e0041}\u{e007f}', '⟨U+E0041⟩⟨U+E007F⟩'], // tag characters, which carry hidden text
    ['x\ufe0f\u{e0100}', 'x⟨U+FE0F⟩⟨U+E0100⟩'],
    ['a\u2028b\u2029c\u0085d\re', 'a⟨U+2028⟩b⟨U+2029⟩c⟨U+0085⟩d⟨U+000D⟩e'],
    ['\ud83dx', '⟨U+D83D⟩x'],
    ['\u3164\u115f\u2800\u034f\u00ad\u061c', '⟨U+3164⟩⟨U+115F⟩⟨U+2800⟩⟨U+034F⟩⟨U+00AD⟩⟨U+061C⟩'],
    ['\u0378\ue000\uffff', '⟨U+0378⟩⟨U+E000⟩⟨U+FFFF⟩'], // not assigned, private, no character
    ['\u2066\u2069\u200e\u200f\u2060\u200d', '⟨U+2066⟩⟨U+2069⟩⟨U+200E⟩⟨U+200F⟩⟨U+2060⟩⟨U+200D⟩'],
  ]) assert.equal(visible(text), want);
});

test('what is seen stays as it is', () => {
  for (const text of ['', 'agent-1', 'two\nlines\tand a tab', 'Łukasz & Söhne', 'דוד', 'محمد', '支払い', '🧾 e\u0301',
    'a\u00a0b']) assert.equal(visible(text), text);
});

test('every control, format and default-ignorable character there is', () => {
  for (let code = 0; code <= 0x10ffff; code++) {
    const character = String.fromCodePoint(code);
    if (/[\p{Cc}\p{Cf}\p{Cs}\p{Bidi_Control}\p{Variation_Selector}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]/u.test(character) && !'\n\t'.includes(character)) {
      assert.match(visible(character), /^⟨U\+[0-9A-F]{4,6}⟩$/);
    }
  }
});

test('the pieces are the text, and say which of them stands for what is not seen', () => {
  assert.deepEqual(pieces('a\u202eb\u200b'), [
    { shown: 'a', unseen: false }, { shown: '⟨U+202E⟩', unseen: true }, { shown: 'b', unseen: false },
      { shown: '⟨U+200B⟩', unseen: true },
  ]);
  assert.deepEqual(pieces('⟨U+202E⟩'),
    [{ shown: '⟨U+202E⟩', unseen: false }]); // a text that only says so does not stand out
});
