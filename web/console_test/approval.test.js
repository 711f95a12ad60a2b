// What a person signs for an approval is what package approval makes of it.
import assert from 'node:assert/strict';
import test from 'node:test';
import { toolOf } from '../console/lib/approval.js';
import { askedBy, challengeOf, notOver, readObject } from '../console/lib/signed_approval.js';
import { parse } from '../console/lib/json.js';

const object = {
  approvalId: 'apr_AAECAwQFBgcICQoLDA0ODw', log: 'log.example/v1/log/11111111111111111111111111111111', index: 17,
  hash: '207af3e0bf476b17702b569f8feab5321cecb5187560e3a9737f02cdf527371c', agentId: 'deploy-bot', tool: 'bank/transfer',
  person: 'alice', verdict: 'approve', uses: 1, expiresAt: '2026-03-02T09:10:00.000Z', reason: null,
};
const base64url = (text) => Buffer.from(text).toString('base64url');

test('a challenge follows from every member, in any order', async () => {
  const challenge = await challengeOf(object);
  assert.match(challenge, /^[A-Za-z0-9_-]{43}$/);
  assert.equal(await challengeOf(readObject(JSON.stringify(Object.fromEntries(Object.entries(object).reverse())))), challenge);
  for (const [name, value] of Object.entries(object)) {
    const other = typeof value === 'number' ? value + 1 : name === 'verdict' ? 'deny' : `${value ?? ''}x`;
    assert.notEqual(await challengeOf({ ...object, [name]: other }), challenge, name);
  }
});

test('an object has exactly its members', () => {
  for (const text of ['{}', JSON.stringify({ ...object, more: 1 }), JSON.stringify({ ...object, verdict: 'allow' }), JSON.stringify({ ...object, index: 1.5 })])
    assert.throws(() => readObject(text));
});

test('an assertion is over one object, by a person who was verified', async () => {
  const client = { type: 'webauthn.get', challenge: await challengeOf(object), origin: 'https://attestd.example' };
  const assertion = (more = {}, flags = 5) => ({
    clientDataJSON: base64url(JSON.stringify({ ...client, ...more })),
    authenticatorData: Buffer.concat([Buffer.alloc(32), Buffer.from([flags, 0, 0, 0, 0])]).toString('base64url'),
  });
  assert.equal(await notOver(object, assertion()), '');
  assert.match(await notOver({ ...object, uses: 2 }, assertion()), /something else/);
  assert.match(await notOver(object, assertion({ type: 'webauthn.create' })), /another purpose/);
  for (const flags of [0, 1, 4]) assert.match(await notOver(object, assertion({}, flags)), /did not verify/);
});

test('a record asks for one approval, of one tool', () => {
  const record = (actionType, payload, decision) => ({ actionType, inner: parse(JSON.stringify(payload)), decision });
  assert.deepEqual(askedBy(record('approval.requested', { approvalId: 'a', expiresAt: 'e' })), { approvalId: 'a', expiresAt: 'e' });
  assert.deepEqual(askedBy(record('tool.requested', {}, { verdict: 'ask', approval: 'a' })), { approvalId: 'a', expiresAt: '' });
  assert.equal(askedBy(record('tool.requested', { approvalId: 'a' }, { verdict: 'allow', approval: 'a' })), null);
  for (const [payload, want] of [[{ tool: 'Bash' }, 'Bash'], [{ tool: 'transfer', server: 'bank' }, 'bank/transfer'],
    [{ tool: 'mcp__bank__transfer' }, 'bank/transfer'], [{ tool: 'mcp__a__b__c' }, 'a/b__c'], [{ tool: 'mcp__x' }, 'mcp__x'], [{}, 'pay']])
    assert.equal(toolOf(record('pay', payload)), want);
});
