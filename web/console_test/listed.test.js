// A list has what was created and not deleted by the control log, and nothing else.
import assert from 'node:assert/strict';
import test from 'node:test';
import { parse } from '../console/lib/json.js';

Object.assign(globalThis, { location: { hash: '' }, addEventListener() {} });
globalThis.BroadcastChannel = undefined; // of the tabs of a browser: it would keep the process
const { LISTED, compare, lives } = await import('../console/core/listed.js');
const { kinds } = await import('../console/parts/control_words.js');

let index = 0;
const at = '2026-11-28T10:00:00.000Z';
const change = (actionType, subject, payload = {}) =>
  ({ subject, record: { index: index++, actionType, timestamp: at, inner: parse(JSON.stringify({ subject, ...payload })) } });
const bare = (subjects) => subjects.map((subject) => ({ subject, lists: {} }));

/** What differs, in words. */
const differs = (changes, subjects, kind = 'webhook') =>
  compare(lives(changes, kind), bare(subjects)).differences.map(({ is, name, record }) => `${is} ${name} ${record?.index ?? ''}`.trim());

test('what was created and not deleted must be listed, and nothing else may be', () => {
  index = 0;
  const log = [change('webhook.created', 'webhook:a'), change('webhook.created', 'webhook:b'), change('webhook.disabled', 'webhook:a'),
    change('webhook.deleted', 'webhook:b'), change('webhook.created', 'webhook:c')];
  assert.deepEqual(differs(log, ['webhook:a', 'webhook:c']), []);
  assert.deepEqual(differs(log.toReversed(), ['webhook:c', 'webhook:a']), []);
  assert.deepEqual(differs(log, ['webhook:c']), ['lacking a 0']);
  assert.deepEqual(differs(log, ['webhook:a', 'webhook:b', 'webhook:c']), ['ended b 3']);
  assert.deepEqual(differs(log, ['webhook:a', 'webhook:c', 'webhook:d', 'webhook:__proto__']), ['unknown d', 'unknown __proto__']);
  assert.deepEqual(differs([], []), []);
  assert.throws(() => differs(log, ['webhook:a', 'webhook:a', 'webhook:c']), /twice/);
  const { created, ended } = compare(lives(log, 'webhook'), bare(['webhook:a', 'webhook:c']));
  assert.deepEqual([created, ended], [3, 1]);
});

test('a name may be given again, and is of its own kind', () => {
  index = 0;
  const log = [change('federation.created', 'federation:ci'), change('federation.deleted', 'federation:ci'),
    change('federation.created', 'federation:ci'), change('federation.used', 'federation-use:ci'), change('webhook.deleted', 'webhook:ci')];
  assert.deepEqual(differs(log, ['federation:ci'], 'federation'), []);
  assert.deepEqual(differs(log, [], 'federation'), ['lacking ci 2']);
  assert.deepEqual(differs(log, ['federation:ci:x'], 'federation'), ['lacking ci 2', 'unknown ci:x']);
});

test('a row that an operator adopted or accepted is there, and one of which there was none is not', () => {
  index = 0;
  const log = [change('row.adopted', 'api-key:f', { table: 'api_key', name: 'f', row: { role: 'admin' } }),
    change('api-key.created', 'api-key:g'), change('row.accepted', 'api-key:g', { table: 'api_key', name: 'g', row: null })];
  assert.deepEqual(differs(log, ['api-key:f'], 'api-key'), []);
  assert.deepEqual(differs(log, ['api-key:g'], 'api-key'), ['lacking f 0', 'ended g 2']);
});

/** Of which members a list has something else than the control log says, and what that is. */
const altered = (changes, subject, lists) =>
  compare(lives(changes, subject.split(':')[0]), [{ subject, lists }]).differences
    .map(({ is, record, altered: { member, says } }) => `${is} ${member} ${says} ${record.index}`);

