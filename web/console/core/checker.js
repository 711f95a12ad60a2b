// @ts-check
// The workers of this page that check records: one for each core, so that a chain is read as fast
// as the machine can, and the page stays alive.
import { keyAt } from '../lib/keyring.js';
import { heads, rewrittenSince } from './heads.js';
import { Pool, plain } from './pool.js';
import { hasFailed } from './pruned.js';
import { startWorker, whyFailed } from './worker.js';

const SCRIPT = '/check_worker.js';
const MOST = 16;
const SLICE = 64; // records that one worker takes at once
const HELD = 4096; // of the newest that were checked, to hold others against

/** @type {Worker[] | undefined} */
let workers;
/** @type {Pool} */
let pool;
/** @type {((err: Error) => void)[]} */
let readers = []; // who reads through ports, and is told that no answer will come

function start() {
  workers = Array.from({ length: Math.min(MOST, navigator.hardwareConcurrency || 2) }, () => startWorker(SCRIPT));
  pool = new Pool(workers);
  for (const worker of workers) {
    worker.onerror = async (event) => {
      if (!workers?.includes(worker)) return; // another one failed before it
      const [mine, waiting] = [pool, readers];
      workers.forEach((one) => one.terminate());
      workers = undefined; // the next check tries again
      readers = [];
      const err = await whyFailed(event, SCRIPT);
      mine.fail(err);
      waiting.forEach((failed) => failed(err));
    };
  }
  return workers;
}

/** @type {Map<string, {index: number, hash: string, at: string}>} */
const held = new Map(); // {index, hash, at} by company, log, the key that signed and index, of records that hold

heads.subscribe(() => { if (!heads.get().rewritten) held.clear(); });

/**
 * @param {{companyId: string}} key
 * @param {LogName} log
 * @param {{fingerprint: string}} signer
 */
const nameOf = ({ companyId }, log, { fingerprint }) => `${companyId} ${log} ${fingerprint} `;

/**
 * Two records that a key has signed for one place are two histories, whatever each of them is
 * worth.
 * @param {WorkerResult} result
 * @param {CompanyKey} key
 * @param {LogName} log
 */
function hold(result, key, log) {
  if (result.error !== undefined || hasFailed(result)) return;
  const { index, hash } = result;
  const name = `${nameOf(key, log, keyAt(key, index))}${index}`;
  const known = held.get(name);
  if (known && known.hash !== hash)
    rewrittenSince(key, log, { size: index + 1, at: known.at, source: 'checked' }, { from: 0, now: index + 1 });
  if (known) return;
  held.set(name, { index, hash, at: new Date().toISOString() });
  if (held.size > HELD) held.delete(/** @type {string} */ (held.keys().next().value));
}

/**
 * [index, hash] of records of a log that were checked here with a company's keys.
 * @param {CompanyKey} key
 * @param {LogName} log
 * @returns {[number, string][]}
 */
export function checkedHere(key, log) {
  const names = (key.ring ?? [key]).map((one) => nameOf(key, log, one));
  return [...held]
    .filter(([name]) => names.some((one) => name.startsWith(one)))
    .map(([, { index, hash }]) => [index, hash]);
}

/**
 * Checks records of a log as parseRecord gives them: what checkRecord says of each with its leaf in
 * the log tree, in their order.
 * @param {LogRecord[]} records
 * @param {CompanyKey} key
 * @param {LogName} [log]
 */
export async function checkRecords(records, key, log = 'actions') {
  if (!workers) start();
  const slices = [];
  for (let i = 0; i < records.length; i += SLICE)
    slices.push(
      pool.check(
        records.slice(i, i + SLICE).map((r) => r.text),
        plain(key),
        log,
      ),
    );
  const results = (await Promise.all(slices)).flatMap((slice) => slice.results);
  for (const result of results) hold(result, key, log);
  return results;
}

/**
 * A port to each of the workers, for a worker that reads a whole chain. failed is called where no
 * answer will come.
 * @param {(err: Error) => void} failed
 */
export function checkerPorts(failed) {
  const all = workers ?? start();
  readers = [failed]; // one chain is read at a time
  return all.map((worker) => {
    const { port1, port2 } = new MessageChannel();
    worker.postMessage({ port: port1 }, [port1]);
    return port2;
  });
}
