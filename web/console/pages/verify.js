// @ts-check
// Verify: the whole chain, recomputed in workers of this browser and compared with what the server
// says, and with what was seen before.
import { html } from '../vendor/preact-htm.js';
import { count, timeText, plural, short } from '../core/format.js';
import { findings, shownPlace } from '../core/findings.js';
import { heads, headsOf } from '../core/heads.js';
import { adopt } from '../core/live.js';
import { live } from '../core/live_state.js';
import { hasFailed } from '../core/pruned.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { keyStateOf as keyStateOf } from '../core/trust.js';
import { compare, start, stop, verification } from '../core/verification.js';
import { Badge, Notice, Page } from '../parts/basic.js';
import { Against } from '../parts/findings.js';
import { KeyBadge, KeyHint, useAssess } from '../parts/key_trust.js';
import { Journal } from '../parts/journal.js';
import { Archives } from '../parts/pruned.js';
import { save } from '../parts/save.js';
import { Text } from '../parts/text.js';
import { table } from '../lib/table.js';

/** Checks the whole chain; what holds is then extended record by record as they come. */
export const verifyAll = async () => {
  const result = await start();
  if (result && !result.pruned && !heads.get().rewritten) adopt(result);
};

/**
 * All that the page shows, for a reader who asks later what was checked, with which key, and when.
 * @param {VerifyResult} result
 * @param {{ok: boolean, text: string}} verdict
 * @param {Finding | null} against
 * @param {NamedKey} companyKey
 */
function saveReport(result, verdict, against, companyKey) {
  const {
    companyId,
    fingerprint,
    startedAt,
    endedAt,
    count: records,
    root,
    engine,
    workers,
    failures,
    server,
  } = result;
  const report = {
    type: 'attestd-verification', v: 1, companyId, log: 'actions', origin: location.origin, startedAt, endedAt,
    key: { fingerprint, standing: keyStateOf(companyKey) },
    verdict: { holds: verdict.ok && !against, text: verdict.text },
    findings: findings.get().all.filter((one) => one.companyId === companyId),
    records,
    pruned: result.pruned,
    archives: result.archives,
    root,
    failures,
    server,
    engine,
    workers,
    secureContext: isSecureContext,
  };
  save(`verification-${companyId}-${records}.json`, 'application/json', `${JSON.stringify(report, null, 1)}\n`);
}

/** @param {{result: VerifyResult}} props */
function Outcome({ result }) {
  const { key: companyKey } = result; // which may no longer be the one that the server publishes
  const { rewritten } = useStore(heads);
  const { failure } = useStore(live);
  const verdict = compare(result, rewritten?.log === 'actions' ? rewritten : null, failure);
  const assess = useAssess(companyKey);
  const judged = assess(!hasFailed(verdict));
  const { is, against } = judged;
  const tone = verdict.ok && result.count === 0 && !against ? ''
    : verdict.pruned && judged.tone !== 'bad' ? 'warn' : judged.tone;
  const failedAt = result.failures.first?.index ?? result.server.failedAtIndex ?? failure?.failedAt;
  const word = verdict.ok && is === 'another key' ? 'signed by another key'
    : verdict.pruned && judged.tone !== 'bad' ? 'payloads pruned'
    : verdict.ok ? (against ? is : result.count === 0 ? 'empty' : 'valid')
      : rewritten || result.contradicted ? 'rewritten' : `fails at ${shownPlace(failedAt ?? 'the root')}`;
  return html`
    <section class="card aside" aria-label="Result"
      data-verdict=${verdict.ok ? 'valid' : verdict.pruned ? 'pruned' : 'failed'} data-tone=${tone}
      data-failed-at=${failedAt}>
      <div class="card-head"><h2 class="verdict-word ${tone}">${word}</h2>
        <button type="button" class="button" onClick=${() => saveReport(result, verdict, against, companyKey)}>
          Save report</button></div>
      <${Notice} kind=${tone}><${Text} of=${verdict.text} />${verdict.ok && html`<${Against} of=${against} />`}<//>
      <${KeyHint} keyOf=${companyKey} />
      <dl class="facts">
        <dt>checked here</dt><dd>
          ${plural(result.count, 'record')} in ${result.seconds.toFixed(1)} s,
          with ${result.engine} in ${plural(result.workers, 'worker')}</dd>
        ${result.pruned > 0 && html`<dt>without payload</dt><dd>${plural(result.pruned, 'record')}:${' '}
          <a href=${href('control', '', { kind: 'payloads.pruned' })}>see the control log</a>. ${' '}
          <${Archives} of=${result.archives} /></dd>`}
        <dt>as of</dt><dd title=${result.endedAt}>${timeText(result.endedAt)}</dd>
        <dt>chain root here</dt><dd><code>${result.root}</code></dd>
        <dt>server</dt><dd>
          <${Badge} tone=${result.server.valid ? '' : 'bad'}>
            ${result.server.valid ? 'claims valid' : `claims it fails at ${result.server.failedAtIndex}`}<//></dd>
        ${result.server.merkleRoot
          && html`<dt>server’s chain root</dt><dd><code>${result.server.merkleRoot}</code></dd>`}
      </dl>
      ${result.failures.count > 0 && html`
        <h3>${plural(result.failures.count, 'failure')}</h3>
        <ul class="stack tight small">
          ${result.failures.list.map((f) => html`<li><a href=${href('records', f.index)}>Record ${f.index}</a>
          : <${Text} of=${f.reason} /></li>`)}</ul>`
      }
    </section>`;
}

