// @ts-check
// One session: its calls with what was asked and what came of it side by side, when, for how long,
// and who signed it. Each record is checked here, and so is the whole, as far as that can be.
import { html, useEffect, useReducer, useRef, useState } from '../vendor/preact-htm.js';
import { bare, count, duration, plural, timeText } from '../core/format.js';
import { live } from '../core/live_state.js';
import { go, href, route } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { endsOf, entriesOf, misstated, stateOf, strangerTo, timesOf, wholeOf } from '../core/session_calls.js';
import { SessionRows } from '../core/session_rows.js';
import { toneOfSession } from '../core/session_tone.js';
import { KIND_NAMES } from '../core/sessions.js';
import { useStore } from '../core/store.js';
import { zoneOf } from '../core/times.js';
import { toneOfSet } from '../core/verdict.js';
import { table } from '../lib/table.js';
import { visible } from '../lib/visible.js';
import { Badge, CopyButton, Icon, Notice } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { RecordView } from '../parts/record_view.js';
import { SaveSession } from '../parts/session_file.js';
import { claimOf, sessionHref } from '../parts/session_table.js';
import { Text, withText } from '../parts/text.js';
import { PRINTED, VirtualList } from '../parts/virtual_list.js';
import { WordIcon, useAgentTrust } from '../parts/word.js';
import { useMedia } from './records_rows.js';

const NARROW = matchMedia('(max-width: 48rem)');

/** @type {Record<string, string>} */
const STATES = table({
  completed: 'completed', failed: 'failed', denied: 'denied', ended: 'ended, outcome unknown',
  pending: 'waits for input, or goes on as a task', none: 'no outcome on record',
});

/** @param {number} ms */
const lasted = (ms) =>
  (ms < 1000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms / 1000));

/**
 * The rows of a session, read once and then followed while it runs.
 * @param {SessionQuery} name
 */
function useSession(name) {
  const [, rerender] = useReducer((n) => n + 1, 0);
  const [rows, setRows] = useState(/** @type {SessionRows | null} */ (null));
  const state = useStore(live);
  const seen = useRef(-1); // the newest record that came over the stream
  useEffect(() => {
    const made = new SessionRows(name, rerender);
    setRows(made);
    made.more();
    return () => made.stop();
  }, []);
  useEffect(() => {
    const newest = state.entries[0]?.record.index ?? -1;
    if (!rows?.listed || newest <= seen.current) return;
    const { listed } = rows;
    const fresh = state.entries.filter(({ record }) => record.index > seen.current);
    const missed = seen.current >= 0 && fresh.length === state.entries.length;
    seen.current = newest;
    const due = fresh.filter(({ record }) => !strangerTo(record, listed)).map(({ record }) => record.index);
    due.forEach((index) => rows.due.add(index));
    if (missed || due.some((index) => index >= rows.from)) rows.more();
    else if (due.length) rerender();
  }, [state.entries, rows?.listed]);
  return { rows, isLive: state.connection === 'open' };
}

/**
 * The verdict on one record of the session.
 * @param {Row} row
 * @param {Assess} assess
 */
const toneOf = (row, assess) => (row.check
  ? assess(row.check.ok, { log: 'actions', index: row.index, pruned: row.check.pruned }).tone : '');

/**
 * The verdict on a call: the worst of its records.
 * @param {SessionCall} call
 * @param {Assess} assess
 */
function verdictOf(call, assess) {
  const rows = call.broken ? [call.broken] : entriesOf(call).map(({ row }) => row);
  const tone = toneOfSet(rows.map((row) => toneOf(row, assess)));
  const failed = rows.find((row) => row.check && !row.check.ok);
  const says = failed?.check ? visible(failed.check.reason)
    : rows.some((row) => !row.check) ? 'not verified yet'
      : tone === 'bad' ? 'signed by another key than the confirmed one, or failed before'
        : `checked${tone === 'warn' ? ', with a key not confirmed or with a finding' : ''}`;
  return { tone, says };
}

