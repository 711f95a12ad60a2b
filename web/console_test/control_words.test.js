import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { parse } from '../console/lib/json.js';

// The modules that name URLs read the one of their page.
Object.assign(globalThis, { location: { hash: '' }, addEventListener() {} });
const { ControlWords, kindName, kinds } = await import('../console/parts/control_words.js');

const at = '2026-03-02T09:05:04.218Z';
const one = { // a payload of each kind
  'company.registered': { kid: 'k1' },
  'api-key.created': { fingerprint: 'f', label: 'ci', role: 'writer', expiresAt: at },
  'api-key.deleted': { fingerprint: 'f', label: null },
  'oauth-client.created': { fingerprint: 'f', clientId: 'cc_1', role: 'admin', expiresAt: null, jwksUri: 'https://ci.example/jwks' },
  'oauth-client.deleted': { fingerprint: 'f', clientId: 'cc_1' },
  'bytes.recounted': { by: null, log: 'actions', records: 12, from: 7, to: 9 },
  'payloads.pruned': { by: null, records: 12, skeleton: 's', bytes: 9, archive: 'a', root: 'r' },
  'call.disobeyed': { by: null, agentId: 'bot', tool: 'Bash', source: 'claude-code', callId: 'c', sessionId: 's', kid: 'hook', sid: 's', refused: 3, done: 5 },
  'approval.granted': { approvalId: 'apr_1', object: {}, credentialId: 'c', authenticatorData: 'a', clientDataJSON: 'd', signature: 's', state: 'approved', remaining: 1, until: at },
  'approval.denied': { approvalId: 'apr_1', object: {}, credentialId: 'c', authenticatorData: 'a', clientDataJSON: 'd', signature: 's', state: 'denied' },
  'approval.used': { approvalId: 'apr_1', log: 'l', index: 7, hash: 'h', remaining: 0 },
  'approval.withdrawn': { approvalId: 'apr_1', reason: 'person' },
  'agent.registered': { agentId: 'bot', metadataHash: 'h' },
  'agent.disabled': { agentId: 'bot', passportsRevoked: 2 },
  'agent.enabled': { agentId: 'bot' },
  'agent-key.enrolled': { agentId: 'bot', thumbprint: 't', label: 'laptop', expiresAt: null, enrolment: 'e',
    endorsement: null },
  'agent-key.revoked': { agentId: 'bot', thumbprint: 't', revokedAt: at },
  'token-key.created': { kid: 'k', alg: 'ES256', jwk: {}, signsFrom: at },
  'token-key.ended': { kid: 'k', endedAt: at, compromised: true },
  'federation.created': { federation: 'ci', issuer: 'https://ci.example', audience: 'a', jwks: null, jwksUri: null,
    rules: [] },
  'federation.deleted': { federation: 'ci' },
  'federation.used': { federation: 'ci', issuer: 'https://ci.example', tokenSubject: 's', rule: 0, agentId: 'bot' },
  'agent.policy-changed': { agentId: 'bot', attest: 'key' },
  'company.policy-changed': { attest: 'any' },
  'person.created': { personId: 'alice', name: 'Alice', roles: ['admin'] },
  'person.changed': { personId: 'alice', name: 'Alice', roles: ['reader'], disabledAt: at },
  'person.deleted': { personId: 'alice' },
  'person.signed-in': { personId: 'alice', session: 's', signedIn: 'passkey', passkey: 'k' },
  'person.signed-out': { personId: 'alice', session: 's' },
  'passkey.enrolled': { personId: 'alice', credentialId: 'k' },
  'passkey.revoked': { personId: 'alice', credentialId: 'k', revokedAt: at },
  'invitation.created': { personId: 'alice', fingerprint: 'f', expiresAt: at },
  'policy.put': { policyId: 'payments', cedar: 'permit (principal, action, resource);', sha256: 'e0', description: 'refunds', set: 'f1', revision: 4 },
  'policy.deleted': { policyId: 'payments', set: 'f2', revision: 5 },
  'company.suspended': { suspendedAt: at, reason: 'unpaid' },
  'company.resumed': { reason: 'paid' },
  'company.quota-changed': { maxRecords: 1000, maxBytes: null, reason: 'small' },
  'enrolment.created': { agentId: 'bot', fingerprint: 'e', label: null, expiresAt: at },
  'passport.issued': { jti: 'j', agentId: 'bot', scopes: ['tool:*'], expiresAt: 1772442304, rotates: 'i' },
  'passport.revoked': { jti: 'j', agentId: 'bot', reason: 'stolen' },
  'signing-key.rotated': { kid: 'k2', previousKid: 'k1', compromised: true, fromIndex: 7 },
  'webhook.created': { webhookId: 'w' },
  'webhook.deleted': { webhookId: 'w' },
  'webhook.enabled': { webhookId: 'w' },
  'webhook.disabled': { webhookId: 'w', reason: 'gone' },
  'webhook.secret-rotated': { webhookId: 'w' },
  'settings.changed': { changed: { witnesses: { from: '', to: 'w1' } } },
  'database.restored': { replaced: { actions: 3, control: 4 } },
  'api-key.recovered': { fingerprint: 'f', via: 'http' },
  'database.rekeyed': { from: 'plain', to: 'sealed' },
  'database.moved': { from: 'sqlite', to: 'postgres', digest: 'd' },
  'head-file.made': { madeAt: at },
  'row.adopted': { table: 'agent', name: 'bot' },
  'row.accepted': { table: 'agent', name: 'bot' },
  'tables.adopted': {},
  'tables.accepted': { rows: 1, reason: 'restored by hand' },
  'rollback.accepted': { reason: null },
};

