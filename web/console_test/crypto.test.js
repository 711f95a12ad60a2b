import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { base64url, hex, rawKeyFromPEM, unbase64url, unhex, utf8 } from '../console/lib/bytes.js';
import { engine, fallback, publicKey, verify } from '../console/lib/ed25519.js';
import { open } from '../console/lib/evidence/open.js';
import { identify } from '../console/lib/keyring.js';
import { Frontier, climb } from '../console/lib/merkle.js';
import { checkRecord, parseRecord } from '../console/lib/record.js';
import { sha256hex } from '../console/lib/sha256.js';
import { check, decode, principals } from '../console/lib/token.js';

const { privateKey, publicKey: nodeKey } = generateKeyPairSync('ed25519');
const pem = nodeKey.export({ type: 'spki', format: 'pem' });
const raw = rawKeyFromPEM(pem);
const sha = (s) => createHash('sha256').update(s).digest('hex');

function record(index, inner, delegation) {
  const timestamp = '2026-01-02T03:04:05.678Z';
  const payload = { agentId: 'a', companyId: 'acme', actionType: 'x', payload: '@' };
  const canonical = `{"actionType":"x","agentId":"a","companyId":"acme","payload":${inner.canonical}}`;
  const hash = sha(`${index}|${timestamp}|${canonical}` + (delegation ? `|${delegation}` : ''));
  const signature = sign(null, Buffer.from(hash, 'hex'), privateKey).toString('base64url');
  const text = JSON.stringify({ index, timestamp, payload, hash, signature }).replace('"@"', inner.text);
  return delegation ? text.replace(',"hash"', `,"delegation":${delegation},"hash"`) : text;
}

test('base64url has one spelling for each value', () => {
  assert.deepEqual([...unbase64url('AQI')], [1, 2]);
  for (const bad of ['AQJ', 'AQ=', 'AQ I', 'A', 'A+/=']) assert.throws(() => unbase64url(bad), bad);
});

test('both Ed25519 engines accept what is signed and refuse one flipped bit anywhere', async () => {
  const message = utf8('attest');
  const signature = new Uint8Array(sign(null, message, privateKey));
  for (const e of [await engine(), await fallback()]) {
    const key = await e.key(raw);
    assert.equal(await e.verify(key, signature, message), true, e.name);
    for (let bit = 0; bit < 512; bit += 37) {
      const wrong = signature.slice();
      wrong[bit >> 3] ^= 1 << (bit & 7);
      assert.equal(await e.verify(key, wrong, message), false, `${e.name}, bit ${bit}`);
    }
  }
});

test('a record is checked over its canonical form and keeps its spelling', async () => {
  const key = { companyId: 'acme', prepared: await publicKey(raw) };
  const text = record(7, { text: '{ "b":1.50, "a":"\\u00e9<script>" }', canonical: '{"a":"é<script>","b":1.5}' });
  const r = parseRecord(text);
  assert.equal(r.text, text);
  assert.equal(r.index, 7);
  const result = await checkRecord(r, key);
  assert.deepEqual([result.ok, result.reason], [true, '']);
  const tampered = await checkRecord(parseRecord(text.replace('1.50', '1.51')), key);
  assert.deepEqual([tampered.hashOK, tampered.signatureOK, tampered.ok], [false, false, false]);
  const swapped = await checkRecord(parseRecord(text.replace('"index":7', '"index":8')), key);
  assert.equal(swapped.ok, false);
});

test('a delegation is part of what is hashed', async () => {
  const key = { companyId: 'acme', prepared: await publicKey(raw) };
  const delegation = '{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"t"}';
  const text = record(0, { text: 'null', canonical: 'null' }, delegation);
  assert.equal((await checkRecord(parseRecord(text), key)).ok, true);
  assert.equal((await checkRecord(parseRecord(text.replace('"tokenId":"t"', '"tokenId":"u"')), key)).ok, false);
  assert.equal((await checkRecord(parseRecord(text.replace(`"delegation":${delegation},`, '')), key)).ok, false);
});