/**
 * The verdict on the session as a whole. Complete is green only where each of its records is, and
 * is the word of the agent.
 * @param {SessionWhole} whole
 * @param {SessionEntry[]} entries
 * @param {Assess} assess
 * @param {JudgeWord} judge
 * @returns {Tone}
 */
function toneOfWhole({ is }, entries, assess, judge) {
  const tones = entries.flatMap(({ row }) => {
    if (!row.check) return [];
    const verdict = assess(row.check.ok, { log: 'actions', index: row.index });
    return [verdict.tone, ...(row.word && is === 'complete' ? [judge(row.word, verdict).tone] : [])];
  });
  return toneOfSession(is, tones);
}

const HEADS = () =>
  ['Verdict', `Time (${zoneOf()})`, 'Call', 'Asked', 'Outcome', 'When', 'Duration'].map((name, i) => html`
    <span role="columnheader">${i ? name : html`<span class="visually-hidden">${name}</span>`}</span>`);

/**
 * The place of a call in the time of its session.
 * @param {{call: SessionCall, span: {from: number, to: number}}} props
 */
function Bar({ call, span: { from, to } }) {
  const { start, end } = timesOf(call);
  if (start === null || end === null) return null;
  const whole = Math.max(1, to - from);
  const left = Math.min(99.5, Math.max(0, ((start - from) / whole) * 100));
  const style = { left: `${left}%`, width: `${Math.max(0.5, Math.min(100 - left, ((end - start) / whole) * 100))}%` };
  return html`<span class="fall" aria-hidden="true"><span class="fall-bar" style=${style}></span></span>`;
}

/**
 * A text that ends in dots where its cell does, and is whole on paper.
 * @param {string} said
 */
const clipped = (said) => html`<span class="call-text">${withText(said)}</span>`;

/**
 * @param {{call: SessionCall, link?: string, tab: number, span: {from: number, to: number},
 *   ended: boolean, assess: Assess, judge: JudgeWord}} of
 */
function cells({ call, link, tab, span, ended, assess, judge }) {
  const { asked, pending, outcome, event, broken, note } = call;
  const { tone, says } = verdictOf(call, assess);
  const state = stateOf(call);
  const first = asked ?? event ?? outcome ?? pending;
  const { ms } = timesOf(call);
  /** @param {SessionEntry | null} entry */
  const word = (entry) => entry?.row.word
    && html`<${WordIcon} word=${entry.row.word} record=${assess(true, { log: 'actions', index: entry.row.index })}
      judge=${judge} /> `;
  /**
   * @param {string} name
   * @param {Child} content
   * @param {string} [title]
   */
  const cell = (name, content, title) =>
    html`<span role="gridcell" class="call-${name}" title=${title}>${content}</span>`;
  const title = first ? first.words.tool : 'no record';
  const delegation = first?.record.delegation;
  const came = outcome ?? pending;
  return html`
    <span role="gridcell" class="row-verdict ${tone}" title=${says}>
      ${tone ? html`<${Icon} name=${tone} />` : html`<span class="dot"></span>`}
      <span class="visually-hidden">${says}</span></span>
    ${cell('time', first ? bare(first.record.timestamp, 23).slice(11) : '?', first
      ? `${timeText(first.record.timestamp, 23)}, recorded as ${first.record.timestamp}` : undefined)}
    <span role="gridcell" class="call-what">
      <a class="row-link" href=${link} tabindex=${tab}>${withText(title)}</a>
      ${delegation && html` <span class="muted" title=${visible(`by delegation of ${delegation.subject}`)}>
        <span aria-hidden="true">↪</span><span class="visually-hidden">delegated by
        ${visible(delegation.subject)}</span></span>`}</span>
    ${cell('asked', broken ? html`<span class="bad-text">${says}</span>`
      : event ? html`${word(event)}${clipped(event.words.what || event.words.why)}`
        : asked ? html`${word(asked)}${clipped(asked.words.what)}`
          : html`<span class="muted">not on record</span>`)}
    ${cell('outcome', !broken && !event && html`
      ${word(came)}<span class=${state === 'denied' || state === 'failed' ? 'call-state strong' : 'call-state'}>
      ${state === 'none' && !ended ? 'no outcome yet' : STATES[state]}</span>${' '}
      ${came && clipped(came.words.why || came.words.output)}${note && html`${' '}<em>${note}</em>`}`)}
    ${cell('fall', html`<${Bar} call=${call} span=${span} />`)}
    ${cell('lasted', ms === null ? '' : lasted(ms))}`;
}

