// Reads a whole chain away from the page, so that the page stays alive: hands its records to the workers that check them, holds each to its place,
// and computes the root over all of them, from what the server streams.
import { chainVerdict } from './core/answers.js';
import { call, hear, recordLines, setCredential } from './core/api.js';
import { watchPause } from './core/pause.js';
import { Pool } from './core/pool.js';
import { Frontier } from './lib/merkle.js';

const BATCH = 256;
const AHEAD = 3; // batches for each worker that are under way, which bounds what is held
const LISTED = 50; // failures that are listed one by one
const ROUNDS = 5; // records may arrive meanwhile: then the server's root is already that of a longer chain, and the rest is read as well

const frontier = new Frontier();
const failures = { count: 0, first: null, list: [] };
let next = 0;
let engine = '';

function fail(index, reason) {
  failures.count++;
  failures.first ??= { index, reason };
  if (failures.list.length < LISTED) failures.list.push({ index, reason });
}

async function take(checked) {
  engine = checked.engine;
  for (const { error, index, hash, ok, reason } of checked.results) {
    if (error) {
      fail(next++, reason);
      continue;
    }
    if (index !== next) fail(next, index > next ? `missing; the next record is ${index}` : `record ${index} stands in its place`);
    if (!ok) fail(index, reason);
    await frontier.push(hash);
    next = index + 1;
  }
  postMessage({ type: 'progress', done: next, failures: failures.count, first: failures.first });
}

async function stream(pool, key) {
  const running = [];
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
    if (running.length > AHEAD * pool.size) await take(await running.shift());
  }
  if (lines.length) send();
  for (const checked of running) await take(await checked);
}

async function run({ credential, key, ports }) {
  setCredential(credential);
  // The page shows what bears on all of it.
  hear({ refused: ({ message }) => postMessage({ type: 'refused', credential, message }) });
  watchPause((until) => postMessage({ type: 'pause', until }));
  const pool = new Pool(ports);
  const started = performance.now();
  let server;
  let root;
  for (let round = 0; round < ROUNDS; round++) {
    const before = next;
    await stream(pool, key);
    root = await frontier.root();
    server = await call(chainVerdict, 'GET', '/v1/verify');
    if (!server.valid || server.merkleRoot === root || (round > 0 && next === before)) break;
  }
  postMessage({
    type: 'done', count: frontier.length, peaks: frontier.peaks, root, server, failures,
    engine, workers: pool.size, seconds: (performance.now() - started) / 1000,
  });
}

onmessage = (event) => run(event.data).catch((err) => postMessage({ type: 'error', message: err.message }));
