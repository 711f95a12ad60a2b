import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import * as general from '../console/core/answers.js';
import * as credentials from '../console/core/credentials.js';
import { base64url, rawKeyFromPEM } from '../console/lib/bytes.js';
import { publicKey } from '../console/lib/ed25519.js';
import { Approvals } from '../console/lib/evidence/approvals.js';
import { EvidenceCheck } from '../console/lib/evidence/check.js';
import { open } from '../console/lib/evidence/open.js';
import { identify } from '../console/lib/keyring.js';
import { FormError, integer, read, string, tuple } from '../console/lib/form.js';
import { JSONError } from '../console/lib/json.js';
import { checkRecord, parseRecord } from '../console/lib/record.js';
import { checkStatus } from '../console/lib/status.js';
import { rarely } from './long.js';

globalThis.BroadcastChannel = undefined; // of the tabs of a browser: it would keep the process
const agents = await import('../console/core/agents.js');
const { sessionPage } = await import('../console/core/sessions.js');

const sha = (s) => createHash('sha256').update(s).digest();
const { privateKey, publicKey: nodeKey } = generateKeyPairSync('ed25519');
const pem = nodeKey.export({ type: 'spki', format: 'pem' });
const raw = rawKeyFromPEM(pem);
const key = { companyId: 'acme', spiffeId: 'spiffe://d/company/acme', pem, x: base64url(raw),
  ...(await identify(raw)) };

// A record with a delegation; its members stand in canonical order, so that its own text is its
// preimage's.
const timestamp = '2026-01-02T03:04:05.678Z';
const payload = '{"actionType":"x","agentId":"a","companyId":"acme","payload":{"n":2}}';
const delegation = '{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"t"}';
const digest = sha(`7|${timestamp}|${payload}|${delegation}`);
const signature = sign(null, digest, privateKey).toString('base64url');
const seal = `"hash":"${digest.toString('hex')}","signature":"${signature}"`;
const recordText = `{"index":7,"timestamp":"${timestamp}","payload":${payload},"delegation":${delegation},${seal}}`;
const sibling = sha('sibling').toString('hex');
const climb = (leaf) => sha(sibling + leaf).toString('hex');
const root = climb(climb(climb(digest.toString('hex')))); // record 7 of 8 has three siblings on the left
const rest = JSON.stringify({ proof: [{ sibling, position: 'left' }, { sibling, position: 'left' },
  { sibling, position: 'left' }], root, publicKey: key });
// As earlier consoles saved it.
const file = `{"type":"attestd-evidence","v":1,"savedAt":"2026-01-01T00:00:00Z","record":${recordText},${rest.slice(1)}`;
const service = readFileSync(new URL('../../chain/evidence/testdata/whole.json', import.meta.url), 'utf8');
const opened = (text) => open(new TextEncoder().encode(text));

test('the genuine record and evidence hold', async () => {
  assert.equal((await checkRecord(parseRecord(recordText), { companyId: 'acme', prepared: await publicKey(raw) })).ok,
    true);
  assert.equal((await opened(file)).ok, true);
  assert.equal((await opened(service)).ok, true);
});

// All of these have the preimage, hash and signature of the genuine record.
const moved = {
  'index and timestamp in the index': `{"index":"7|${timestamp}","timestamp":${JSON.stringify(payload)},"payload":${delegation},${seal}}`,
  'the payload in the timestamp': `{"index":7,"timestamp":${JSON.stringify(`${timestamp}|${payload}`)},"payload":${delegation},${seal}}`,
  'the index as a string': recordText.replace('"index":7', '"index":"7"'),
  'the index as a fraction': recordText.replace('"index":7', '"index":7.0'),
  'the index twice': recordText.replace('"index":7', '"index":8,"index":7'),
  'a member beside the payload': recordText.replace('"payload":{"n":2}}', '"payload":{"n":2},"note":"paid"}'),
  'a member beside the record': recordText.replace('"hash"', '"approved":true,"hash"'),
  'a delegation that is null': recordText.replace(delegation, 'null'),
};
for (const [name, text] of Object.entries(moved)) {
  test(`refuses a record with ${name}`, () => assert.throws(() => parseRecord(text), Error));
}

const now = 1_800_000_000;
function statusText(members) {
  const said = { checkedAt: new Date(now * 1000).toISOString(), companyId: 'acme', jti: 'j', status: 'valid',
    ...members };
  const canonical = JSON.stringify(Object.fromEntries(Object.entries(said).sort(([a], [b]) => (a < b ? -1 : 1))));
  return JSON.stringify({ ...said, caPublicKey: pem,
    signature: sign(null, sha(canonical), privateKey).toString('base64url') });
}

