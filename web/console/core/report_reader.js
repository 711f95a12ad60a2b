// @ts-check
// Reads a report from the server, or from a file, and checks it while it comes: in a worker, so
// that the page stays alive.
import { hex } from '../lib/bytes.js';
import { checkReport, linesOf } from '../lib/report.js';
import { sha256 } from '../lib/sha256.js';
import { callStream } from './api.js';
import { mustFit, mustName } from './asked.js';
import { Tally } from './report_tally.js';

const NEWS = 150; // ms between two words on how far it is
const FOLDED = 8 << 20; // bytes that are held apart from the Blob

/** What was read, byte for byte, in memory that is not the page's. */
class Copy {
  /** @type {Bytes[]} */
  #fresh = [];

  #bytes = 0;

  blob = new Blob([]);

  /** @param {Bytes} chunk */
  add(chunk) {
    this.#fresh.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes > FOLDED) this.fold();
  }

  fold() {
    this.blob = new Blob([this.blob, ...this.#fresh], { type: 'application/x-ndjson' });
    this.#fresh = [];
    this.#bytes = 0;
    return this.blob;
  }
}

/**
 * What the page shows of a check, without what only checking needs.
 * @param {import('../lib/report.js').ReportCheck} check
 */
function shown({ verdict, code, reason, checked, file, ends, checkpoints, all, last, logs }) {
  /** @param {EvidenceKey} one */
  const key = (one) => one && { kid: one.kid, fingerprint: one.fingerprint, raw: one.raw };
  return {
    verdict,
    code,
    reason,
    checked,
    ends,
    all: all?.map(key),
    last: key(last),
    checkpoints: ends && Object.fromEntries(checkpoints),
    origins: logs && [...logs.values()].map(({ origin }) => origin),
    file: file && { companyId: file.companyId, from: file.from, to: file.to, notProven: file.notProven },
  };
}

/**
 * Checks the report in a stream of bytes. progress({done, total}) is called now and then. Resolves
 * to {check, tally, file, digest, at}: file is the Blob of what was read, and digest its SHA-256.
 * @param {ReadableStream<Bytes>} stream
 * @param {ReportProgress} progress
 */
async function readReport(stream, progress) {
  const copy = new Copy();
  /** @type {Tally | undefined} */
  let tally;
  let total = 0;
  let done = 0;
  let last = performance.now();
  const copied = stream.pipeThrough(new TransformStream({
    /**
     * @param {Bytes} chunk
     * @param {TransformStreamDefaultController<Bytes>} out
     */
    transform(chunk, out) {
      copy.add(chunk);
      out.enqueue(chunk);
    },
  }));
  const check = await checkReport(linesOf(copied), {}, ({ file, ends }) => {
    tally = new Tally(file.from);
    total = ends.actions.size - ends.actions.start + ends.control.size - ends.control.start;
  }, (events) => {
    tally?.addEvents(events);
    done += events.length;
    if (performance.now() - last < NEWS) return;
    last = performance.now();
    progress({ done, total });
  });
  progress({ done, total });
  const file = copy.fold();
  return {
    check: shown(check),
    tally: tally?.result(),
    file,
    digest: hex(await sha256(new Uint8Array(await file.arrayBuffer()))),
    at: new Date().toISOString(),
  };
}

/**
 * The report of a period of a company, [since, until) in timestamps, either of which may be '',
 * from the server; or that in a Blob, given. A report of another period than the one that was asked
 * for is none.
 * @param {ReportJob & {companyId: string}} job
 * @param {ReportProgress} progress
 */
export async function readAndCheckReport({ companyId, since, until, given }, progress) {
  if (given) return readReport(given.stream(), progress);
  const asked = Object.entries({ from: since ?? '', to: until ?? '' }).filter(([, value]) => value);
  const query = new URLSearchParams(asked).toString();
  const report = await readReport(
    await callStream(`/v1/report${query && `?${query}`}`, { accept: 'application/x-ndjson' }),
    progress,
  );
  const { file } = report.check;
  if (file) mustName({ companyId }, file);
  if (file)
    mustFit(
      (!since || file.from === since) && (!until || file.to === until),
      `it is the report of another period, from ${file.from} to ${file.to}`,
    );
  return report;
}
