import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import test, { beforeEach } from 'node:test';

// A browser's storage and a server with two logs, from which what is asked for is counted.
const kept = new Map();
globalThis.localStorage = { getItem: (name) => kept.get(name) ?? null,
  setItem: (name, value) => kept.set(name, value) };
globalThis.Request = class { constructor(path) { this.path = path; } };
const asked = [];
let answer;
globalThis.fetch = async ({ path }) => {
  asked.push(path);
  const body = await answer(path);
  return new Response(typeof body === 'string' ? body
    : JSON.stringify(body), { headers: { 'Content-Type': typeof body === 'string' ? 'text/plain'
      : 'application/json' } });
};

const { findingOf } = await import('../console/core/findings.js');
const { proveSince } = await import('../console/core/growth.js');
const { forgetHeads, headsOf, pinHead } = await import('../console/core/heads.js');

const sha = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();
const specified = (left, right) => sha(Buffer.from(left.toString('hex') + right.toString('hex')));
const rfc6962 = (left, right) => sha(Buffer.from([1]), left, right);
const split = (n) => 2 ** Math.floor(Math.log2(n - 1));

function rootOf(list, join) {
  if (list.length < 2) return list[0] ?? sha();
  return join(rootOf(list.slice(0, split(list.length)), join), rootOf(list.slice(split(list.length)), join));
}
function proofOf(m, list, join, whole = true) {
  if (m === list.length) return whole ? [] : [rootOf(list, join)];
  const k = split(list.length);
  return m <= k ? [...proofOf(m, list.slice(0, k), join, whole), rootOf(list.slice(k), join)]
    : [...proofOf(m - k, list.slice(k), join, false), rootOf(list.slice(0, k), join)];
}
const leavesOf = (seed, n) => Array.from({ length: n }, (_, i) => sha(Buffer.from(`${seed} ${i}`)));
const hex = (hash) => hash.toString('hex');

const { privateKey, publicKey } = generateKeyPairSync('ed25519');
const raw = new Uint8Array(publicKey.export({ type: 'spki', format: 'der' }).subarray(-32));

// A checkpoint as the company signs it, or somebody else.
function checkpointOf(origin, leaves, signer = privateKey) {
  const text = `${origin}\n${leaves.length}\n${rootOf(leaves, rfc6962).toString('base64')}\n`;
  const id = sha(Buffer.from(`${origin}\n`), Buffer.from([1]), raw).subarray(0, 4);
  return `${text}\n— ${origin} ${Buffer.concat([id, sign(null, Buffer.from(text), signer)]).toString('base64')}\n`;
}

// Answers for logs with these leaves; signs says how long the log is whose checkpoint is given.
function serve(logs, signs = (name) => logs[name].length, signer = privateKey) {
  answer = (path) => {
    const url = new URL(path, 'http://service');
    if (url.pathname === '/v1/logs') {
      return { logs: ['actions', 'control'].map((log) =>
        ({ log, logId: log, origin: `o/v1/log/${log}`, vkeys: [], size: logs[log].length,
          merkleRoot: hex(rootOf(logs[log], specified)), root: hex(rootOf(logs[log], rfc6962)) })) };
    }
    const from = Number(url.searchParams.get('from'));
    if (url.pathname === '/v1/consistency') return { from, to: Number(url.searchParams.get('to')),
      proof: proofOf(from, logs[url.searchParams.get('log')].slice(0, Number(url.searchParams.get('to'))),
        specified).map(hex) };
    const name = url.pathname.split('/')[3];
    const signed = logs[name].slice(0, signs(name));
    const lines = [`old ${from}`, ...proofOf(from, signed, rfc6962).map((hash) => hash.toString('base64'))];
    const checkpoint = checkpointOf(`o/v1/log/${name}`, signed, signer);
    return url.pathname.endsWith('/checkpoint') ? checkpoint : `${lines.join('\n')}\n\n${checkpoint}`;
  };
}

const key = { companyId: 'acme', fingerprint: 'K1',
  ring: [{ fingerprint: 'K0', raw: new Uint8Array(32) }, { fingerprint: 'K1', raw }] };
const records = leavesOf('honest', 200);
const at = (n) => ({ actions: records.slice(0, n), control: records.slice(100, 103) });
const red = () => findingOf('rewritten', 'acme');
const checkpoint = (n, leaves = records) =>
  pinHead(key, { log: 'actions', size: n, logRoot: hex(rootOf(leaves.slice(0, n), rfc6962)), source: 'checkpoint' });

beforeEach(() => {
  for (const log of ['actions', 'control']) forgetHeads({ companyId: 'acme', log });
});

test('however many heads are kept, to prove that a log has grown from all of them takes few requests', async () => {
  for (let n = 1; n <= 60; n++) {
    serve(at(n), () => Math.max(3, n - 1)); // the checkpoint is of a moment ago
    if (n % 7 === 0) checkpoint(n - 1);
    await proveSince(key);
  }
  assert.ok(headsOf(key, 'actions').length >= 24, `${headsOf(key, 'actions').length} heads`);
  serve(at(61));
  asked.length = 0;
  await proveSince(key);
  assert.ok(asked.length <= 6, asked.join('\n'));
  asked.length = 0;
  await proveSince(key);
  assert.deepEqual(asked, ['/v1/logs'], 'a log that has not grown has the same roots');
  assert.equal(red(), null);
});

