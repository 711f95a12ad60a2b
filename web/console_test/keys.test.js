import assert from 'node:assert/strict';
import { generateKeyPairSync, sign } from 'node:crypto';
import test from 'node:test';

// A browser with storage and one tab, and a server that publishes keys.
const kept = new Map();
globalThis.localStorage = { getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => kept.set(name, value) };
globalThis.BroadcastChannel = undefined;
globalThis.navigator ??= { onLine: true };
globalThis.Request = class { constructor(path) { this.path = path; } };
let published = null; // null: the server is away
let asked = 0;
globalThis.fetch = async ({ path }) => {
  asked++;
  if (!published) throw new TypeError('away');
  const body = path.startsWith('/v1/ca/public-keys')
    ? { companyId: 'acme', spiffeId: 'spiffe://d/company/acme', origin: 'o', keys: published }
      : { company_id: 'acme', issuer: 'spiffe://d/ca', passport_format: { audience: 'a' } };
  return new Response(JSON.stringify(body), { headers: { 'Content-Type': 'application/json' } });
};

const { identify } = await import('../console/lib/keyring.js');
const { rawKeyFromPEM, base64url } = await import('../console/lib/bytes.js');
const { dropFinding, findingOf } = await import('../console/core/findings.js');
const { companyKey, refreshKey, session } = await import('../console/core/session.js');
const { changeOf, confirm, remember, keyStateOf } = await import('../console/core/trust.js');

async function makeKey() {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const pem = publicKey.export({ type: 'spki', format: 'pem' });
  const raw = rawKeyFromPEM(pem);
  return { privateKey, own: { pem, jwk: { x: base64url(raw) }, ...(await identify(raw)) } };
}
const [K1, K2, other] = await Promise.all([makeKey(), makeKey(), makeKey()]);

// What a server publishes of keys that follow one another, each from ten records after the one
// before it.
const ringOf = (...keys) => keys.map(({ own }, i) => {
  if (i === 0) return { ...own, fromIndex: 0 };
  const said = `attestd/key-rotation/v2\no\n${10 * i}\n${keys[i - 1].own.fingerprint}\n${own.fingerprint}\n`;
  const by = ({ privateKey }) => base64url(sign(null, Buffer.from(said), privateKey));
  return { ...own, fromIndex: 10 * i,
    rotation: { statement: said, oldSignature: by(keys[i - 1]), newSignature: by(keys[i]) } };
});

async function signedIn(...keys) {
  published = ringOf(...keys);
  await refreshKey('acme');
  const key = await companyKey('acme');
  session.set({ status: 'in', company: { companyId: 'acme' }, key, turn: 0 });
  remember(key);
  dropFinding('key', 'acme');
  return key;
}

test('a key that cannot be asked for is not known to be the old one, and is asked for again', async () => {
  const key = await signedIn(K1);
  published = null;
  await assert.rejects(refreshKey('acme', 12), /does not answer/);
  published = ringOf(K1, K2);
  const newer = await refreshKey('acme', 12);
  assert.notEqual(newer, key);
  assert.equal(newer.fingerprint, K2.own.fingerprint);
  asked = 0;
  assert.equal(await refreshKey('acme', 11), newer); // it was there when the keys were asked for
  assert.equal(asked, 0);
});

test('what was checked with a key that the next one continues stays; with another it does not', async () => {
  await signedIn(K1);
  published = ringOf(K1, K2);
  await refreshKey('acme');
  assert.equal(session.get().turn, 0);
  for (const [turn, ring] of [[1, ringOf(K1, other)], [2, ringOf(other)], [3, ringOf(K1, K2)],
    [4, ringOf(other, K1, K2)]]) {
    published = ring;
    await refreshKey('acme');
    assert.equal(session.get().turn, turn);
  }
});

test('a key that was there and is there no more was not followed, and stays found after it is there again',
  async () => {
  await signedIn(K1);
  for (const lie of [ringOf(K1, other), ringOf(K1), ringOf(other)]) {
    published = ringOf(K1, K2); // proven to follow; it is not acknowledged yet
    const honest = await refreshKey('acme');
    assert.equal(changeOf(honest).rotations.length, 1);
    assert.equal(findingOf('key', 'acme'), null);
    published = lie;
    const lying = await refreshKey('acme');
    assert.equal(changeOf(lying).replaced, true);
    assert.equal(keyStateOf(lying), 'other');
    published = ringOf(K1, K2);
    await refreshKey('acme');
    assert.equal(changeOf(await companyKey('acme')).replaced, undefined);
    assert.equal(findingOf('key', 'acme').fingerprint, lying.fingerprint);
    dropFinding('key', 'acme');
  }
  // A person who compares This fingerprint belongs to another key knows why.
  published = ringOf(other);
  const key = await refreshKey('acme');
  assert.ok(confirm(key, key.fingerprint));
  assert.equal(findingOf('key', 'acme'), null);
  assert.equal(keyStateOf(key), 'confirmed');
});
