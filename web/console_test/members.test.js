import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { matches, searchOf } from '../console/core/search.js';
import { parse } from '../console/lib/json.js';
import { MembersError, hasMembers, membersOf } from '../console/lib/members.js';

// The cases of the service, which must decide the same.
const cases = JSON.parse(readFileSync(new URL('../../chain/search/testdata/members.json', import.meta.url), 'utf8'));

test('a member is found at its path and by its value alone, as the service finds it', () => {
  for (const [payload, text, want] of cases.matches)
    assert.equal(hasMembers(parse(payload), membersOf(text)), want, `${text} in ${payload}`);
  for (const [text, form] of cases.canonical) {
    const again = membersOf(text).map(({ path, value }) =>
      `${path.map((name) => JSON.stringify(name)).join('.')}=${value}`).join(' ');
    assert.equal(again, form);
  }
});

test('what the service refuses is refused, with a reason', () => {
  for (const text of [...cases.refused, `${'a'.repeat(1023)}=1`])
    assert.throws(() => membersOf(text), (err) => err instanceof MembersError && err.message !== '', text);
});

test('a search for members takes records that have them, and none where the condition is none', () => {
  const record = { agentId: 'a', actionType: 'b', timestamp: '', hash: '', delegation: null,
    inner: parse('{"tool":"Bash"}') };
  const search = (payload) => searchOf({ payload }, 0);
  assert.equal(matches(record, search('tool=Bash')), true);
  assert.equal(matches(record, search('tool=Read')), false);
  assert.equal(matches(record, search('tool')), false);
  assert.equal(matches(record, search('')), true);
});
