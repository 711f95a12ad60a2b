// @ts-check
// A report that was checked: the verdict, what was done and changed in numbers and words, and what
// all this does not prove.
import { html, useEffect } from '../vendor/preact-htm.js';
import { readArchives } from '../core/archives.js';
import { count, plural, timeText } from '../core/format.js';
import { proveSince } from '../core/growth.js';
import { pinCheckpoint } from '../core/logs.js';
import { meets } from '../core/policy.js';
import { archiveOf, verdictOnPruned } from '../core/pruned.js';
import { greatest, histogram } from '../core/report_tally.js';
import { href } from '../core/router.js';
import { session, useSignedIn } from '../core/session.js';
import { keyStateOf } from '../core/trust.js';
import { isGreen } from '../core/verdict.js';
import { visible } from '../lib/visible.js';
import { Notice, useResult } from '../parts/basic.js';
import { Bars, Ranks } from '../parts/chart.js';
import { ControlWords, kindName } from '../parts/control_words.js';
import { Against } from '../parts/findings.js';
import { ConfirmKey, useAssess, useKeyState } from '../parts/key_trust.js';
import { usePolicy } from '../parts/policy.js';
import { Archives } from '../parts/pruned.js';
import { saveData, savePage } from './report_save.js';
import { table } from '../lib/table.js';

/** @type {LogName[]} */
const LOGS = ['actions', 'control'];
const RANKED = 12; // agents and actions in a chart
const LISTED = 500; // rows of a table

/**
 * @param {number} ms
 * @param {number} width
 */
const ofTime = (ms, width) => timeText(new Date(ms).toISOString(), width < 60_000 ? 19 : 16);
/** @param {string} timestamp */
const bound = (timestamp) => (timestamp.startsWith('0001-') ? 'the beginning' : timeText(timestamp));

/**
 * Whether the policy of the person takes both checkpoints at the end; null where there is none.
 * @param {ShownCheck} check
 * @param {Policy | null} policy
 */
async function policyVerdict({ checkpoints, origins, last }, policy) {
  if (!policy || !checkpoints || !last || !origins) return null;
  for (const log of LOGS) {
    const { met, reason } = await meets(policy, { ...checkpoints[log], signer: last }, origins);
    if (!met) return { met, reason: `${reason} (${log})` };
  }
  return { met: true, reason: '' };
}

const KEY_STATES = table({
  confirmed: 'confirmed by the creator of this page',
  other: 'not the confirmed key',
  unconfirmed: 'unconfirmed',
});

/**
 * The archives where the check of a report of the company that is signed in ended at a record whose
 * payload one of them has; or else none.
 * @param {ShownCheck} check
 * @param {NamedKey} keyOf
 */
async function archivesOf({ code, reason }, { companyId }) {
  const index = /^the log actions, record ([0-9]+): /.exec(reason)?.[1];
  if (code !== 'PRUNED' || index === undefined || session.get().company?.companyId !== companyId) return [];
  const archives = await readArchives(Number(index) + 1).catch(() => []);
  return archiveOf(archives, Number(index)) ? archives : [];
}

/**
 * @param {{check: ShownCheck, at: string, digest: string, keyOf: NamedKey, policy: {met: boolean,
 *   reason: string} | null, stolen: string, strange: boolean}} props
 */
function Verdict({ check, at, digest, keyOf, policy, stolen, strange }) {
  const keyState = useKeyState(keyOf);
  const holds = check.verdict !== 'fails';
  const assess = useAssess(keyOf);
  const { tone: held, own, is, against } = assess(holds && policy?.met !== false && !strange);
  const archives = useResult(() => archivesOf(check, keyOf), [check, keyOf]);
  const pruned = Boolean(archives?.length) && !strange;
  const tone = pruned ? verdictOnPruned(assess).tone : isGreen(held) && stolen ? 'warn' : held;
  const failing = /the log (actions|control), record ([0-9]+)/.exec(check.reason);
  const pinned = check.all?.find((key) => keyStateOf({ companyId: keyOf.companyId, ...key }) === 'confirmed');
  return html`
    <section class="stack" data-report=${tone} data-code=${check.code}>
      <${Notice} kind=${tone}>
        ${against && holds && html`<strong>Do not rely on it.</strong>`}<${Against} of=${against} />
        ${
          pruned && archives
            ? html`<strong>Payloads pruned.</strong> The check ends there, and proves nothing of the period:${' '}
            ${visible(check.reason)}. <${Archives} of=${archives} />`
            : !holds
            ? html`<strong>Fails: ${check.code}.</strong> ${visible(check.reason)}.
            ${failing
              && html` <a href=${href(failing[1] === 'actions' ? 'records' : 'control', failing[2])}>
              Show the record</a>`}`
            : policy?.met === false
              ? html`<strong>Fails: POLICY. Your policy is not met:</strong> ${visible(policy.reason)}.`
              : strange || is === 'another key'
                ? html`<strong>Fails: KEY. Signed by another key</strong> than the one
                that ${strange ? 'this server publishes' : 'you confirmed'} for ${visible(keyOf.companyId)}.`
                : isGreen(own) && stolen
                  ? html`<strong>Holds, key not confirmed. A compromised key.</strong> According to this
                  server, ${visible(keyOf.companyId)} declared the key of this report compromised at ${stolen}
                  : its thief could have created this report.`
                  : isGreen(own)
                    ? html`<strong>${against ? 'Holds by itself.' : 'Holds.'}</strong> No
                    record of the period is missing or changed.`
                    : html`<strong>Holds, key not confirmed.</strong> Anyone can create such a report
                    with a key of their own.`
        }
      <//>
      <dl class="facts">
        <dt>checked</dt><dd>${timeText(at)}, in a browser, with the attestd console</dd>
        ${check.last && html`<dt>key</dt>
        <dd><code>${check.last.fingerprint}</code>, ${KEY_STATES[keyState]}
          ${pinned && pinned.fingerprint !== check.last.fingerprint
            && html`, which follows from <code>${pinned.fingerprint}</code>`}</dd>`}
        ${policy && html`<dt>policy</dt>
        <dd>${policy.met ? 'met: its witnesses have cosigned both checkpoints at the end' : 'not met'}</dd>`}
        <dt>SHA-256</dt><dd><code>${digest}</code> <span class="muted">of the report’s data (.jsonl)</span></dd>
      </dl>
    </section>`;
}

