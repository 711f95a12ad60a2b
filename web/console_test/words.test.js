import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { eventOf } from '../console/lib/evidence/control.js';
import { parseRecord, parseRecordOf } from '../console/lib/record.js';
import { addPolicies, agentKeyOf, signed, unsigned } from '../console/lib/words.js';

const kept = new Map();
globalThis.localStorage = { getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => kept.set(name, value) };
const { agentKeyState, confirmAgentKey, forgetAgentKey } = await import('../console/core/agent_trust.js');
const { verdict, wordVerdict } = await import('../console/core/verdict.js');

const sample = (name) => JSON.parse(readFileSync(new URL(`../../chain/evidence/testdata/${name}`, import.meta.url)));
const green = verdict({ ok: true, keyState: 'confirmed', found: [] });
const amber = verdict({ ok: true, keyState: 'unconfirmed', found: [] });
const other = 'A'.repeat(43);

// The record of a file, and who signed it, from the control records in that file.
async function wordIn({ record: given, agentKey, logs: [{ origin: log }] }) {
  const record = parseRecord(JSON.stringify(given));
  const known = new Map();
  for (const one of agentKey.records) {
    const change = parseRecordOf('control', JSON.stringify(one.record));
    const event = { ...eventOf(change), source: change.source };
    const kid = event.subject.slice('agent-key:'.length);
    known.set(kid, [...(known.get(kid) ?? []), event]);
  }
  const audience = JSON.parse(Buffer.from(record.statement.split('.')[1], 'base64url')).aud;
  const agent = { companyId: record.companyId, agentId: record.agentId, audience, log };
  return { agent, word: await signed(record, (kid) => agentKeyOf(known, kid, agent)) };
}

const judged = (agent, word, record = green) => wordVerdict(word, agentKeyState(agent, word.chain), record);

test('what the agent signed is amber until its key is confirmed, or one from which that follows', async () => {
  const { agent, word } = await wordIn(sample('signed.json'));
  assert.equal(word.is, 'agent', word.reason);
  assert.ok(word.chain.length > 1);
  assert.deepEqual(judged(agent, word), { tone: 'warn', is: 'signed by the agent' });
  for (const kid of word.chain) {
    assert.ok(!confirmAgentKey(agent, kid, other));
    assert.equal(judged(agent, word).tone, 'warn');
    assert.ok(confirmAgentKey(agent, kid, ` ${kid.slice(0, 20)} ${kid.slice(20)}\n`));
    assert.deepEqual(judged(agent, word), { tone: 'ok', is: 'signed by the agent' });
    assert.equal(judged(agent, word, amber).tone, 'warn', 'of a company whose key nobody confirmed');
    assert.equal(judged({ ...agent, companyId: 'other' }, word).tone, 'warn', 'of another company');
    forgetAgentKey(agent, kid);
  }
  confirmAgentKey(agent, other, other);
  assert.deepEqual(judged(agent, word), { tone: 'bad', is: 'signed by another key' });
  confirmAgentKey(agent, word.chain.at(-1), word.chain.at(-1));
  assert.equal(judged(agent, word).tone, 'ok', 'an agent may have several keys');
  forgetAgentKey(agent, other);
  forgetAgentKey(agent, word.chain.at(-1));
  assert.equal(kept.get('attestd.agent-keys'), '[]');
});

test('no record that the company’s key forges is green with the agent’s key confirmed', async () => {
  const forged = sample('forged.json').map(({ file, ...more }) => ({ ...more, file: JSON.parse(file) }));
  let signedOnes = 0;
  for (const { name, file, pin } of forged) {
    if (!file.record.payload.statement || !file.agentKey) continue;
    signedOnes++;
    const { agent, word } = await wordIn(file);
    confirmAgentKey(agent, pin, pin);
    assert.equal(judged(agent, word).tone, 'bad', `${name}: ${word.reason}`);
    forgetAgentKey(agent, pin);
  }
  assert.ok(signedOnes > 4, `${signedOnes} of ${forged.length}`);
});

test('a statement does not hold for another record, nor without the control record of its key', async () => {
  const file = sample('signed.json');
  const moved = structuredClone(file);
  moved.record.payload.payload = { changed: true };
  const { agent, word } = await wordIn(moved);
  assert.equal(word.is, 'fails');
  assert.equal(judged(agent, word).tone, 'bad');
  file.agentKey.records = [];
  assert.match((await wordIn(file)).word.reason, /does not say that .* is a key of this agent/);
});

const at = (seconds) => new Date(Date.UTC(2026, 2, 1, 12, 0, seconds)).toISOString();

function change(index, seconds, agentId, attest) {
  const payload = { agentId: 'x', companyId: 'acme', actionType: 'agent.policy-changed', log: 'control',
    payload: { subject: `policy:${agentId}`, by: null, attest } };
  return parseRecordOf('control', JSON.stringify({ index, timestamp: at(seconds), payload, hash: '0'.repeat(64),
    signature: 'A'.repeat(86) }));
}

test('what nobody signed in the name of a protected agent is red, from the policy on until its end', () => {
  const say = (seconds, agentId, policies) => {
    const payload = { agentId, companyId: 'acme', actionType: 'note', payload: 1 };
    const text = JSON.stringify({ index: 0, timestamp: at(seconds), payload, hash: '0'.repeat(64),
      signature: 'A'.repeat(86) });
    return wordVerdict(unsigned(parseRecord(text), policies), 'unconfirmed', green);
  };
  const grey = { tone: '', is: 'recorded with a company key' };
  const red = { tone: 'bad', is: 'not signed by the agent' };
  const own = addPolicies(new Map(), [change(2, 60, 'bot', 'any'), change(1, 20, 'bot', 'key')]);
  for (const [seconds, want] of [[10, grey], [22, grey], [30, red], [50, red], [58, grey], [70, grey]])
    assert.deepEqual(say(seconds, 'bot', own), want, `${seconds}`);
  assert.deepEqual(say(30, 'other', own), grey);
  const all = addPolicies(new Map(), [change(1, 20, '', 'key')]);
  assert.deepEqual(say(30, 'other', all), red);
  addPolicies(all, [change(1, 20, '', 'key'), change(3, 40, 'bot', 'any')]);
  assert.deepEqual(say(50, 'bot', all), red, 'the stricter of the two holds');
  assert.equal(all.get('policy:').length, 1);
  const audiences = { agentId: 'x', companyId: 'acme', actionType: 'company.policy-changed', log: 'control',
    payload: { subject: 'company-policy', by: null, exchangeAudiences: ['vault'] } };
  addPolicies(all, [parseRecordOf('control', JSON.stringify({ index: 4, timestamp: at(90), payload: audiences,
    hash: '0'.repeat(64), signature: 'A'.repeat(86) }))]);
  assert.deepEqual([...all.keys()], ['policy:', 'policy:bot'], 'another decision of the company is no policy of agents');
});

test('what could not be found out, and a record that fails, have no tone', () => {
  const word = { is: 'agent', reason: '', companyId: 'acme', agentId: 'bot', chain: [other] };
  assert.equal(wordVerdict({ ...word, is: 'unknown' }, 'confirmed', green).tone, '');
  const fails = verdict({ ok: false, keyState: 'confirmed', found: [] });
  for (const is of ['agent', 'company', 'unsigned'])
    assert.deepEqual(wordVerdict({ ...word, is }, 'confirmed', fails), { tone: '', is: 'signer unknown' });
});