test('a head that is proven to have grown is proven with what it has grown into, in both trees', async () => {
  serve(at(20), () => 18);
  checkpoint(10);
  await proveSince(key);
  assert.deepEqual(headsOf(key, 'actions').map(({ size, proven }) => [size, proven]), [[10, true], [18, false]]);
  // The log tree parts from the one that was proven after record 15, and the specification's tree
  // does not.
  const other = [...records.slice(0, 15), ...leavesOf('other', 30)];
  serve(at(30));
  const honest = answer;
  serve({ ...at(30), actions: other });
  const lying = answer;
  answer = async (path) => {
    if (path.includes('/v1/log/')) return lying(path);
    const body = await honest(path);
    if (path === '/v1/logs') body.logs[0].root = (await lying(path)).logs[0].root;
    return body;
  };
  await proveSince(key);
  assert.deepEqual([red().size, red().from], [18, 10]);
});

test('what was kept after the server was asked may be longer than its answer', async () => {
  serve(at(10));
  await proveSince(key);
  const honest = answer;
  answer = async (path) => {
    const body = await honest(path);
    if (path === '/v1/logs') checkpoint(11); // another tab has seen the next record meanwhile
    return body;
  };
  await proveSince(key);
  assert.equal(red(), null);
});

test('a history is known by any key of its company', async () => {
  for (const ring of [['K1'], ['K'], ['K', 'K1'], ['K1', 'K2']]) {
    serve(at(20));
    await proveSince(key);
    serve({ ...at(20), actions: leavesOf('other', 20) });
    await proveSince({ companyId: 'acme', ring: ring.map((fingerprint) => ({ fingerprint, raw })) });
    assert.equal(red() !== null, ring.includes('K1'), ring.join());
    forgetHeads({ companyId: 'acme', log: 'actions' });
  }
});

test('what no key of the company has signed is not remembered, and accuses nobody later', async () => {
  const honest = () => serve(at(20));
  const stranger = generateKeyPairSync('ed25519').privateKey;
  const lies = {
    'both roots in the list': () => {
      honest();
      const truth = answer;
      answer = async (path) => {
        const body = await truth(path);
        if (path === '/v1/logs') Object.assign(body.logs[0], { root: 'a'.repeat(64), merkleRoot: 'b'.repeat(64) });
        return body;
      };
    },
    'a longer log': () => {
      serve(at(30));
      const longer = answer;
      honest();
      const truth = answer;
      answer = (path) => (path === '/v1/logs' ? longer(path) : truth(path));
    },
    'a checkpoint of a stranger': () => serve({ ...at(20), actions: leavesOf('other', 25) }, undefined, stranger),
  };
  for (const [name, lie] of Object.entries(lies)) {
    lie();
    await proveSince(key);
    assert.ok(headsOf(key, 'actions').every(({ size, root, logRoot }) =>
      size === 20 && !root && logRoot === hex(rootOf(records.slice(0, 20), rfc6962))), name);
    honest();
    await proveSince(key);
    assert.equal(red(), null, name);
    serve(at(40));
    await proveSince(key);
    assert.equal(red(), null, name);
    assert.equal(headsOf(key, 'actions').at(-1).size, 40, name);
    forgetHeads({ companyId: 'acme', log: 'actions' });
  }
});

test('a lie is found where the server does not repeat it, and stays found', async () => {
  serve(at(20));
  pinHead(key, { log: 'actions', size: 20, root: hex(rootOf(records.slice(0, 20), specified)),
    logRoot: hex(rootOf(records.slice(0, 20), rfc6962)), source: 'checked' });
  await proveSince(key);
  const honest = answer;
  let once = true;
  serve(at(30));
  const grown = answer;
  answer = async (path) => {
    if (!path.startsWith('/v1/consistency') || !once) return grown(path);
    once = false;
    return { from: 20, to: 30, proof: [] };
  };
  await proveSince(key);
  const { found, size } = red();
  assert.equal(size, 20);
  answer = grown;
  await proveSince(key);
  assert.equal(red().found, found);
  answer = honest;
});

test('a list that lacks a log, or has one twice, is none', async () => {
  for (const change of [(logs) => logs.slice(0, 1), (logs) => logs.toReversed(), (logs) => [logs[0], ...logs]]) {
    serve(at(5));
    const honest = answer;
    answer = async (path) => {
      const body = await honest(path);
      return path === '/v1/logs' ? { logs: change(body.logs) } : body;
    };
    await assert.rejects(proveSince(key), /two logs/);
  }
});

test('of two heads of one length that differ, neither makes room for others', () => {
  pinHead(key, { log: 'actions', size: 50, root: 'a'.repeat(64), source: 'seen' });
  pinHead(key, { log: 'actions', size: 50, root: 'b'.repeat(64), source: 'seen' });
  for (let n = 51; n < 120; n++) {
    const head = { log: 'actions', size: n, root: hex(records[n]), source: 'seen' };
    pinHead(key, head, [{ size: n - 1, root: hex(records[n - 1]) }]);
  }
  const own = headsOf(key, 'actions');
  assert.equal(own.filter(({ size }) => size === 50).length, 2);
  assert.ok(own.length <= 27);
});