/** @param {{tally: ReportTally, ends: Record<LogName, ReportEnd>}} props */
const Numbers = ({ tally, ends }) => html`
  <dl class="report-numbers">
    ${/** @type {[string, number][]} */ ([
      ['actions', tally.actions.total],
      ['failures', tally.failures.total],
      ['changes', tally.changes.total],
      ['agents', tally.actions.agents.size],
    ]).map(([name, n]) => html`<div><dt>${name}</dt><dd>${count(n)}</dd></div>`)}
  </dl>
  <p class="small muted">Actions: from ${plural(ends.actions.start, 'record')} to ${count(ends.actions.size)}
    . Control log: from ${count(ends.control.start)} to ${count(ends.control.size)}.</p>`;

/** @param {{tally: ReportTally, file: {from: string, to: string}}} props */
function Charts({ tally, file }) {
  const { span } = tally;
  if (!span) return null;
  /** @type {[number, number]} */
  const over = [Math.max(Date.parse(file.from), 0) || span[0], Date.parse(file.to) - 1];
  /** @param {number[]} times */
  const bars = (times) => {
    const { width, parts } = histogram(times, over);
    return parts.map(([start, value]) => ({ label: ofTime(start, width), value }));
  };
  /**
   * @param {Map<string, number>} map
   * @param {(one: string) => string} [name]
   */
  const ranks = (map, name = visible) => greatest(map, RANKED).map(([one, value]) => ({ label: name(one), value }));
  return html`
    <section class="stack report-charts"><h3>Activity</h3>
      <${Bars} label="Actions over time" bars=${bars(tally.actions.times)} />
      ${tally.failures.total > 0 && html`<${Bars} label="Failures over time" bars=${bars(tally.failures.times)} />`}
      <${Bars} label="Changes over time" bars=${bars(tally.changes.times)} />
      <div class="columns">
        ${tally.actions.total > 0 && html`<${Ranks} label="Actions by agent" bars=${ranks(tally.actions.agents)} />
        <${Ranks} label="Actions by kind" bars=${ranks(tally.actions.kinds)} />`}
        ${tally.changes.total > 0
          && html`<${Ranks} label="Changes by kind" bars=${ranks(tally.changes.kinds, kindName)} />`}
      </div>
    </section>`;
}

/**
 * A table of the first rows of a list; what is not listed is said.
 * @template T
 * @param {RowsProps<T>} props
 */
function Rows({ title, lead, head, list, total = list.length, row, empty, counted }) {
  return html`
    <section class="stack tight"><h3>${title}</h3>
      ${lead && html`<p class="small muted">${lead}</p>`}
      ${list.length ? html`
        <table class="table report-table ${counted ? 'counted' : ''}">
          <thead><tr>${head.map((name) => html`<th>${name}</th>`)}</tr></thead>
          <tbody>${list.slice(0, LISTED).map((one) => html`<tr>
            ${row(one).map((cell, i) => html`<td data-label=${head[i]}>${cell}</td>`)}</tr>`)}</tbody></table>`
        : html`<p class="small">${empty}</p>`}
      ${total > Math.min(LISTED, list.length)
        && html`<p class="small muted">
        And ${count(total - Math.min(LISTED, list.length))} more in the report’s data.</p>`}
    </section>`;
}

/** @param {{timestamp: string}} props */
const When = ({ timestamp }) => html`<span class="nowrap">${timeText(timestamp)}</span>`;

/**
 * @param {{file: {from: string, to: string}, ends: Record<LogName, ReportEnd>,
 *   tally: ReportTally}} props
 */
