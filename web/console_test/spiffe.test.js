// SPIFFE IDs are compared whole: one that ends alike is another's.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';

globalThis.BroadcastChannel = undefined; // of the tabs of a browser: it would keep the process
globalThis.navigator ??= { onLine: true };
globalThis.Request = class { constructor(path) { this.path = path; } };
let answer = {};
globalThis.fetch = async ({ path }) => {
  const [name] = Object.keys(answer).filter((one) => path.startsWith(one));
  return new Response(JSON.stringify(answer[name]), { headers: { 'Content-Type': 'application/json' } });
};

const { agentSPIFFE, companySPIFFE, domainOf, isCompany, isOfCompany } = await import('../console/lib/spiffe.js');
const { agentsAsked, findAgent, mustBePassport } = await import('../console/core/agents.js');
const { companyKey, refreshKey, session } = await import('../console/core/session.js');
const { prepareKey } = await import('../console/lib/keyring.js');
const { parse } = await import('../console/lib/json.js');
const { notActor } = await import('../console/lib/evidence/control.js');

const acme = 'spiffe://d.example/company/acme';
session.set({ status: 'in', company: { companyId: 'acme', spiffeId: acme }, key: { companyId: 'acme', spiffeId: acme } });

// What looks like acme's at its end, or at its beginning.
const others = ['spiffe://other.example/company/acme', 'spiffe://xd.example/company/acme', 'spiffe://d.example/company/xacme',
  'spiffe://d.example/company/acmex', 'spiffe://d.example/company/x/company/acme', 'spiffe://a/d.example/company/acme',
  'spiffe://d.example//company/acme', 'spiffe://D.example/company/acme', 'https://d.example/company/acme',
  'xspiffe://d.example/company/acme', 'spiffe://d.example/company/acme/', 'spiffe://d.example:1/company/acme',
  'spiffe:///company/acme', '/company/acme', 'acme', ''];

test('IDs are what the specification says', () => {
  assert.equal(companySPIFFE('d.example', 'acme'), acme);
  assert.equal(agentSPIFFE(acme, 'bot'), 'spiffe://d.example/company/acme/agent/bot');
  assert.equal(domainOf('spiffe://d.example/ca'), 'd.example');
  for (const bad of ['spiffe:///ca', 'spiffe://d/company/acme', 'spiffe://D/ca', 'spiffe://a/b/ca', 'spiffe://d/ca/ca',
    'xspiffe://d/ca', 'spiffe://d/ca\n', 'd', '']) assert.equal(domainOf(bad), undefined, bad);
  assert.ok(isCompany(acme, 'acme') && isOfCompany(acme, acme) && isOfCompany(`${acme}/agent/bot`, acme));
});

test('an agent of another trust domain or company is not this one', async () => {
  const one = { agentId: 'bot', registeredAt: '2026-01-02T03:04:05.678Z' };
  for (const company of [acme, ...others]) {
    const spiffeId = `${company}/agent/bot`;
    answer = { '/v1/agents/bot': { ...one, spiffeId } };
    const page = () => agentsAsked({ q: '', status: '' })({ agents: [{ ...one, spiffeId }], total: 1 });
    const actor = notActor({ delegation: { chain: ['x', spiffeId] }, companyId: 'acme', agentId: 'bot',
      delegationNode: parse('{"act":{}}') }, acme);
    if (company === acme) {
      assert.equal((await findAgent('bot')).spiffeId, spiffeId);
      page();
      assert.equal(actor, null);
      continue;
    }
    await assert.rejects(findAgent('bot'), /another SPIFFE ID/, company);
    assert.throws(page, /another SPIFFE ID/, company);
    assert.equal(actor, spiffeId);
    assert.ok(!isOfCompany(company, acme) && !isOfCompany(spiffeId, acme), company);
  }
  for (const suffix of ['bot/agent/bot', 'xbot', 'botx', '', '/bot']) {
    answer = { '/v1/agents/bot': { ...one, spiffeId: `${acme}/agent/${suffix}` } };
    await assert.rejects(findAgent('bot'), /another SPIFFE ID/, suffix);
  }
  assert.ok(!isOfCompany(`${acme}/agent/bot/agent/bot`, acme) && !isOfCompany(`${acme}/agent/`, acme));
});

test('a passport is of an agent by its subject too', () => {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (company, org = 'acme') => `${part({ alg: 'EdDSA', typ: 'CAP+JWT' })}.${part({ sub: `${company}/agent/bot`,
    service: { v: 1, agentId: 'bot', org, scopes: ['*'], delegationChain: [`${company}/agent/bot`] } })}.${part('x')}`;
  mustBePassport(token(acme), 'bot', ['*']);
  for (const company of others) assert.throws(() => mustBePassport(token(company), 'bot', ['*']), /another agent/, company);
  assert.throws(() => mustBePassport(token(acme, 'xacme'), 'bot', ['*']), /another agent/);
});

test('a company’s published ID is that of its name in the trust domain of the issuer', async () => {
  const { identify } = await import('../console/lib/keyring.js');
  const { base64url, rawKeyFromPEM } = await import('../console/lib/bytes.js');
  const { generateKeyPairSync } = await import('node:crypto');
  const pem = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' });
  const raw = rawKeyFromPEM(pem);
  const own = { pem, ...(await identify(raw)) };
  const published = (spiffeId, issuer) => {
    answer = {
      '/v1/ca/public-keys': { companyId: 'acme', spiffeId, origin: 'o', keys: [{ ...own, jwk: { x: base64url(raw) }, fromIndex: 0 }] },
      '/v1/ca/well-known': { company_id: 'acme', issuer, passport_format: { audience: 'a' } },
    };
    return refreshKey('acme');
  };
  assert.equal((await published(acme, 'spiffe://d.example/ca')).spiffeId, acme);
  assert.equal((await companyKey('acme')).spiffeId, acme);
  for (const other of others) await assert.rejects(published(other, 'spiffe://d.example/ca'), /not that of acme/, other);
  for (const issuer of ['spiffe://other.example/ca', 'spiffe://xd.example/ca'])
    await assert.rejects(published(acme, issuer), /not that of acme/, issuer);
  await assert.rejects(published(acme, 'https://d.example'), /issuer/);
  // Who reads a file knows no trust domain: the ID must be that of a company all the same.
  const key = (spiffeId) => prepareKey({ companyId: 'acme', spiffeId, x: base64url(raw), ...own });
  await key(others[0]);
  for (const other of others.slice(2)) await assert.rejects(key(other), /two companies/, other);
});

// All of the console computes them in the one module, and takes none by its end.
test('no module spells a SPIFFE ID or compares its end', () => {
  const folder = new URL('../console/', import.meta.url);
  const allowed = {
    'lib/spiffe.js': true,
    'lib/evidence/control.js': true, // of a file, of which no trust domain is known
    'lib/evidence/agent_keys.js': true, // as above
    'lib/token.js': true, // which company's key to try: the checks say whether it is so
    'core/federations.js': true, // an example to be replaced
  };
  for (const name of readdirSync(folder, { recursive: true })) {
    if (!name.endsWith('.js') || name.startsWith('vendor') || allowed[name]) continue;
    const source = readFileSync(new URL(name, folder), 'utf8');
    const found = source.match(/spiffeId\.(endsWith|includes|split|slice)|[`'}]\/?(company|agent)\/\$|}\/(company|agent)\/|spiffe:\/\/(?!…)/g) ?? [];
    assert.deepEqual(found, [], name);
  }
});