// The obvious tree of RFC 6962 §2.1, to compare the frontier and the proofs with.
function slowRoot(leaves) {
  if (leaves.length === 0) return sha('');
  if (leaves.length === 1) return leaves[0];
  let k = 1;
  while (2 * k < leaves.length) k *= 2;
  return sha(slowRoot(leaves.slice(0, k)) + slowRoot(leaves.slice(k)));
}

function slowProof(leaves, i) {
  if (leaves.length === 1) return [];
  let k = 1;
  while (2 * k < leaves.length) k *= 2;
  return i < k
    ? [...slowProof(leaves.slice(0, k), i), { sibling: slowRoot(leaves.slice(k)), position: 'right' }]
    : [...slowProof(leaves.slice(k), i - k), { sibling: slowRoot(leaves.slice(0, k)), position: 'left' }];
}

test('the frontier gives the root, and every proof leads to it, at every size up to 40', async () => {
  const leaves = [];
  const frontier = new Frontier();
  for (let n = 0; n <= 40; n++) {
    assert.equal(await frontier.root(), slowRoot(leaves), `size ${n}`);
    for (let i = 0; i < n; i++) assert.equal((await climb(leaves[i], slowProof(leaves, i))).root, slowRoot(leaves));
    leaves.push(sha(`leaf ${n}`));
    await frontier.push(leaves[n]);
  }
  assert.equal(await sha256hex('é'), sha('é'));
});

test('a small evidence file of an earlier console is read, and any flipped bit is found', async () => {
  const text = record(1, { text: '[1.0]', canonical: '[1]' });
  const r = parseRecord(text);
  const leaves = [sha('0'), r.hash, sha('2')];
  const id = await identify(raw);
  const rest = JSON.stringify({
    proof: slowProof(leaves, 1), root: slowRoot(leaves),
      publicKey: { companyId: 'acme', spiffeId: 'spiffe://d/company/acme', pem, x: base64url(raw), ...id },
  });
  const file = `{"type":"attestd-evidence","v":1,"savedAt":"2026-01-01T00:00:00Z","record":${text},${rest.slice(1)}`;
  const opened = (given) => open(new TextEncoder().encode(given));
  const result = await opened(file);
  assert.deepEqual([result.ok, result.reason], [true, '']);
  for (const hash of [r.hash, leaves[0], leaves[2], slowRoot(leaves)]) {
    const flipped = unhex(hash);
    flipped[5] ^= 16;
    const damaged = await opened(file.replace(hash, hex(flipped)));
    assert.equal(damaged.ok, false, hash);
  }
  await assert.rejects(opened('{"type":"other"}'), /not an evidence file/);
  await assert.rejects(opened('no JSON'));
});

function jwt(header, claims) {
  const signed = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  return `${signed}.${sign(null, Buffer.from(signed), privateKey).toString('base64url')}`;
}

