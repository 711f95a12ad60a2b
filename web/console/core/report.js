// Reads a report from the server, or from a file, and checks it while it comes.
import { hex } from '../lib/bytes.js';
import { FormError } from '../lib/form.js';
import { checkReport, linesOf } from '../lib/report.js';
import { sha256 } from '../lib/sha256.js';
import { callStream } from './api.js';
import { Tally } from './report_tally.js';

const SLICE = 12; // ms of work between which the page is painted
const NEWS = 150; // ms between two words on how far it is
const FOLDED = 8 << 20; // bytes that are held apart from the Blob

/** What was read, byte for byte, in memory that is not the page's. */
class Copy {
  #fresh = [];

  #bytes = 0;

  blob = new Blob([]);

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

const painted = () => (globalThis.scheduler?.yield ? scheduler.yield() : new Promise((resolve) => setTimeout(resolve)));

/**
 * Checks the report in a stream of bytes. progress({done, total}) is called now and then. Resolves to {check, tally, file, digest, at}: check as of checkReport, file the Blob of what was
 * read, and digest its SHA-256.
 */
export async function readReport(stream, { signal, progress = () => {} } = {}) {
  const copy = new Copy();
  let tally;
  let total = 0;
  let done = 0;
  let last = performance.now();
  let told = last;
  const copied = stream.pipeThrough(new TransformStream({
    transform(chunk, out) {
      copy.add(chunk);
      out.enqueue(chunk);
    },
  }));
  const check = await checkReport(linesOf(copied), {}, ({ file, ends }) => {
    tally = new Tally(file.from);
    total = ends.actions.size - ends.actions.start + ends.control.size - ends.control.start;
  }, async (events) => {
    tally.take(events);
    done += events.length;
    if (performance.now() - last < SLICE) return;
    await painted();
    signal?.throwIfAborted();
    last = performance.now();
    if (last - told < NEWS) return;
    told = last;
    progress({ done, total });
  });
  signal?.throwIfAborted();
  progress({ done, total });
  const file = copy.fold();
  return { check, tally, file, digest: hex(await sha256(new Uint8Array(await file.arrayBuffer()))), at: new Date().toISOString() };
}

/** The report of a period, [since, until) in timestamps, either of which may be ''. A report of another period than the one that was asked for is none. */
export async function askReport({ since, until }, options) {
  const query = new URLSearchParams(Object.entries({ from: since, to: until }).filter(([, value]) => value)).toString();
  const report = await readReport(await callStream(`/v1/report${query && `?${query}`}`, { signal: options.signal, accept: 'application/x-ndjson' }), options);
  const { file } = report.check;
  if (file && ((since && file.from !== since) || (until && file.to !== until))) throw new FormError(`The server gives the report of another period: from ${file.from} to ${file.to}.`);
  return report;
}