test('a signed status is of this passport, this company and this hour', async () => {
  const own = { companyId: 'acme', prepared: await publicKey(raw) };
  const ask = (text, more) => checkStatus(text, own, { jti: 'j', now, ...more });
  assert.equal((await ask(statusText())).status, 'valid');
  assert.equal((await ask(statusText({ status: 'revoked', revokedAt: timestamp }))).status, 'revoked');
  const at = (seconds) => statusText({ checkedAt: new Date((now + seconds) * 1000).toISOString() });
  assert.equal((await ask(at(-300))).status, 'valid');
  await assert.rejects(ask(at(-301)), /older than 300 s/);
  assert.equal((await ask(at(-301), { maxAge: 600 })).status, 'valid');
  await assert.rejects(ask(at(61)), /future/);
  await assert.rejects(ask(statusText({ jti: 'k' })), /another passport/);
  await assert.rejects(ask(statusText({ companyId: 'other' })), /another company/);
  await assert.rejects(ask(statusText({ status: 'fine' })), /status\.status/);
  await assert.rejects(ask(statusText({ status: 'revoked' })), /go together/);
  await assert.rejects(ask(statusText({ note: 'x' })), /does not belong/);
  await assert.rejects(ask(statusText().replace('"valid"', '"unknown"')), /did not sign/);
});

// What a form returns holds nothing but texts, numbers, booleans, nodes of json.js (which go to
// JSONView alone), and arrays and objects made here. In particular no object of it could be a node
// of Preact: those have no constructor.
function assertOurs(value, at) {
  if (value === null || ['string', 'number', 'bigint', 'boolean', 'undefined'].includes(typeof value)) return;
  assert.equal(typeof value, 'object', at);
  assert.ok(Array.isArray(value) || value instanceof Uint8Array || [Object, Map, EvidenceCheck, Approvals].includes(value.constructor)
    || value instanceof CryptoKey, `${at} is an object of another kind`);
  if (value instanceof Uint8Array || value instanceof CryptoKey) return;
  if (/(Node|inner|node)$/.test(at)) return;
  for (const [name, member] of value instanceof Map ? value
    : Object.entries(value)) assertOurs(member, `${at}.${name}`);
}

const element = '{"__b":1,"type":"div","props":{"id":"injected","children":null},"constructor":null,"key":null,"ref":null,"__k":null}';
const strange = [element, `[${element}]`, 'null', 'true', '1.0', '-1', '1e3', '99999999999999999999', '""', '"left "',
  '[]', '{}', '{"toString":1}', '{"__proto__":{"type":"div"}}', `"${sibling.toUpperCase()}"`];

// Every value of a text, replaced by each strange one; every member, left out and doubled. Of each
// every-th place only.
function* mutations(text, every = 1) {
  const places = [];
  const walk = (value, path) => {
    places.push(path);
    if (value && typeof value === 'object') for (const name of Object.keys(value)) walk(value[name], [...path, name]);
  };
  walk(JSON.parse(text), []);
  for (const path of places.filter((_, i) => i % every === 0)) {
    if (path.length === 0) {
      for (const other of strange) yield [other, path];
      continue;
    }
    const copy = JSON.parse(text);
    const parent = path.slice(0, -1).reduce((o, name) => o[name], copy);
    parent[path.at(-1)] = '@here@';
    const around = JSON.stringify(copy);
    for (const other of strange) yield [around.replace('"@here@"', () => other), path];
    delete parent[path.at(-1)];
    yield [JSON.stringify(copy), path];
  }
}

test('nothing but strings and numbers comes out of a changed evidence file, and none holds that was changed',
  async () => {
  for (const [genuine, unsigned] of [[file, ['savedAt', 'publicKey']], [service, []]]) {
    let tried = 0;
    let readable = 0;
    for (const [text, path] of mutations(genuine, (genuine === service ? 5 : 1) * rarely)) {
      tried++;
      let found;
      try {
        found = await opened(text);
      } catch (err) {
        assert.match(err.message, /^not an evidence file: /, path.join('.'));
        continue;
      }
      readable++;
      assertOurs(found, 'evidence');
      if (!unsigned.includes(path[0])
        && JSON.stringify(JSON.parse(text)) !== JSON.stringify(JSON.parse(genuine))) assert.equal(found.ok, false,
          `${path.join('.')}: ${text}`);
    }
    assert.ok(tried > 600 / rarely - 20 && readable > 20 / rarely - 4, `${readable} of ${tried}`);
  }
});

const answers = { ...general, ...agents, ...credentials };

