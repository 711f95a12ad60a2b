// Checks a whole chain away from the page, so that the page stays alive: every hash, every signature, every index,
// and the root over all of it, from what the server streams.
import { chainVerdict } from './core/answers.js';
import { call, recordLines, setCredential } from './core/api.js';
import { engine, publicKey } from './lib/ed25519.js';
import { Frontier } from './lib/merkle.js';
import { checkRecord, parseRecord } from './lib/record.js';

const BATCH = 256;
const LISTED = 50; // failures that are listed one by one

const frontier = new Frontier();
const failures = { count: 0, first: null, list: [] };
let next = 0;

function fail(index, reason) {
  failures.count++;
  failures.first ??= { index, reason };
  if (failures.list.length < LISTED) failures.list.push({ index, reason });
}

async function checkBatch(lines, key) {
  const results = await Promise.all(lines.map(async (line) => {
    try {
      const record = parseRecord(line);
      return { record, check: await checkRecord(record, key) };
    } catch (err) {
      return { error: err.message };
    }
  }));
  for (const { record, check, error } of results) {
    if (error) {
      fail(next++, `unreadable: ${error}`);
      continue;
    }
    if (record.index !== next) fail(next, record.index > next ? `missing; the next record is ${record.index}` : `record ${record.index} stands in its place`);
    if (!check.ok) fail(record.index, check.reason);
    await frontier.push(record.hash);
    next = record.index + 1;
  }
  postMessage({ type: 'progress', done: next, failures: failures.count, first: failures.first });
}

async function stream(key) {
  let lines = [];
  for await (const line of recordLines(next)) {
    lines.push(line);
    if (lines.length < BATCH) continue;
    await checkBatch(lines, key);
    lines = [];
  }
  if (lines.length) await checkBatch(lines, key);
}

async function run({ credential, keys, companyId }) {
  setCredential(credential);
  const started = performance.now();
  const ring = await Promise.all(keys.map(async ({ raw, fromIndex }) => ({ fromIndex, prepared: await publicKey(raw) })));
  const key = { companyId, ...ring.at(-1), ring };
  let server;
  let root;
  // Records may arrive while this runs: then the server's root is already that of a longer chain, and the rest is read as well.
  for (let round = 0; round < 5; round++) {
    const before = next;
    await stream(key);
    root = await frontier.root();
    server = await call(chainVerdict, 'GET', '/v1/verify');
    if (!server.valid || server.merkleRoot === root || (round > 0 && next === before)) break;
  }
  postMessage({
    type: 'done', count: frontier.length, root, server, failures,
    engine: (await engine()).name, seconds: (performance.now() - started) / 1000,
  });
}

onmessage = (event) => run(event.data).catch((err) => postMessage({ type: 'error', message: err.message }));
