// Reads and checks a report away from the page.
import { setCredential } from './core/api.js';
import { takeReport } from './core/report_reader.js';

async function run({ credential, ...job }) {
  setCredential(credential);
  postMessage({ report: await takeReport(job, (news) => postMessage({ news })) });
}

onmessage = (event) => run(event.data).catch((err) => postMessage({ error: err.message }));