// The text of what a component gives, with those that it holds.
function textOf(node) {
  if (Array.isArray(node)) return node.map(textOf).join('');
  if (node === null || typeof node !== 'object') return node === null || node === undefined || typeof node === 'boolean'
    ? '' : String(node);
  return textOf(typeof node.type === 'function' ? node.type(node.props) : node.props.children);
}

test('the console has words for each kind of control record that the service writes', () => {
  const source = readFileSync(new URL('../../store/control.go', import.meta.url), 'utf8');
  const written = [...source.matchAll(/ControlAction = "([a-z-]+\.[a-z-]+)"/g)].map(([, action]) => action);
  assert.ok(written.length > 20);
  for (const action of written) assert.ok(kinds.some(([kind]) => kind === action), `no words for ${action}`);
  assert.deepEqual(Object.keys(one).sort(), kinds.map(([kind]) => kind).sort());
  for (const [action, payload] of Object.entries(one)) {
    const text = JSON.stringify({ subject: 'x:y', by: null, ...payload });
    const said = textOf(ControlWords({ change: { action, inner: parse(text), source: text } }));
    assert.ok(said && !/undefined|does not know/.test(said), `${action}: ${said}`);
  }
});

test('a change of the company’s policy is told by what it names', () => {
  for (const [payload, want] of [
    [{ attest: 'key' }, /^In the name of every agent, only a key of the agent may speak/],
    [{ exchangeAudiences: ['https://mcp.example/', 'vault'] }, /^Tokens are exchanged for https:\/\/mcp.exam.*, vault from then on$/],
    [{ exchangeAudiences: [] }, /^Tokens are exchanged for this service alone/],
    [{ changes: 'people' }, /^Rights are changed by only people who have signed in from then on$/],
    [{ decisions: 'all' }, /^Of the decisions that are in no record of the agent, all become records/],
    [{ decisions: 'denied' }, /, those that deny become records/],
  ]) {
    const text = JSON.stringify({ subject: 'company-policy', by: null, ...payload });
    assert.match(textOf(ControlWords({ change: { action: 'company.policy-changed', inner: parse(text), source: text } })), want);
  }
});

test('a change of an agent’s policy is told by what it names', () => {
  for (const [payload, want] of [
    [{ attest: 'key' }, /^In the name of bot, only a key of the agent may speak/],
    [{ groups: ['finance', 'ops'] }, /^The agent bot is in finance, ops from then on$/],
    [{ groups: [] }, /^The agent bot is in no group from then on$/],
  ]) {
    const text = JSON.stringify({ subject: 'x', by: null, agentId: 'bot', ...payload });
    assert.match(textOf(ControlWords({ change: { action: 'agent.policy-changed', inner: parse(text), source: text } })), want);
  }
});

test('a client whose keys are fetched is told with their URL', () => {
  const text = JSON.stringify({ subject: 'oauth-client:cc_1', by: null, ...one['oauth-client.created'] });
  const said = textOf(ControlWords({ change: { action: 'oauth-client.created', inner: parse(text), source: text } }));
  assert.match(said, /its keys are at https:\/\/ci\.example\/jwks/);
});

test('a kind that objects inherit a member of is one that the console does not know', () => {
  const text = '{"subject":"x:y","by":null}';
  for (const action of ['constructor', 'toString', '__proto__']) {
    assert.equal(kindName(action), action);
    assert.match(textOf(ControlWords({ change: { action, inner: parse(text), source: text } })), /of x:y$/);
  }
});