test('answers of the API give what their forms name and nothing else', () => {
  const entry = { index: 2, timestamp, actionType: 'agent.registered', by: 'f' };
  const samples = {
    company: { companyId: 'acme', spiffeId: 's', registeredAt: timestamp, metadata: { a: 1 } },
    discovery: { company_id: 'acme', issuer: 'spiffe://d/ca', passport_format: { audience: 'a' } },
    chainVerdict: { valid: true, merkleRoot: root },
    agentPage: { agents: [{ agentId: 'a', spiffeId: 's', registeredAt: timestamp, disabledAt: timestamp }], total: 1,
      next: 'n' },
    passportPage: { passports: [{ jti: 'j', agentId: 'a', scopes: ['*'], issuedAt: timestamp, expiresAt: timestamp,
      status: 'revoked', revokedAt: timestamp, reason: 'r' }] },
    authorityForm: {
      index: 1, timestamp, control: { size: 4 },
        agent: { agentId: 'a', state: 'registered', registered: entry, last: entry, next: null },
      passports: [{ jti: 'j', scopes: ['*'], issuedAt: timestamp, expiresAt: timestamp, issued: entry, revoked: null }],
      delegation: { delegationChain: ['s'], agents: [] }, signingKey: { kid: 'k', rotated: null }, cannotSay: ['what'],
    },
    credential: { kind: 'apiKey', fingerprint: 'f', label: null, createdAt: timestamp, role: 'admin', madeBy: 'g',
      lastUsedAt: timestamp, expiresAt: timestamp },
    failure: { error: 'e', code: 'C' },
  };
  for (const [name, sample] of Object.entries(samples)) {
    assertOurs(read(answers[name], JSON.stringify(sample), name), name);
    for (const [text] of mutations(JSON.stringify(sample), rarely)) {
      let found;
      try {
        found = read(answers[name], text, name);
      } catch {
        continue;
      }
      assertOurs(found, name);
      assert.doesNotMatch(JSON.stringify(found), /injected/, name);
    }
  }
  const message = `{"type":"record","record":${recordText},"valid":true,"merkleRoot":"${root}"}`;
  assertOurs(read(answers.streamMessage, message, 'message'), 'message');
  assert.throws(() => read(answers.streamMessage, message.replace(`"${root}"`, element), 'message'), FormError);
  assert.throws(() => read(answers.chainVerdict, '{"valid":true}', 'verdict'));
});

test('a pair has two values, and a range does not end before it begins', () => {
  const one = tuple(integer, string);
  assert.deepEqual(read(one, '[1,"a"]', 'it'), [1, 'a']);
  for (const bad of ['[]', '[1]', '[1,"a",2]', '["a",1]', '{}', 'null', '[1,"a",null]'])
    assert.throws(() => read(one, bad, 'it'), FormError, bad);
  const session = { agentId: 'a', kind: 'statement', source: '', kid: '', sid: 's', first: 0, last: 1, firstAt: timestamp,
    lastAt: timestamp, records: 2, state: 'gap', ended: false };
  const missing = (ranges) => read(sessionPage, JSON.stringify({ sessions: [{ ...session, missing: ranges }] }), 'answer');
  assert.deepEqual(missing([[1, 1], [3, 7]]).sessions[0].missing, [[1, 1], [3, 7]]);
  for (const bad of [[[]], [[1]], [[1, 2, 3]], [[2, 1]], [1], [['1', 2]]])
    assert.throws(() => missing(bad), FormError, JSON.stringify(bad));
});

// A list of at most two may have one or none, which whoever takes it for a pair reads as undefined.
test('no form of a pair allows fewer values', () => {
  const folder = new URL('../console/', import.meta.url);
  const allowed = {
    'lib/report.js': 1, // the logs: checkKeys compares their names with those of both logs
    'lib/evidence/file.js': 1, // as above, with the logs that the file needs
    'lib/evidence/session.js': 1,
    'core/control.js': 1, // the record with an index, or none
    'core/search.js': 1, // the counts of each verdict that was given, or none
  };
  let lists = 0;
  for (const name of readdirSync(folder, { recursive: true })) {
    if (!name.endsWith('.js') || name.startsWith('vendor')) continue;
    const source = readFileSync(new URL(name, folder), 'utf8');
    lists += source.match(/\blist\(/g)?.length ?? 0;
    const few = source.match(/\blist\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*, [1-9]\)/g) ?? [];
    assert.equal(few.length, allowed[name] ?? 0, `${name}: use tuple: ${few}`);
  }
  assert.ok(lists > 50, String(lists));
});

test('a timestamp has one form', () => {
  for (const bad of ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.678+00:00', '2026-02-30T03:04:05.678Z',
    '2026-01-02 03:04:05.678Z', `${timestamp}\\n`, '2026-01-02T24:00:00.000Z']) {
    assert.throws(() => parseRecord(recordText.replace(timestamp, bad)), FormError, bad);
  }
});

// The forms are the one door: nothing in the console makes objects of JSON from outside by another
// way.
test('no module reads JSON around the forms', () => {
  const folder = new URL('../console/', import.meta.url);
  const own = readdirSync(folder, { recursive: true }).filter((name) =>
    name.endsWith('.js') && !name.startsWith('vendor'));
  const allowed = {
    'lib/json.js': 'JSON.parse', // of one string that is already scanned
    'core/trust.js': 'JSON.parse', // this browser's own storage, strings alone are taken
    'core/federations.js': 'JSON.parse', // what the person typed, on its way to the server
    'core/demo.js': 'JSON.parse', // a request of the script, on its way to the server
    'core/people.js': 'JSON.parse', // options of a passkey, on their way to the browser, which checks their form
    'pages/register_agent.js': 'JSON.parse', // what the person typed, on its way to the server
  };
  for (const name of own) {
    const found = readFileSync(new URL(name, folder), 'utf8').match(/JSON\.parse|\.json\(\)|innerHTML/g) ?? [];
    assert.deepEqual(found.filter((what) => allowed[name] !== what), [], name);
  }
  assert.ok(own.length > 40);
});
