import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test, { beforeEach } from 'node:test';

// A browser's storage and a server with two logs, from which what is asked for is counted.
const kept = new Map();
globalThis.localStorage = { getItem: (name) => kept.get(name) ?? null, setItem: (name, value) => kept.set(name, value) };
globalThis.Request = class { constructor(path) { this.path = path; } };
const asked = [];
let answer;
globalThis.fetch = async ({ path }) => {
  asked.push(path);
  const body = await answer(path);
  return new Response(typeof body === 'string' ? body : JSON.stringify(body), { headers: { 'Content-Type': typeof body === 'string' ? 'text/plain' : 'application/json' } });
};

const { findingOf } = await import('../console/core/findings.js');
const { proveSince } = await import('../console/core/growth.js');
const { forgetHeads, headsOf, keepHead } = await import('../console/core/heads.js');

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
  return m <= k ? [...proofOf(m, list.slice(0, k), join, whole), rootOf(list.slice(k), join)] : [...proofOf(m - k, list.slice(k), join, false), rootOf(list.slice(0, k), join)];
}
const leavesOf = (seed, n) => Array.from({ length: n }, (_, i) => sha(Buffer.from(`${seed} ${i}`)));
const hex = (hash) => hash.toString('hex');

// Answers for logs with these leaves; signs says how long the log is whose checkpoint is given.
function serve(logs, signs = (name) => logs[name].length) {
  answer = (path) => {
    const url = new URL(path, 'http://service');
    if (url.pathname === '/v1/logs') {
      return { logs: ['actions', 'control'].map((log) => ({ log, logId: log, origin: `o/v1/log/${log}`, vkeys: [], size: logs[log].length, merkleRoot: hex(rootOf(logs[log], specified)), root: hex(rootOf(logs[log], rfc6962)) })) };
    }
    const from = Number(url.searchParams.get('from'));
    if (url.pathname === '/v1/consistency') return { proof: proofOf(from, logs[url.searchParams.get('log')].slice(0, Number(url.searchParams.get('to'))), specified).map(hex) };
    const name = url.pathname.split('/')[3];
    const signed = logs[name].slice(0, signs(name));
    const lines = [`old ${from}`, ...proofOf(from, signed, rfc6962).map((hash) => hash.toString('base64'))];
    return `${lines.join('\n')}\n\no/v1/log/${name}\n${signed.length}\n${rootOf(signed, rfc6962).toString('base64')}\n\n— o/v1/log/${name} AAAAAAAAAA==\n`;
  };
}

const key = { companyId: 'acme', fingerprint: 'K1', ring: [{ fingerprint: 'K0' }, { fingerprint: 'K1' }] };
const records = leavesOf('honest', 200);
const at = (n) => ({ actions: records.slice(0, n), control: records.slice(100, 103) });
const red = () => findingOf('rewritten', 'acme');
const checkpoint = (n, leaves = records) => keepHead(key, { log: 'actions', size: n, logRoot: hex(rootOf(leaves.slice(0, n), rfc6962)), source: 'checkpoint' });

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
  assert.deepEqual(headsOf(key, 'actions').map(({ size, proven }) => [size, proven]), [[10, true], [18, false], [20, false]]);
  // The log tree parts from the one that was proven after record 15, and the specification's tree does not.
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
    await proveSince({ companyId: 'acme', ring: ring.map((fingerprint) => ({ fingerprint })) });
    assert.equal(red() !== null, ring.includes('K1'), ring.join());
    forgetHeads({ companyId: 'acme', log: 'actions' });
  }
});

test('a lie is found where the server does not repeat it, and stays found', async () => {
  serve(at(20));
  await proveSince(key);
  const honest = answer;
  let once = true;
  serve(at(30));
  const grown = answer;
  answer = async (path) => {
    if (!path.startsWith('/v1/consistency') || !once) return grown(path);
    once = false;
    return { proof: [] };
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
  keepHead(key, { log: 'actions', size: 50, root: 'a'.repeat(64), source: 'seen' });
  keepHead(key, { log: 'actions', size: 50, root: 'b'.repeat(64), source: 'seen' });
  for (let n = 51; n < 120; n++) {
    const head = { log: 'actions', size: n, root: hex(records[n]), source: 'seen' };
    keepHead(key, head, [{ size: n - 1, root: hex(records[n - 1]) }]);
  }
  const own = headsOf(key, 'actions');
  assert.equal(own.filter(({ size }) => size === 50).length, 2);
  assert.ok(own.length <= 27);
});
