// @ts-check
// What can be taken away of a search: the records as text, evidence of some of them, or a report of
// the whole period. Each says what it proves.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { send } from '../core/api.js';
import { evidenceOf, mustBeReport } from '../core/evidence.js';
import { count, plural, timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { needsPayload, pathOf, searchOf } from '../core/search.js';
import { zip } from '../lib/zip.js';
import { Failure, Notice, useTask } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { Unsearched } from '../parts/pruned.js';
import { save } from '../parts/save.js';

const MOST = 100; // evidence files at a time
const EVERYTHING = searchOf({}, 0);
const HEADER = 1 << 22; // bytes within which the first line of a report ends

/**
 * The whole of an answer, in parts that the browser may put on disk. onBytes(n) says how many have
 * come.
 * @param {string} path
 * @param {string} accept
 * @param {AbortSignal} signal
 * @param {(bytes: number) => void} onBytes
 */
async function blobOf(path, accept, signal, onBytes) {
  const response = await send('GET', path, { accept, signal });
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
  const parts = [];
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(parts, { type: accept });
    parts.push(new Blob([value]));
    bytes += value.length;
    onBytes(bytes);
  }
}

/** @param {{title: string, children?: Child}} props */
function Offer({ title, children }) {
  return html`<section class="stack tight"><h3>${title}</h3>${children}</section>`;
}

/**
 * search as of searchOf; chosen: indexes of the records that evidence is wanted of.
 * @param {{search: Search, companyId: string, chosen: number[], selected: boolean, onClose: () =>
 *   void}} props
 */
export function Export({ search, companyId, chosen, selected, onClose }) {
  const [run, busy, error] = useTask();
  const [so, setSo] = useState('');
  const abort = useRef(null);
  useEffect(() => () => abort.current?.abort(), []);

  /** @param {(signal: AbortSignal) => Promise<string>} work */
  const task = (work) => run(async () => {
    abort.current = new AbortController();
    setSo('');
    try {
      setSo(await work(abort.current.signal));
    } catch (err) {
      if (err.name !== 'AbortError') throw err;
      setSo('Stopped; nothing was saved.');
    }
  });
  /** @param {number} bytes */
  const showProgress = (bytes) => setSo(`${count(Math.round(bytes / 1024))} KB so far …`);
  /**
   * @param {string} path
   * @param {string} accept
   * @param {string} name
   * @param {(blob: Blob) => unknown} [check]
   */
  const download = (path, accept, name, check = /** @type {(blob: Blob) => unknown} */ (() => {})) =>
    task(async (signal) => {
    const blob = await blobOf(path, accept, signal, showProgress);
    await check(blob);
    save(name, accept, blob);
    return `Saved ${name}, ${count(blob.size)} bytes.`;
  });
  const stamp = new Date().toISOString().slice(0, 19).replace(/[-:]/g, '');
  /**
   * @param {string} accept
   * @param {string} ending
   */
  const records = (accept, ending) =>
    download(pathOf(search, { order: search.order }), accept, `records-${companyId}-${stamp}.${ending}`);
  const until = search.until && search.until < new Date().toISOString() ? search.until : '';
  const report = () =>
    download(
      pathOf(EVERYTHING, { from: search.since, to: until }, '/v1/report'),
      'application/x-ndjson',
      `report-${companyId}-${stamp}.ndjson`,
      async (blob) => {
        const [line] = (await blob.slice(0, HEADER).text()).split('\n');
        mustBeReport(line, companyId, { since: search.since, until });
      },
    );
  const evidence = () =>
    task(async (signal) => {
      const files = [];
      for (const index of chosen) {
        files.push(await evidenceOf(index, 'actions', { signal }));
        setSo(`${files.length} of ${plural(chosen.length, 'file')} …`);
      }
      if (files.length === 1) save(files[0].name, 'application/json', files[0].text);
      else save(`evidence-${companyId}-${stamp}.zip`, 'application/zip', zip(files));
      return `Saved evidence of ${plural(files.length, 'record')}.`;
    });
  const all = search.failures ? 'All matching records, also those that verify' : 'All matching records';
  return html`
    <${Drawer} title="Export" onClose=${onClose}>
      <${Failure} error=${error} />
      ${(busy || so)
        && html`<${Notice} actions=${busy
          && html`<button type="button" class="button small" onClick=${() => abort.current.abort()}>Stop</button>`}>
          ${so || 'Loading …'}<//>`}
      <${Offer} title="Records">
        <p class="small muted">${all}, as the server sends them. NDJSON has the records with their signatures, byte for
          byte; CSV is for spreadsheets. Neither proves that none is missing.</p>
        ${needsPayload(search) && html`<${Unsearched} count=${null} />`}
        <div class="buttons">
          <button type="button" class="button" disabled=${busy}
            onClick=${() => records('application/x-ndjson', 'ndjson')}>Save as NDJSON</button>
          <button type="button" class="button" disabled=${busy} onClick=${() => records('text/csv', 'csv')}>
            Save as CSV</button>
        </div>
      <//>
      <${Offer} title="Evidence of single records">
        <p class="small muted">One file per record. It proves that the record is in the log, under a signed checkpoint
          with its cosignatures, and shows the authorization.
          Check it without any server: with <a href="/verifier.html">the verifier</a> or <code>attestd check</code>
          . It says nothing about other records.</p>
        ${
          chosen.length && chosen.length <= MOST
            ? html`<div class="buttons"><button type="button" class="button" disabled=${busy} onClick=${evidence}>
            Save evidence of ${selected ? `${plural(chosen.length, 'selected record')}`
              : `the ${plural(chosen.length, 'record')} found`}</button></div>`
            : html`<p class="small">Select up to ${MOST} records with their checkboxes, or with Space in the list.</p>`
        }
      <//>
      <${Offer} title="Report of the period">
        <p class="small muted">All records of both logs ${search.since || until
          ? html`from ${search.since ? timeText(search.since) : 'the beginning'} to ${until ? timeText(until) : 'now'}`
            : 'from the beginning to now'}, regardless of the other search fields,
          between signed checkpoints. It proves that none is missing or changed. Check it
          with <a href=${href('report')}>Report</a> or <code>attestd report</code>.</p>
        <div class="buttons"><button type="button" class="button" disabled=${busy} onClick=${report}>
          Save report</button></div>
      <//>
    <//>`;
}