function Contents({ file, ends, tally }) {
  const alone = tally.alone.map(({ from, to }) => `From ${bound(from)} to ${timeText(to || file.to)}.`);
  if (tally.witnesses === null)
    alone.push('No change in this period says whether a witness was asked; see the previous report.');
  return html`
    <${Numbers} ...${{ tally, ends }} />
    <${Charts} ...${{ tally, file }} />
    <${Rows} title="Failures" lead="Actions whose name says that something failed or was denied."
      empty="None in this period." list=${tally.failures.list} total=${tally.failures.total}
      head=${['Time', 'Record', 'Agent', 'Action']}
        row=${(/** @type {FailedAction} */ one) =>
          [When(one), html`<a href=${href('records', one.index)}>${one.index}</a>`, visible(one.agentId),
            visible(one.action)]} />
    <${Rows} title="Changes" empty="None." list=${tally.changes.list} total=${tally.changes.total}
      head=${['Time', 'Record', 'Change', 'By']}
        row=${(/** @type {ReportEvent} */ one) =>
          [When(one), html`<a href=${href('control', one.index)}>${one.index}</a>`,
            html`<${ControlWords} change=${one} />`, one.by ? html`<code class="nowrap">${visible(one.by)}</code>`
              : 'no credential']} />
    <${Rows} title="Actions" counted empty="None." list=${tally.deeds}
      head=${['Agent', 'Action', 'Times']}
        row=${(/** @type {Deed} */ { agent, action, delegated, times }) =>
          [visible(agent), `${visible(action)}${delegated ? ' (delegated)' : ''}`, count(times)]} />
    <${Words} title="Times without a witness"
      list=${alone.length ? alone : ['None: a witness was asked all the time.']} />`;
}

/** @param {{title: string, list: string[]}} props */
const Words = ({ title, list }) =>
  html`<section class="stack tight"><h3>${title}</h3>
  <ul class="report-words small">${list.map((words) => html`<li>${visible(words)}</li>`)}</ul></section>`;

/** @param {{report: ReadReport}} props */
export function ReportResult({ report }) {
  const { check, tally, digest, at, file: data } = report;
  const { key } = useSignedIn();
  const companyId = check.file?.companyId ?? key.companyId;
  const { policy } = usePolicy(companyId);
  const verdict = useResult(() => policyVerdict(check, policy).then((value) => ({ value })), [check, policy]);
  const holds = check.verdict !== 'fails';
  const keyOf = check.last ? { companyId, ...check.last, ring: check.all } : key;
  const keyState = useKeyState(keyOf);
  const signer = companyId === key.companyId
    ? (key.ring ?? [key]).find(({ fingerprint }) => fingerprint === check.last?.fingerprint)
    : undefined;
  const stolen = signer?.compromisedAt ?? '';
  // One that follows from a confirmed key may have been made by its thief: the server knows which
  // does.
  const strange = Boolean(
    companyId === key.companyId &&
      !signer &&
      check.last &&
      keyStateOf({ companyId, fingerprint: check.last.fingerprint }) !== 'confirmed',
  );
  const mine = holds && signer && !stolen;
  useEffect(() => {
    // What the server shows later must have grown from here too.
    if (mine) {
      for (const log of LOGS) if (check.checkpoints) pinCheckpoint(key, log, check.checkpoints[log]);
      proveSince(key).catch(() => {}); // without an answer nothing is known
    }
    const before = document.title;
    document.title = `Report of ${companyId}${check.file ? `, ${bound(check.file.from)} to ${timeText(check.file.to)}`
      : ''}`;
    return () => { document.title = before; };
  }, [report]);
  const name = `${companyId}-report${check.file ? `-${check.file.from.slice(0, 10)}-${check.file.to.slice(0, 10)}`
    : ''}`;
  return html`
    <div class="buttons report-actions">
      ${holds && html`<button type="button" class="button" onClick=${() => print()}>Print</button>
        <button type="button" class="button" onClick=${() => savePage(`${name}.html`)}>Save this page</button>`}
      <button type="button" class="button" onClick=${() => saveData(`${name}.jsonl`, data)}>Save data</button>
      ${holds && html`<span class="small muted">
      The page is for reading: it says what was found here, and proves nothing. The data proves it to
      anybody: <code>attestd report FILE --key FINGERPRINT</code>.</span>`}
    </div>
    ${holds && keyState === 'unconfirmed'
      && html`<div class="card report-actions"><${ConfirmKey} keyOf=${keyOf} /></div>`}
    <article class="report" id="report">
      <header class="stack tight"><h2>Report of ${visible(companyId)}</h2>
        ${check.file && html`<p class="muted">From ${bound(check.file.from)} to ${timeText(check.file.to)}.</p>`}
        </header>
      <${Verdict} ...${{ check, at, digest, keyOf, stolen, strange, policy: verdict?.value ?? null }} />
      ${holds && check.file && check.ends && tally
        && html`<${Contents} file=${check.file} ends=${check.ends} tally=${tally} />`}
      <${Words} title=${holds ? 'Checks that passed' : 'Checks that passed before the failure'} list=${check.checked} />
      ${holds && html`<${Words} title="Not proven" list=${check.file?.notProven ?? []} />`}
    </article>`;
}
