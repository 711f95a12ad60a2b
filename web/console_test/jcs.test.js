import assert from 'node:assert/strict';
import test from 'node:test';
import { canonicalize } from '../console/lib/jcs.js';

const canonical = [
  ['{"b":1,"a":2}', '{"a":2,"b":1}'],
  [' [ 1.0 , 1e2, -0, 0.1e1 ] ', '[1,100,0,1]'],
  ['[1e21,1e-7,0.000001,333333333.33333329e0]', null],
  ['[1e21,1e-7,0.000001,9007199254740992]', '[1e+21,1e-7,0.000001,9007199254740992]'],
  ['{"9":1,"10":2,"__proto__":3}', '{"10":2,"9":1,"__proto__":3}'],
  ['{"\\u20ac":1,"\\ud83d\\ude00":2,"\\ufb33":3}', '{"€":1,"😀":2,"\ufb33":3}'],
  ['"\\u0000\\u001f\\u007f\\/\\u003c"', '"\\u0000\\u001f\u007f/<"'],
  ['null', 'null'],
  ['{"a":{"c":[true,false,null],"b":""}}', '{"a":{"b":"","c":[true,false,null]}}'],
];

for (const [source, want] of canonical) {
  test(`canonical form of ${source}`, () => {
    if (want === null) assert.throws(() => canonicalize(source));
    else assert.equal(canonicalize(source), want);
  });
}

const refused = [
  ['12345678901234567890', '', /canonical form/],
  ['{"a":[9007199254740993]}', '/a/0', /canonical form/],
  ['18446744073709551616', '', /canonical form/],
  ['1e400', '', /too large/],
  ['1e-400', '', /canonical form/],
  ['0.1000000000000000055511151231257827', '', /canonical form/],
  ['{"a":1,"a":2}', '/a', /duplicate/],
  ['{"a/b":{"c~":"\\ud800"}}', '/a~1b/c~0', /surrogate/],
  ['"\\udc00\\ud800"', '', /surrogate/],
  ['01', '', /unexpected/],
  ['[1,]', '/1', /unexpected/],
  ['{"a":1,}', '', /key/],
  ['"a\nb"', '', /control/],
  ['"\\x"', '', /escape/],
  ['1 2', '', /unexpected/],
  ['\ufeff1', '', /unexpected/],
  ['', '', /end/],
  ['"abc', '', /unterminated/],
  ['tru', '', /unexpected/],
];

for (const [source, pointer, reason] of refused) {
  test(`refuses ${JSON.stringify(source)}`, () => {
    assert.throws(() => canonicalize(source), (err) => err.pointer === pointer && reason.test(err.reason));
  });
}

test('nesting is bounded exactly', () => {
  const nested = (n) => '['.repeat(n) + ']'.repeat(n);
  assert.equal(canonicalize(nested(128), 128), nested(128));
  assert.throws(() => canonicalize(nested(129), 128), /deeper/);
});