const HOW = table({ seen: 'seen', checked: 'verified', checkpoint: 'from a checkpoint' });
/** @type {LogName[]} */
const LOGS = ['actions', 'control'];
const NEWEST = 8; // of what is kept, as many are shown

/**
 * What the next verification, like each connection, is held to.
 * @param {{companyKey: NamedKey, aside: boolean}} props
 */
function RememberedHeads({ companyKey, aside }) {
  useStore(heads);
  const remembered = LOGS.flatMap((log) => headsOf(companyKey, log)).sort((a, b) =>
    (a.at < b.at ? 1 : -1));
  return html`
    <section class="card ${aside ? 'aside' : ''}" aria-label="What this browser remembers">
      <h2>What this browser remembers</h2>
      <p class="small muted">The server’s log must begin with each of these trees. If it does not, history was
        rewritten.</p>
      ${remembered.length ? html`
        <table class="table">
          <thead><tr><th>Log</th><th>Records</th><th>Since</th><th>Chain or log root</th></tr></thead>
          <tbody>${remembered.slice(0, NEWEST).map(({ log, size, root, logRoot, at, source }) => html`
            <tr><td data-label="Log" class="nowrap">${log}</td><td data-label="Records">${count(size)}</td>
              <td data-label="Since" title=${at}>${timeText(at)}, <span class="muted nowrap">${HOW[source]}</span></td>
                <td data-label="Chain or log root">${root ? 'chain' : 'log'} <code class="nowrap">
                  ${short(root ?? logRoot ?? '')}</code></td></tr>`,
          )}</tbody></table>`
          : html`<p class="empty">None yet.</p>`
      }
    </section>`;
}

const Insecure = () => !isSecureContext && html`
  <${Notice} kind="warn"><strong>This page is not a secure context.</strong> It came over plain HTTP from another
    machine, so anyone on the network path can change
    the page itself, and its verdict proves nothing against them. The browser’s own cryptography is off here, so the
    checks run in slower JavaScript.
    Use HTTPS, or a tunnel to localhost.<//>`;

export function Verify() {
  const { key } = useSignedIn();
  const { phase, done, total, failures, first, result, message } = useStore(verification);
  const share = phase === 'done' ? 1 : total ? Math.min(1, done / total) : 0;
  const shows = result && phase !== 'running';
  const shown = phase === 'done' && result ? result.count : done;
  return html`
    <${Page} title="Verify"
      lead="This browser reads the whole log and recomputes every hash, every signature, and the chain root. It
        proves that what it saw before is still there, and compares its verdict with the server’s.">
      <${Insecure} />
      <div class="beside">
        <section class="card">
          <div class="buttons">
            ${
              phase === 'running'
                ? html`<button type="button" class="button" onClick=${stop}>Stop</button>`
                : html`<button type="button" class="button primary" onClick=${verifyAll}>
                ${phase === 'ready' ? 'Verify the whole chain' : 'Verify again'}</button>`
            }
          </div>
          ${phase !== 'ready' && html`
            <div class="stack tight">
              <div class="progress ${failures ? 'bad' : ''}" role="progressbar" aria-label="Records checked"
                aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(share * 100)}>
                <div style=${{ width: `${share * 100}%` }}></div></div>
              <p class="small muted">${count(shown)}${total ? ` of ${count(Math.max(total, shown))}` : ''} checked
                ${failures ? `, ${plural(failures, 'failure')}, the first at ${first?.index}` : ''}</p>
            </div>`}
          <p class="small muted">Key: <code>${key.fingerprint}</code> <${KeyBadge} keyOf=${key} /></p>
        </section>
        ${phase === 'error' && html`<${Notice} kind="bad">${message}<//>`}
        ${shows && html`<${Outcome} result=${result} />`}
        <${RememberedHeads} companyKey=${key} aside=${!shows} />
        <${Journal} companyId=${key.companyId} />
      </div>
    <//>`;
}
