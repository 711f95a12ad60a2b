// @ts-check
// Report: all records of a period, checked here, and what they say in numbers, to be printed or
// saved.
import { html, useEffect } from '../vendor/preact-htm.js';
import { count, timeText } from '../core/format.js';
import { replace, route } from '../core/router.js';
import { make, prepareChecker, reporting, stop } from '../core/report.js';
import { useStore } from '../core/store.js';
import { dateOf, zoned } from '../core/times.js';
import { Notice, Page } from '../parts/basic.js';
import { Drop } from '../parts/drop.js';
import { PeriodFields } from '../parts/period.js';
import { ReportResult } from './report_result.js';

const LARGEST = 1 << 30; // bytes of a file

/** @param {number} n */
const two = (n) => String(n).padStart(2, '0');

/**
 * When a day of the shown zone begins. The day may be of the month before; where a clock is put
 * forward at midnight, the day begins an hour later.
 * @param {number} year
 * @param {number} month
 * @param {number} day
 */
function midnight(year, month, day) {
  const date = new Date(Date.UTC(year, month, day));
  const spelled = `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}T`;
  return (dateOf(`${spelled}00:00:00.000`) ?? dateOf(`${spelled}01:00:00.000`) ?? date).toISOString();
}

// Periods of the calendar in the shown zone, [name, since, until]; '' is no bound.
function presets(now = new Date()) {
  const shown = zoned(now);
  const [year, month, day] = [Number(shown.slice(0, 4)), Number(shown.slice(5, 7)) - 1, Number(shown.slice(8, 10))];
  return [
    ['Today', midnight(year, month, day), ''],
    ['Yesterday', midnight(year, month, day - 1), midnight(year, month, day)],
    ['7 days', midnight(year, month, day - 7), ''],
    ['30 days', midnight(year, month, day - 30), ''],
    ['Last month', midnight(year, month - 1, 1), midnight(year, month, 1)],
    ['Everything', '', ''],
  ];
}

/** @param {{since?: string, until?: string}} props */
function Period({ since = '', until = '' }) {
  /** @param {Query} patch */
  const set = (patch) => replace({ since, until, ...patch });
  return html`
    <div class="buttons" role="group" aria-label="Period">
      ${presets().map(
        ([name, from, to]) => html`
        <button type="button" class="button small" aria-pressed=${from === since && to === until ? 'true' : 'false'}
          onClick=${() => set({ since: from, until: to })}>${name}</button>`,
      )}
    </div>
    <div class="filters"><${PeriodFields} since=${since} until=${until} set=${set} /></div>`;
}

/** @param {{done: number, total: number}} props */
function Progress({ done, total }) {
  const share = total ? done / total : 0;
  return html`
    <div class="stack tight">
      <div class="progress" role="progressbar" aria-label="Records checked" aria-valuemin="0" aria-valuemax="100"
        aria-valuenow=${Math.round(share * 100)}><div style=${{ width: `${share * 100}%` }}></div></div>
      <p class="small muted">${count(done)}${total ? ` of ${count(total)}` : ''} checked</p>
    </div>`;
}

export function Report() {
  const { query: { since = '', until = '' } } = useStore(route);
  const state = useStore(reporting);
  useEffect(prepareChecker, []);
  const words =
    since || until
      ? `${since ? `from ${timeText(since)}` : 'from the beginning'} ${until ? `to ${timeText(until)}` : 'to now'}`
      : 'of everything';
  return html`
    <${Page} title="Report"
      lead="All records of a period, from both logs. This browser proves that none is missing, from the checkpoint at
        the start to the one at the end.">
      <section class="card report-form">
        <${Period} since=${since} until=${until} />
        <div class="buttons">
          ${
            state.phase === 'running'
              ? html`<button type="button" class="button" onClick=${stop}>Stop</button>`
              : html`<button type="button" class="button primary" onClick=${() => make({ since, until })}>
              Create the report ${words}</button>`
          }
        </div>
        ${state.phase === 'running' && html`<${Progress} ...${state} />`}
        <details><summary class="small">Check a report file</summary>
          <${Drop} what="a report" reads=${['report']} largest=${LARGEST} onOther=${stop}
            onBytes=${(/** @type {Bytes} */ bytes) => make({ given: new Blob([bytes]) })}>
            <p>Drop the .jsonl file of a report here. It is checked without the server.</p><//></details>
      </section>
      ${state.error && html`<${Notice} kind="bad">${state.error.message}<//>`}
      ${state.report && html`<${ReportResult} report=${state.report} />`}
    <//>`;
}