test('a passport is read strictly and each failed check is named', async () => {
  const key = { companyId: 'acme', spiffeId: 'spiffe://d/company/acme', kid: 'k', prepared: await publicKey(raw) };
  const agent = 'spiffe://d/company/acme/agent/a';
  const claims = {
    iss: 'ca', sub: agent, aud: ['service:passport:v1'], jti: 'j', iat: 100, nbf: 100, exp: 200,
    service: { v: 1, agentId: 'a', org: 'acme', orgSpiffeId: 'o', scopes: ['tool:*'], delegationChain: ['o', agent] },
  };
  const header = { alg: 'EdDSA', typ: 'CAP+JWT', kid: 'k' };
  const expected = { audience: 'service:passport:v1', issuer: 'ca', now: 150 };
  const failed = async (token, extra) =>
    (await check(decode(token), key, { ...expected, ...extra })).filter((r) => !r.ok).map((r) => r.name).join();

  const good = decode(jwt(header, claims));
  assert.deepEqual([good.kind, good.companyId, good.passport.namespace, principals(good)],
    ['passport', 'acme', 'service', ['o', agent]]);
  assert.equal(await failed(jwt(header, claims)), '');
  assert.equal(await failed(jwt(header, claims), { now: 200 }), 'Expiry');
  assert.equal(await failed(jwt(header, claims), { now: 99 }), 'Not before');
  assert.equal(await failed(jwt({ ...header, alg: 'none' }, claims)), 'Algorithm');
  assert.equal(await failed(jwt({ ...header, crit: ['b64'] }, claims)), 'Header');
  assert.equal(await failed(jwt(header, { ...claims, aud: ['x'] })), 'Audience');
  assert.equal(await failed(jwt(header, { ...claims, iss: 'x' })), 'Issuer');
  assert.equal(await failed(jwt(header, { ...claims, sub: 'other' })), 'Subject,Chain');
  assert.equal(await failed(jwt(header, { ...claims, service: { ...claims.service, org: 'other' } })), 'Subject');
  assert.equal(await failed(jwt(header, { ...claims, service: { ...claims.service, agentId: 'b' } })), 'Subject');
  assert.equal(await failed(jwt(header, { ...claims, service: { ...claims.service, v: 2 } })), 'Version');
  for (const wrong of [{ exp: '200' }, { sub: { type: 'div' } }, { aud: [1] }, { iss: {} },
    { service: { ...claims.service, scopes: [{}] } }, { service: 1 }]) {
    assert.throws(() => decode(jwt(header, { ...claims, ...wrong })), /claims/, JSON.stringify(wrong));
  }
  const [h, c, s] = jwt(header, claims).split('.');
  const other = Buffer.from(JSON.stringify({ ...claims, exp: 999 })).toString('base64url');
  assert.equal(await failed(`${h}.${other}.${s}`), 'Signature');
  for (const bad of ['', 'a.b', `${h}.${c}`, `${h}.${c}.${s}=`,
    `${h}.${c}.${s}\n.x`]) assert.throws(() => decode(bad), bad);
});

test('a delegation token names its principals from the subject inward', () => {
  const token = decode(jwt({ alg: 'EdDSA', typ: 'JWT' },
    { sub: 'spiffe://d/company/acme', act: { sub: 'a', act: { sub: 'b' } } }));
  assert.deepEqual([token.kind, token.companyId, principals(token)],
    ['delegation', 'acme', ['spiffe://d/company/acme', 'a', 'b']]);
});

test('an access token that nests as RFC 8693 says is never read as the opposite chain, nor taken', async () => {
  const key = { companyId: 'acme', spiffeId: 'spiffe://d/company/acme', kid: 'k', prepared: await publicKey(raw) };
  const token = decode(jwt({ alg: 'EdDSA', typ: 'at+jwt', kid: 'k' }, {
    iss: 'ca', aud: ['service'], iat: 100, nbf: 100, exp: 200,
    sub: 'spiffe://d/company/acme', act: { sub: 'b', act: { sub: 'a' } },
  }));
  assert.deepEqual(principals(token), ['spiffe://d/company/acme', 'a', 'b']);
  const itself = { sub: 'a', act: { sub: 'a' } };
  assert.deepEqual(principals(decode(jwt({ alg: 'EdDSA', typ: 'at+jwt' }, itself))), ['a']);
  assert.deepEqual(principals(decode(jwt({ alg: 'EdDSA', typ: 'JWT' }, itself))), ['a', 'a']);
  const failed = (await check(token, key, { audience: 'service:passport:v1', issuer: 'ca', now: 150 })).filter((r) => !r.ok);
  assert.deepEqual(failed.map((r) => r.name), ['Header']);
});

// Keys of low and of mixed order, odd spellings, S above the order: valid is what Go's
// crypto/ed25519 says (TestNonCanonicalSignatures).
test('both Ed25519 engines take the odd signatures that Go takes, and no others', async () => {
  const cases = JSON.parse(readFileSync(new URL('../testdata/ed25519_odd.json', import.meta.url), 'utf8'));
  for (const e of [await engine(), await fallback()]) {
    for (const c of cases) {
      assert.equal(await e.verify(await e.key(unhex(c.key)), unhex(c.signature), unhex(c.message)), c.valid,
        `${e.name}: ${c.name}`);
    }
  }
});
