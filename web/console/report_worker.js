// @ts-check
// Reads and checks a report away from the page.
import { setCredential } from './core/api.js';
import { readAndCheckReport } from './core/report_reader.js';

/** @param {ReportJob & {companyId: string, credential: string}} message */
async function run({ credential, ...job }) {
  setCredential(credential);
  postMessage({ report: await readAndCheckReport(job, (news) => postMessage({ news })) });
}

onmessage = (event) => run(event.data).catch((err) => postMessage({ error: err.message }));
