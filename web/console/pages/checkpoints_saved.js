// @ts-check
// Checkpoints that the reader saved: whether what the server shows today has grown from them.
import { html, useState } from '../vendor/preact-htm.js';
import { count, plural } from '../core/format.js';
import { proveSince } from '../core/growth.js';
import { openCheckpoint } from '../core/checkpoint.js';
import { follow, pinCheckpoint } from '../core/logs.js';
import { PART } from '../core/verdict.js';
import { readCheckpoint } from '../lib/note.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, Notice, useTask } from '../parts/basic.js';
import { Drop } from '../parts/drop.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { table } from '../lib/table.js';

/**
 * The result of comparing a saved checkpoint: {log, size, ok, reason, now, stolen}; it is
 * remembered among what
 * this browser has seen of the log. reason is rewritten, shorter, or why it is no checkpoint of
 * this company; the last alone says nothing of the server.
 * @param {string} text
 * @param {CompanyKey} companyKey
 * @param {Record<LogName, ServiceLog>} logs
 * @returns {Promise<ExaminedCheckpoint>}
 */
async function examine(text, companyKey, logs) {
  const named = readCheckpoint(text); // throws where it is none
  const log = Object.values(logs).find(({ origin }) => origin === named.origin);
  if (!log)
    return {
      ok: false,
      unrelated: true,
      reason: `it belongs to the log ${named.origin}, which is not one of this company`,
    };
  let saved;
  try {
    saved = await openCheckpoint(text, log.origin, companyKey);
  } catch (err) {
    return { ok: false, unrelated: true, log: log.log, size: Number(named.size), reason: err.message };
  }
  const { ok, reason, newest } = await follow(saved, log, companyKey);
  const stolen = saved.signer.compromisedAt ?? '';
  if (!stolen) {
    pinCheckpoint(companyKey, log.log, saved);
    if (!ok) await proveSince(companyKey).catch(() => {}); // every page says it from now on
  }
  return { ok, reason, log: log.log, size: Number(saved.size), now: Number(newest.size), stolen };
}

/**
 * Between which records of a log the first rewritten one is: [first, last], or null where nothing
 * was.
 * @param {ExaminedCheckpoint[]} results
 * @param {LogName} log
 */
export function rewrittenBetween(results, log) {
  const own = results.flatMap((one) => (one.log === log && !one.unrelated ? [one] : []));
  const bad = own.filter(({ ok }) => !ok).map(({ size }) => size);
  if (!bad.length) return null;
  return [
    Math.max(0, ...own.filter(({ ok, size }) => ok && size < Math.min(...bad)).map(({ size }) => size)),
    Math.min(...bad) - 1,
  ];
}

/** @param {ExaminedCheckpoint} result */
function words(result) {
  if (result.unrelated) return `Not a checkpoint of this company: ${visible(result.reason)}.`;
  const { ok, reason, size, now } = result;
  if (ok)
    return now === size
      ? `Unchanged: the log still has exactly the ${plural(size, 'record')} that this checkpoint covers.`
      : `Consistent: the first ${count(size)} of the ${plural(now, 'record')} are those that this checkpoint covers.`;
  if (reason === 'shorter')
    return `Rolled back: this checkpoint covers ${plural(size, 'record')}, and the server now shows ${count(now)}. ` +
      `Later records were removed.`;
  return `History was rewritten: the ${plural(now, 'record')} that the server shows now don’t begin with the ` +
    `${plural(size, 'record')} of this checkpoint.`;
}

/** @param {{result: ExaminedCheckpoint & {name: string}, assess: Assess}} props */
function SavedCheckpoint({ result, assess }) {
  const { tone } = assess(result.ok, PART);
  return html`
    <li class="stack tight" data-saved=${result.name} data-tone=${tone}>
      <div class="card-head"><strong>${visible(result.name)}</strong>
        ${result.log
          && html`<span class="muted small">${result.log}, ${plural(result.size ?? 0, 'record')}</span>`}</div>
      <${Notice} kind=${tone}>${words(result)}
        ${result.stolen
          && html` Its key was declared compromised: ${result.ok ? 'the checkpoint still matches this history'
            : 'the thief of the key may have created it'}.`}<//>
    </li>`;
}

const NAMES = table({ actions: 'actions', control: 'the control log' });

/** @param {{results: ExaminedCheckpoint[], log: LogName}} props */
function Rewritten({ results, log }) {
  const between = rewrittenBetween(results, log);
  if (!between) return null;
  const [first, last] = between;
  return html`<${Notice} kind="bad">
  <span data-rewritten=${log} data-first=${first} data-last=${last}>In ${NAMES[log]}
    , the first changed record is ${first === last ? `record ${count(first)}`
      : `one of records ${count(first)} to ${count(last)}`}.
    ${first > 0 ? ' Another checkpoint proves the records before it.'
      : ' Drop an older checkpoint to find out which earlier records are unchanged.'}</span><//>`;
}

/** @param {{companyKey: CompanyKey, logs: Record<LogName, ServiceLog>}} props */
export function SavedCheckpoints({ companyKey, logs }) {
  const assess = useAssess(companyKey);
  const [results, setResults] = useState(/** @type {(ExaminedCheckpoint & {name: string})[]} */ ([]));
  const [run, busy, error] = useTask();
  /**
   * @param {string} text
   * @param {string} name
   */
  const addCheckpoint = async (text, name) => {
    const result = await run(async () => ({ name, ...(await examine(text, companyKey, logs)) }));
    if (result) setResults((before) => [result, ...before.filter((one) => one.name !== name)]);
  };
  return html`
    <section class="card" id="kept">
      <div class="card-head"><h2>Check a saved checkpoint</h2>${busy && html`<${Badge}>checking …<//>`}</div>
      <p class="small muted">Has the log only grown since then? The server must prove it, and this browser checks the
        proof.</p>
      <${Drop} what="a checkpoint" reads=${['checkpoint']} largest=${1 << 17} onText=${addCheckpoint}>
        <p>Drop a checkpoint file here.</p><//>
      <${Failure} error=${error} />
      <div aria-live="polite" class="stack">
        <${Rewritten} results=${results} log="actions" /><${Rewritten} results=${results} log="control" />
        ${results.length > 0 && html`<${KeyHint} keyOf=${companyKey} />
        <ul class="stack">
          ${results.map((result) => html`<${SavedCheckpoint} key=${result.name} ...${{ result, assess }} />`)}</ul>`}
      </div>
    </section>`;
}
