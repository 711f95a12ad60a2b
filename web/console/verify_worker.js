// @ts-check
// Reads a whole chain away from the page, so that the page stays alive: hands its records to the
// workers that check them, holds each to its place, and computes the root over all of them, from
// what the server streams.
import { chainVerdict } from './core/answers.js';
import { NOTHING } from './core/asked.js';
import { call, setListeners, recordLines, setCredential } from './core/api.js';
import { watchPause } from './core/pause.js';
import { Pool } from './core/pool.js';
import { hasFailed } from './core/pruned.js';
import { WholeLog } from './lib/whole_log.js';

const BATCH = 256;
const AHEAD = 3; // batches for each worker that are under way, which bounds what is held
const LISTED = 50; // failures that are listed one by one
// Records may arrive meanwhile: then the server's root is already that of a longer chain, and the
// rest is read as well.
const ROUNDS = 5;

const log = new WholeLog();
/** @type {VerifyAnswer['failures']} */
const failures = { count: 0, first: null, list: [] };
// What this browser has seen before: heads, and the hashes of records by index.
let held = { heads: /** @type {KeptHead[]} */ ([]), seen: /** @type {Map<number, string>} */ (new Map()) };
/** @type {VerifyAnswer['contradicted']} */
let contradicted = null; // the first of it that is not so, {head, from}, with how many records are still what they were
let next = 0;
let engine = '';
let pruned = 0; // records without payload, of which the company has signed the hash
let lastPruned = -1; // the index of the last one

/**
 * @param {number} index
 * @param {string} reason
 */
function fail(index, reason) {
  failures.count++;
  failures.first ??= { index, reason };
  if (failures.list.length < LISTED) failures.list.push({ index, reason });
}

/** @param {KeptHead} head */
const contradict = (head) => {
  contradicted ??= {
    head,
    from: Math.max(0, ...held.heads.map(({ size }) => size).filter((size) => size < head.size)),
  };
};

/** @param {PoolAnswer} checked */
async function collect(checked) {
  engine = checked.engine;
  const read = [];
  for (const result of checked.results) {
    if (result.error !== undefined) {
      fail(next++, result.reason);
      continue;
    }
    const { index, hash, leaf, ok, reason } = result;
    if (index !== next)
      fail(next, index > next ? `missing; the next record is ${index}` : `record ${index} is in its place`);
    if (result.pruned) {
      pruned++;
      lastPruned = Math.max(lastPruned, index);
    }
    if (hasFailed(result)) fail(index, reason);
    if ((held.seen.get(index) ?? hash) !== hash)
      fail(index, 'the server showed another record with this index before, and the company signed both');
    read.push({ hash, leaf });
    next = index + 1;
  }
  const head = await log.append(read, held.heads);
  if (head) contradict(head);
  postMessage({ type: 'progress', done: next, failures: failures.count, first: failures.first });
}

/**
 * @param {Pool} pool
 * @param {PlainKey} key
 */
async function stream(pool, key) {
  /** @type {Promise<PoolAnswer>[]} */
  const running = [];
  /** @type {string[]} */
  let lines = [];
  const send = () => {
    const checked = pool.check(lines, key, 'actions');
    checked.catch(() => {}); // it is awaited in its turn
    running.push(checked);
    lines = [];
  };
  for await (const line of recordLines(next)) {
    lines.push(line);
    if (lines.length < BATCH) continue;
    send();
    const due = running.length > AHEAD * pool.size ? running.shift() : undefined;
    if (due) await collect(await due);
  }
  if (lines.length) send();
  for (const checked of running) await collect(await checked);
}

/**
 * @param {{credential: string, key: PlainKey, ports: MessagePort[], heads: KeptHead[],
 *   seen: [number, string][]}} job
 */
async function run({ credential, key, ports, heads, seen }) {
  held = { heads, seen: new Map(seen) };
  setCredential(credential);
  // The page shows what bears on all of it.
  setListeners({ refused: ({ message }) => postMessage({ type: 'refused', credential, message }) });
  watchPause((until) => postMessage({ type: 'pause', until }));
  const pool = new Pool(ports);
  const started = performance.now();
  /** @type {ChainVerdict} */
  let server = { valid: false, failedAtIndex: 0 };
  let root = '';
  for (let round = 0; round < ROUNDS; round++) {
    const before = next;
    await stream(pool, key);
    ({ root } = await log.head());
    server = await call(chainVerdict, 'GET', '/v1/verify', { asked: NOTHING });
    if (!server.valid || server.merkleRoot === root || (round > 0 && next === before)) break;
  }
  const longer = heads.find(({ size }) => size > log.length);
  if (longer && server.valid && !failures.first) contradict(longer); // else it is not silent about what is missing
  postMessage({
    type: 'done', count: log.length, pruned, lastPruned, state: log.state, root, contradicted, server, failures,
    engine, workers: pool.size, seconds: (performance.now() - started) / 1000,
  });
}

onmessage = (event) => run(event.data).catch((err) => postMessage({ type: 'error', message: err.message }));