/**
 * The numbers of a session, and its verdict.
 * @param {{rows: SessionRows, listed: ListedSession, whole: SessionWhole, tone: Tone,
 *   isLive: boolean}} props
 */
function Summary({ rows, listed, whole, tone, isLive }) {
  const { key } = useSignedIn();
  const { calls } = rows;
  /** @type {Record<string, number>} */
  const states = {};
  for (const call of calls.list) states[stateOf(call)] = (states[stateOf(call)] ?? 0) + 1;
  const { event = 0, broken = 0, ...ofCalls } = states;
  const n = Object.values(ofCalls).reduce((a, b) => a + b, 0);
  const parts = ['denied', 'failed', 'none', 'pending', 'ended'].filter((state) => ofCalls[state])
    .map((state) => `${count(ofCalls[state])} ${state === 'none' ? 'without an outcome' : STATES[state]}`);
  const { from, to } = calls.span;
  const [first, last] = calls.entries.length ? endsOf(calls) : [];
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
      ${whole.is === 'unproven' && html`<p class="small muted">It is unsigned how many records belong to this
        session. Its saved file shows that the log leaves out nothing between its first and its last record.</p>`}
      ${whole.notes?.map(({ says, warns }) => html`<p class="small ${warns ? 'warn-text' : 'muted'}">
        <${Text} of=${says} /></p>`)}
      <dl class="facts">
        <dt>Agent</dt><dd><a href=${href('agents', listed.agentId)}><${Text} of=${listed.agentId} /></a></dd>
        ${whole.continues && html`<dt>Goes on from</dt><dd data-continues=${visible(whole.continues.sid)}>
          <a href=${sessionHref({ agentId: listed.agentId, sid: whole.continues.sid, kind: listed.kind,
            kid: whole.continues.kid })}>session <code><${Text} of=${whole.continues.sid} /></code></a>
          <div class="small muted">key <code><${Text} of=${whole.continues.kid} /></code>, whose last statement has the
            hash <code><${Text} of=${whole.continues.hash} /></code></div></dd>`}
        <dt>Recorded by</dt><dd>${KIND_NAMES[listed.kind]}
          ${first?.said.source && html` (<${Text} of=${first.said.source} />)`}</dd>
        <dt>Time</dt><dd title=${first && `${first.record.timestamp} to ${last?.record.timestamp}`}>
          ${first ? timeText(first.record.timestamp) : 'no record is here'}
          ${to > from && html`, for ${lasted(to - from)}`}${calls.ended ? ', ended'
            : `, no end on record${isLive ? '; new records appear here' : ''}`}</dd>
        <dt>Calls</dt><dd data-calls=${n} data-denied=${ofCalls.denied ?? 0} data-failed=${ofCalls.failed ?? 0}
          data-open=${ofCalls.none ?? 0}>${count(n)}${parts.length > 0 && `: ${parts.join(', ')}`}${event > 0
            && ` · ${plural(event, 'other record')}`}</dd>
        <dt>Records</dt><dd><span data-checked=${rows.checked}>
          ${`${count(rows.checked)} of ${count(Math.max(listed.records, calls.entries.length + broken))}`} checked
          here</span></dd>
        <dt>Server claims</dt><dd class="muted">${claimOf(listed)}, ${plural(listed.records, 'record')}
          ${wrong.map((says) => html`<div class="bad-text" role="alert" data-misstated><${Text} of=${says} /></div>`)}
          </dd>
      </dl>
    </section>`;
}

/**
 * A call with its records, one of them shown.
 * @param {{call: SessionCall, index: string, onClose: () => void}} props
 */
function OpenCall({ call, index, onClose }) {
  const { key } = useSignedIn();
  const [shown, show] = useState(index);
  const entries = entriesOf(call);
  const { record } = entries.find((entry) => String(entry.record.index) === shown) ?? entries[0];
  return html`
    <${Drawer} title=${entries[0].said.tool || entries[0].record.actionType} onClose=${onClose}>
      <div class="buttons" role="group" aria-label="Records of this call">${entries.map(({ record: one }) => html`
        <button type="button" class="button small" aria-pressed=${one === record ? 'true' : 'false'}
          onClick=${() => show(String(one.index))}><${Text} of=${one.actionType} /></button>`)}
        <a class="small" href=${href('records', record.index)}>Record ${record.index} in the log</a></div>
      <${RecordView} key=${record.index} record=${record} companyKey=${key} />
    <//>`;
}

