// @ts-check
// The top of a session's page: what it was about, its verdict and its numbers.
import { html, useMemo } from '../vendor/preact-htm.js';
import { count, lasted, plural, timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { endsOf, misstated, stateOf } from '../core/session_calls.js';
import { placeOf, taskOf } from '../core/session_story.js';
import { KIND_NAMES } from '../core/sessions.js';
import { table } from '../lib/table.js';
import { visible } from '../lib/visible.js';
import { Badge, CopyButton } from '../parts/basic.js';
import { CallLine } from '../parts/call_line.js';
import { Unsearched } from '../parts/pruned.js';
import { SaveSession } from '../parts/session_file.js';
import { claimOf, sessionHref } from '../parts/session_table.js';
import { Text, withText } from '../parts/text.js';

/** @type {Record<string, string>} */
const COUNTED = table({
  denied: 'Denied', failed: 'Failed', none: 'Without an outcome', pending: 'Waiting', ended: 'Outcome unknown',
});

/**
 * What the session was about, as its heading.
 * @param {{calls?: SessionCalls, sid: string, heading: {current: any}}} props
 */
export function Heading({ calls, sid, heading }) {
  const task = calls && taskOf(calls);
  return html`
    <div class="page-head session-head">
      <p class="small"><a href=${href('sessions')}>Sessions</a> <span aria-hidden="true">/</span>${' '}
        Session <code><${Text} of=${sid} /></code></p>
      <h1 tabindex="-1" ref=${heading} data-task=${task?.is ?? ''}>
        ${!task ? html`Session <${Text} of=${sid} />` : task.is === 'prompt' ? withText(task.words.what)
          : html`<span class="visually-hidden">Session with the call</span>${' '}<${CallLine}
            words=${{ ...task.words, outcome: '', why: '', output: '' }} />`}</h1>
      ${task && html`<p class="small muted">${task.is === 'prompt' ? 'Its first prompt.'
        : `Its first ${task.is}; no prompt is on record.`}</p>`}
    </div>`;
}

/**
 * The numbers of a session, and its verdict.
 * @param {{rows: SessionRows, listed: ListedSession, whole: SessionWhole, tone: Tone,
 *   isLive: boolean, linkOf: (call?: SessionCall) => string | undefined}} props
 */
export function Summary({ rows, listed, whole, tone, isLive, linkOf }) {
  const { key } = useSignedIn();
  const { calls } = rows;
  /** @type {Record<string, number>} */
  const states = {};
  for (const call of calls.list) states[stateOf(call)] = (states[stateOf(call)] ?? 0) + 1;
  const { event = 0, broken = 0, ...ofCalls } = states;
  const n = Object.values(ofCalls).reduce((a, b) => a + b, 0);
  const place = useMemo(() => placeOf(calls), [calls.entries.length]);
  const { from, to } = calls.span;
  const [first, last] = calls.entries.length ? endsOf(calls) : [];
  const given = calls.pruned.length + calls.entries.length + broken;
  const wrong = misstated(calls, listed);
  return html`
    <section class="card session-summary" aria-label="Verdict on this session" data-whole=${whole.is}
      data-whole-tone=${tone}>
      <div class="card-head"><h2><${Badge} tone=${tone}>${whole.says}<//></h2>
        <div class="buttons no-print">
          <${CopyButton} text=${location.href} what="link to this session" label="Copy link" />
          <button type="button" class="button small" onClick=${() => print()}>Print</button>
          <${SaveSession} session=${listed} companyKey=${key}
            records=${calls.entries.map(({ record }) => record.index)} /></div></div>
      ${whole.is === 'unproven' && html`<details class="small"><summary>Why?</summary>
        <p class="muted">It is unsigned how many records belong to this session. Its saved file shows that the log
          leaves out nothing between its first and its last record.</p></details>`}
      <${Unsearched} count=${calls.pruned.length} what="of this session cannot be checked, because their payloads were
        pruned; that they are of it is claimed by the server" />
      ${whole.notes?.map(({ says, warns }) => html`<p class="small ${warns ? 'warn-text' : 'muted'}">
        <${Text} of=${says} /></p>`)}
      <dl class="session-facts">
        <div><dt>Calls</dt><dd data-calls=${n} data-denied=${ofCalls.denied ?? 0} data-failed=${ofCalls.failed ?? 0}
          data-open=${ofCalls.none ?? 0}>${count(n)}${event > 0 && html` <span class="muted">and
            ${' '}${plural(event, 'other record')}</span>`}</dd></div>
        ${['denied', 'failed', 'none', 'pending', 'ended'].filter((state) => ofCalls[state]).map((state) => html`
          <div><dt>${COUNTED[state]}</dt> <dd><a class=${state === 'denied' ? 'outcome outcome-denied' : ''}
            href=${linkOf(calls.list.find((call) => stateOf(call) === state))}
            title="Open the first of them">${count(ofCalls[state])}</a></dd></div>`)}
        <div><dt>Agent</dt><dd><a href=${href('agents', listed.agentId)}><${Text} of=${listed.agentId} /></a></dd></div>
        ${place && html`<div><dt>Repository</dt><dd><${Text} of=${place} /></dd></div>`}
        <div><dt>Duration</dt><dd title=${first && `${first.record.timestamp} to ${last?.record.timestamp}`}>
          ${lasted(to - from)}${calls.ended ? ', ended'
            : calls.pruned.length && !calls.entries.length ? ', and whether it ended was pruned'
              : `, no end on record${isLive ? '; new records appear here' : ''}`}</dd></div>
        <div><dt>Began</dt><dd title=${first?.record.timestamp}>
          ${first ? timeText(first.record.timestamp) : 'no record is here'}</dd></div>
        ${whole.continues && html`<div><dt>Continues</dt><dd data-continues=${visible(whole.continues.sid)}>
          <a href=${sessionHref({ agentId: listed.agentId, sid: whole.continues.sid, kind: listed.kind,
            kid: whole.continues.kid })}>session <code><${Text} of=${whole.continues.sid} /></code></a>
          <div class="small muted">key <code><${Text} of=${whole.continues.kid} /></code>, whose last statement has the
            hash <code><${Text} of=${whole.continues.hash} /></code></div></dd></div>`}
        <div><dt>Recorded by</dt><dd>${KIND_NAMES[listed.kind]}
          ${first?.said.source && html` (<${Text} of=${first.said.source} />)`}</dd></div>
        <div><dt>Records</dt><dd><span data-checked=${rows.checked}>
          ${`${count(rows.checked)} of ${count(Math.max(listed.records, given))}`} checked
          here</span></dd></div>
        <div><dt>Server claims</dt><dd class="muted">${claimOf(listed)}, ${plural(listed.records, 'record')}
          ${wrong.map((says) => html`<div class="bad-text" role="alert" data-misstated><${Text} of=${says} /></div>`)}
          </dd></div>
      </dl>
    </section>`;
}
