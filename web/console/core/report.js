// @ts-check
// A report, read and checked by a worker of its own. The work goes on while other pages are shown,
// and the report stays until its reader signs out.
import { getCredential } from './api.js';
import { session } from './session.js';
import { store } from './store.js';
import { startWorker, whyFailed } from './worker.js';

const SCRIPT = '/report_worker.js';

/** @type {Worker | null} */
let idle = null; // a worker that waits for a report

/**
 * Starts the worker while the server still answers: a report in a file can be checked without it
 * then.
 */
export function prepareChecker() {
  if (idle) return idle;
  idle = startWorker(SCRIPT);
  idle.onerror = ({ target }) => { if (idle === target) idle = null; }; // the next report tries again
  return idle;
}

/**
 * What takeReport of report_reader.js resolves to for a job; progress({done, total}) is called now
 * and then. An aborted signal ends the work.
 * @param {ReportJob} job
 * @param {{signal: AbortSignal, progress: ReportProgress}} how
 * @returns {Promise<ReadReport>}
 */
async function checkReport(job, { signal, progress }) {
  const worker = prepareChecker();
  idle = null;
  try {
    const report = await new Promise((resolve, reject) => {
      worker.onmessage = ({ data: { news, report: found, error } }) => {
        if (news) progress(news);
        else if (found) resolve(found);
        else reject(new Error(error));
      };
      worker.onerror = async (event) => reject(await whyFailed(event, SCRIPT));
      signal.addEventListener('abort', () => reject(signal.reason));
      worker.postMessage({ ...job, companyId: session.get().company?.companyId, credential: getCredential() });
    });
    idle ??= worker;
    return report;
  } finally {
    if (idle !== worker) worker.terminate();
  }
}

/** @type {Reporting} */
const ready = { phase: 'ready', done: 0, total: 0, report: null, error: null };

/** phase: ready, running with done and total, done with the report, or error. */
export const reporting = store(ready);

/** @type {AbortController | null} */
let running = null;

/** Ends the work on a report, and forgets what it came to. */
export function stop() {
  running?.abort();
  running = null;
  reporting.set(ready);
}

/**
 * Reads and checks a report: of a period, {since, until}, or one that somebody gave, {given}.
 * @param {ReportJob} job
 */
export async function make(job) {
  stop();
  const mine = new AbortController();
  running = mine;
  /** @param {Partial<Reporting>} patch */
  const show = (patch) => running === mine && reporting.set(patch);
  show({ phase: 'running' });
  try {
    const report = await checkReport(job, { signal: mine.signal, progress: show });
    show({ phase: 'done', report });
  } catch (error) {
    show({ phase: 'error', error });
  }
}

session.subscribe(() => { if (session.get().status !== 'in') stop(); });