/** @param {SessionQuery} props */
export function Session({ agentId, sid, kind, kid }) {
  const { key } = useSignedIn();
  const assess = useAssess(key);
  const judge = useAgentTrust();
  const narrow = useMedia(NARROW);
  const { query } = useStore(route);
  const heading = useRef(null);
  useEffect(() => { scrollTo(0, 0); heading.current.focus(); }, []);
  const { rows, isLive } = useSession({ agentId, sid, kind, kid });
  const listed = rows?.listed;
  const { calls } = rows ?? {};
  const whole = calls && listed ? wholeOf(calls, listed, rows.done && !rows.error, rows.busy ? [] : rows.due) : null;
  const tone = calls && whole ? toneOfWhole(whole, calls.entries, assess, judge) : '';
  const span = calls?.span ?? { from: 0, to: 0 };
  const list = calls?.list ?? [];
  const open = query.record
    && list.find((call) => entriesOf(call).some(({ record }) => String(record.index) === query.record));
  /** @param {SessionCall} call */
  const linkOf = (call) => {
    const [first] = entriesOf(call);
    return first && href('sessions', sid, { ...query, record: first.record.index });
  };
  return html`
    <div class="page-head">
      <p class="small"><a href=${href('sessions')}>Sessions</a></p>
      <h1 tabindex="-1" ref=${heading}>Session <${Text} of=${sid} /></h1>
    </div>
    <div class="records session-page">
      ${rows?.error && html`<${Notice} kind="bad"
        actions=${html`<button type="button" class="button small" onClick=${() => rows.more()}>Retry</button>`}>
        ${rows.error.message}<//>`}
      <${KeyHint} keyOf=${key} />
      ${!listed && !rows?.error && html`<p class="muted" role="status">Loading …</p>`}
      ${rows && listed && whole && html`<${Summary} rows=${rows} listed=${listed} whole=${whole} tone=${tone}
        isLive=${isLive} />`}
      ${list.length > PRINTED && html`<p class="print-only small">A print has ${count(PRINTED)} calls at most, from the
        one at the top of the list on. The file of the session has all.</p>`}
      ${list.length > 0 && html`
        <div class="calls"><${VirtualList} label="Calls of this session" head=${HEADS()} count=${list.length}
          rowHeight=${narrow ? 84 : 36} scrollTo=${null}
          row=${(/** @type {number} */ i, /** @type {number} */ tab) =>
            cells({ call: list[i], link: linkOf(list[i]), tab, span, ended: calls?.ended ?? false, assess, judge })}
          propsOf=${(/** @type {number} */ i) => {
            const { tone } = verdictOf(list[i], assess);
            return {
              class: `vlist-row call-${stateOf(list[i])} ${tone === 'bad' ? 'bad' : ''}`,
              'data-call': i,
              'data-state': stateOf(list[i]),
              'data-check': tone,
            };
          }} /></div>`}
    </div>
    ${open && html`<${OpenCall} call=${open} index=${query.record}
      onClose=${() => go('sessions', sid, { ...query, record: '' })} />`}`;
}

