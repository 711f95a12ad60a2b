import assert from 'node:assert/strict';
import test from 'node:test';
import { lineDiff } from '../console/core/line_diff.js';

const shown = (before, after) => lineDiff(before, after).map(([sign, line]) => sign + line).join('|');

test('an edit is the lines that it removes and adds, among those that stay', () => {
  assert.equal(shown('a\nb\nc', 'a\nx\nc'), ' a|-b|+x| c');
  assert.equal(shown('a\nb', 'a\nb\nc\n'), ' a| b|+c');
  assert.equal(shown('', 'a\nb'), '+a|+b');
  assert.equal(shown('a\nb\n', ''), '-a|-b');
  assert.equal(shown('', ''), '');
  assert.equal(shown('a\na\na', 'a\na'), ' a| a|-a');
  assert.equal(shown('one\ntwo\nthree\nfour', 'zero\ntwo\nfour\nfive'), '-one|+zero| two|-three| four|+five');
});

// By whatever way, what is removed and what stays is the text before, and what is added and what
// stays the one after.
test('both texts can be read from their difference', () => {
  let seed = 7;
  const random = (n) => { seed = (seed * 1103515245 + 12345) % 2147483648; return seed % n; };
  for (let i = 0; i < 300; i++) {
    const text = () => Array.from({ length: random(9) }, () => 'abc'[random(3)]).join('\n');
    const [before, after] = [text(), text()];
    const diff = lineDiff(before, after);
    const side = (sign) => diff.filter(([is]) => is !== sign).map(([, line]) => line).join('\n');
    assert.deepEqual([side('+'), side('-')], [before, after]);
  }
  const many = (name) => Array.from({ length: 2000 }, (_, i) => `${name}${i}`).join('\n');
  assert.equal(lineDiff(many('a'), many('b')).length, 4000);
});
