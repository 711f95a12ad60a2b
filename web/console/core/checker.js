// The workers of this page that check records: one for each core, so that a chain is read as fast as the machine can, and the page stays alive.
import { Pool, plain } from './pool.js';
import { startWorker, whyFailed } from './worker.js';

const SCRIPT = '/check_worker.js';
const MOST = 16;
const SLICE = 64; // records that one worker takes at once

let workers;
let pool;
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
}

/** Checks records of a log as parseRecord gives them: what checkRecord says of each, in their order. */
export async function checkRecords(records, key, log = 'actions') {
  if (!workers) start();
  const slices = [];
  for (let i = 0; i < records.length; i += SLICE) slices.push(pool.check(records.slice(i, i + SLICE).map((r) => r.text), plain(key), log));
  return (await Promise.all(slices)).flatMap(({ results }) => results);
}

/** A port to each of the workers, for a worker that reads a whole chain. failed is called where no answer will come. */
export function checkerPorts(failed) {
  if (!workers) start();
  readers = [failed]; // one chain is read at a time
  return workers.map((worker) => {
    const { port1, port2 } = new MessageChannel();
    worker.postMessage({ port: port1 }, [port1]);
    return port2;
  });
}
