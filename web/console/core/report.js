// A report, read and checked by a worker of its own.
import { getCredential } from './api.js';
import { startWorker, whyFailed } from './worker.js';

const SCRIPT = '/report_worker.js';

let idle = null; // a worker that waits for a report

/** Starts the worker while the server still answers: a report in a file can be checked without it then. */
export function prepareChecker() {
  if (idle) return;
  idle = startWorker(SCRIPT);
  idle.onerror = ({ target }) => { if (idle === target) idle = null; }; // the next report tries again
}

/** What takeReport of report_reader.js resolves to for a job, {since, until} or {given}; progress({done, total}) is called now and then. An aborted signal ends the work. */
export async function checkReport(job, { signal, progress }) {
  prepareChecker();
  const worker = idle;
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
      worker.postMessage({ ...job, credential: getCredential() });
    });
    idle ??= worker;
    return report;
  } finally {
    if (idle !== worker) worker.terminate();
  }
}