test('what is listed of a thing is what the newest record that names it says', () => {
  index = 0;
  const hook = [change('webhook.created', 'webhook:a', { urlHash: 'f', agents: null, actions: ['pay.*'], fingerprint: '1' }),
    change('webhook.secret-rotated', 'webhook:a', { fingerprint: '2' }), change('webhook.disabled', 'webhook:a', { reason: 'gone' })];
  const lists = { url: 'f', agents: undefined, actions: ['pay.*'], fingerprint: '2', createdAt: '2026-11-28T09:59:59.990Z',
    disabledAt: at, disabledReason: 'gone', nextIndex: 3 };
  assert.deepEqual(altered(hook, 'webhook:a', lists), []);
  for (const [member, value, says] of [['url', 'e', '"f" 0'], ['agents', ['x'], 'null 0'], ['actions', undefined, '["pay.*"] 0'],
    ['fingerprint', '1', '"2" 1'], ['createdAt', '2026-11-28T10:02:00.000Z', `"${at}" 0`], ['disabledAt', undefined, `"${at}" 2`],
    ['disabledReason', undefined, '"gone" 2']])
    assert.deepEqual(altered(hook, 'webhook:a', { ...lists, [member]: value }), [`altered ${member} ${says}`]);
  const enabled = [...hook, change('webhook.enabled', 'webhook:a')];
  assert.deepEqual(altered(enabled, 'webhook:a', lists), [`altered disabledReason null 3`, `altered disabledAt null 3`]);
});

test('a row that an operator accepted says what it is from then on', () => {
  index = 0;
  const row = { fingerprint: 'f', role: 'reader', expiresAt: '', madeBy: '' };
  const log = [change('api-key.created', 'api-key:f', { role: 'admin', label: 'ci', expiresAt: at, by: 'g' }),
    change('row.accepted', 'api-key:f', { table: 'api_key', name: 'f', row })];
  assert.deepEqual(altered(log, 'api-key:f', { role: 'reader', label: 'ci', expiresAt: undefined, madeBy: undefined, createdAt: at }), []);
  assert.deepEqual(altered(log, 'api-key:f', { role: 'admin', label: 'cd' }), ['altered role "reader" 1', 'altered label "ci" 0']);
  const adopted = [change('row.adopted', 'person:a', { table: 'person', name: 'a', row: { name: 'A', email: '', roles: '["admin"]', groups: '[]', disabledAt: '' } })];
  assert.deepEqual(altered(adopted, 'person:a', { name: 'A', email: null, roles: ['admin'], groups: [], disabledAt: undefined, createdAt: at }), []);
  assert.deepEqual(altered(adopted, 'person:a', { roles: [] }), ['altered roles ["admin"] 2']);
});

test('lists and objects are compared whole, and none of a record stands for a time', () => {
  index = 0;
  const rule = { match: { sub: 'a', aud: ['b'] }, agentId: 'bot' };
  const log = [change('federation.created', 'federation:ci', { issuer: 'i', audience: { near: at }, rules: [{ ...rule, note: 'x' }] })];
  assert.deepEqual(altered(log, 'federation:ci', { issuer: 'i', rules: [{ ...rule, ttl: undefined }] }), []);
  assert.deepEqual(altered(log, 'federation:ci', { audience: at, rules: [{ ...rule, agentId: 'c' }] }), [
    `altered audience {"near":"${at}"} 0`, `altered rules [{"agentId":"bot","match":{"aud":["b"],"sub":"a"}}] 0`]);
});

// Whatever the control log says was begun has its list here, or a reason.
test('each kind of right that begins is compared with its list', () => {
  const without = {
    'company.registered': 'the company itself, which is no list',
    'agent.registered': 'agents are never deleted, and there may be a million: each page of an agent shows its own changes',
    'agent-key.enrolled': 'the page of an agent names the keys that the control log has and its list lacks',
    'token-key.created': 'published keys of tokens for others: each ends by itself, and a verifier reads the key set',
    'enrolment.created': 'good for one key and for minutes: the service does not list them',
    'passkey.enrolled': 'of a person, who signs in with it: the control log is where they are held against each other',
    'invitation.created': 'good for one passkey and for hours: the service does not list them',
    'passport.issued': 'there may be a million, and a passport’s own status is signed by the company',
    'approval.granted': 'of one call, and it ends by itself: its own page holds it against its control record',
    'head-file.made': 'a file of the server',
    'row.adopted': 'of rows of any kind: counted with that kind',
    'tables.adopted': 'a statement about all rows',
  };
  const begins = /\.(created|registered|enrolled|issued|made|adopted|added|opened|granted)$/;
  const compared = new Set(Object.values(LISTED).map(({ created }) => created));
  for (const [action] of kinds.filter(([action]) => begins.test(action)))
    assert.notEqual(compared.has(action), action in without, `${action} has neither a list nor a reason, or both`);
  const known = new Set(kinds.map(([action]) => action));
  for (const { created, ended } of Object.values(LISTED)) assert.ok(known.has(created) && known.has(ended), created);
  for (const action of Object.keys(without)) assert.ok(known.has(action) && begins.test(action), action);
});
