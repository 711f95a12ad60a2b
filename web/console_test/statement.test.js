import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { gunzipSync } from 'node:zlib';
import { checkFile } from '../console/lib/evidence/session.js';
import { parseRecord } from '../console/lib/record.js';

const sample = (name) => readFileSync(new URL(`../../chain/evidence/testdata/${name}`, import.meta.url));
const utf8 = (text) => new TextEncoder().encode(text);
const company = { fingerprint: 'SHA256:M54v-RdjBQe2pCO1zghOKF0fpl2Ts-J6YZXTu-vJriM' };
const pin = 'rmqQfGdG6AHIBRiK_myuURlwB-jCJkJqP1hdDDXhgag';

test('statements, keys and control records in odd forms come to the codes of package evidence', async () => {
  const lines = gunzipSync(sample('odd_statements.jsonl.gz')).toString().trimEnd().split('\n');
  for (const { name, file, code } of lines.map(JSON.parse)) {
    const found = await checkFile(utf8(file), company);
    assert.equal(`${found.verdict} ${found.code}`.trim(), code ? `fails ${code}` : 'holds', `${name}: ${found.reason}`);
  }
  assert.ok(lines.length > 150);
});

test('statements of either version, their keys and sessions come to the codes and sentences of package evidence', async () => {
  const lines = gunzipSync(sample('statement_cases.jsonl.gz')).toString().trimEnd().split('\n');
  for (const { name, file, pin: agentKey, code, says } of lines.map(JSON.parse)) {
    const found = await checkFile(utf8(file), { ...company, ...(agentKey && { agentKey }) });
    assert.equal(`${found.verdict} ${found.code}`.trim(), code ? `fails ${code}` : 'holds', `${name}: ${found.reason}`);
    // a page begins its sentences in upper case
    for (const part of says) assert.ok(found.checked.some((line) => line.includes(part.slice(1))), `${name}: ${part}`);
  }
  assert.ok(lines.length > 100);
});

test('no record that the company’s key forges passes with the agent’s key pinned', async () => {
  for (const { name, file, code, says, pin: agentKey } of JSON.parse(sample('forged.json'))) {
    const pinned = await checkFile(utf8(file), { ...company, agentKey });
    assert.equal(pinned.code, 'STATEMENT', name);
    const found = await checkFile(utf8(file), company);
    assert.equal(found.code, code ?? '', name);
    if (says) assert.ok(found.checked.some((line) => line.includes(says)), `${name}: ${found.checked}`);
  }
});

test('a verdict says who signed a record', async () => {
  const signer = 'WhlIT0HTwF6yZDONyo6NMnrstKfPhO74Xg-5inZ6raA';
  const says = async (trust, words) => assert.ok((await checkFile(sample('signed.json'), trust)).checked.join('\n')
    .includes(words), words);
  await says(company, `A key that the company enrolled for this agent signed this: ${signer}, `);
  await says({ ...company, agentKey: pin }, `The agent’s own key ${signer} signed this: it follows`);
  assert.equal((await checkFile(sample('whole.json'), { ...company, agentKey: pin })).code, 'STATEMENT');
});

test('the file of a session says what is there', async () => {
  const states = {
    complete: '4 records, complete: 0 to 3, sealed.',
    one: '1 records, complete: 0 to 0, sealed.',
    open: '6 records, open at 5.',
    missing: '3 records, missing 0, 2, open at 4.',
  };
  for (const [name, state] of Object.entries(states)) {
    const text = sample(`session-${name}.jsonl`);
    for (const trust of [company, { ...company, agentKey: pin }]) {
      const found = await checkFile(text, trust);
      assert.equal(found.verdict, 'holds', found.reason);
      assert.ok(found.checked.some((line) => line.startsWith('Session ') && line.endsWith(state)), `${found.checked}`);
      assert.ok(found.checked.includes('A session that goes on from this one may exist elsewhere.'));
    }
    const cut = await checkFile(text.subarray(0, text.lastIndexOf(0x0a, -2) + 1), company);
    assert.equal(cut.code, 'MALFORMED', name);
    const changed = await checkFile(utf8(text.toString().replace('"payload":{"n":', '"payload":{"m":')), company);
    assert.equal(changed.code, 'RECORD', name);
  }
});

test('a record with a statement is read, and nothing else beside its payload', () => {
  const { record } = JSON.parse(sample('signed.json'));
  assert.equal(parseRecord(JSON.stringify(record)).statement, record.payload.statement);
  const parse = (changed) => parseRecord(JSON.stringify({ ...record, payload: { ...record.payload, ...changed } }));
  assert.throws(() => parse({ statement: 1 }), /not a string/);
  assert.throws(() => parse({ more: 1 }), /does not belong/);
});
