// @ts-check
// One session: its calls with what was asked and what came of it side by side, when, for how long,
// and who signed it. Each record is checked here, and so is the whole, as far as that can be.
import { html, useEffect, useReducer, useRef, useState } from '../vendor/preact-htm.js';
import { bare, count, lasted, timeText } from '../core/format.js';
import { live } from '../core/live_state.js';
import { verdictOn } from '../core/pruned.js';
import { go, href, route } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { entriesOf, nameOf, stateOf, strangerTo, timesOf, wholeOf } from '../core/session_calls.js';
import { SessionRows } from '../core/session_rows.js';
import { pauseText, storyOf } from '../core/session_story.js';
import { toneOfSession } from '../core/session_tone.js';
import { useStore } from '../core/store.js';
import { zoneOf } from '../core/times.js';
import { isPlain, toneOfSet } from '../core/verdict.js';
import { table } from '../lib/table.js';
import { visible } from '../lib/visible.js';
import { Icon, Notice } from '../parts/basic.js';
import { Asked, Outcome } from '../parts/call_line.js';
import { DecisionWord } from '../parts/decision.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { useMedia } from '../parts/media.js';
import { withText } from '../parts/text.js';
import { PRINTED, VirtualList } from '../parts/virtual_list.js';
import { WordIcon, useAgentTrust } from '../parts/word.js';
import { OpenCall } from './session_call.js';
import { Heading, Summary } from './session_summary.js';

const NARROW = matchMedia('(max-width: 48rem)');
const WIDE = matchMedia('(min-width: 75rem)'); // the call that is open has room beside the list

/** @type {Record<string, string>} */
const STATES = table({
  completed: 'completed', failed: 'failed', denied: 'denied', ended: 'ended, outcome unknown',
  pending: 'waits for input, or goes on as a task', none: 'no outcome on record',
});

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
const verdictOfRow = (row, assess) => (row.check ? verdictOn(assess, row.index, row.check) : null);

/**
 * The verdict on a call: the worst of its records. plain: that there is nothing to be marked.
 * @param {SessionCall} call
 * @param {Assess} assess
 */
function verdictOf(call, assess) {
  const rows = call.broken ? [call.broken] : entriesOf(call).map(({ row }) => row);
  const verdicts = rows.map((row) => verdictOfRow(row, assess));
  const tone = toneOfSet(verdicts.map((verdict) => verdict?.tone ?? ''));
  const failed = rows.find((row) => row.check && !row.check.ok);
  const says = failed?.check ? visible(failed.check.reason)
    : rows.some((row) => !row.check) ? 'not verified yet'
      : tone === 'bad' ? 'signed by another key than the confirmed one, or failed before'
        : `checked${tone === 'warn' ? ', with a key not confirmed or with a finding' : ''}`;
  return { tone, says, plain: verdicts.every((verdict) => verdict && isPlain(verdict)) };
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
    const verdict = verdictOn(assess, row.index, row.check);
    return [verdict.tone, ...(row.word && is === 'complete' ? [judge(row.word, verdict).tone] : [])];
  });
  return toneOfSession(is, tones);
}

const HEADS = () =>
  ['Verdict', `Time (${zoneOf()})`, 'Tool', 'Asked', 'Decision', 'Outcome', 'When', 'Duration'].map((name, i) => html`
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
 * @param {{call: SessionCall, link?: string, tab: number, span: {from: number, to: number},
 *   ended: boolean, assess: Assess, judge: JudgeWord}} of
 */
function cells({ call, link, tab, span, ended, assess, judge }) {
  const { asked, pending, outcome, event, broken, note } = call;
  const { tone, says, plain } = verdictOf(call, assess);
  const state = stateOf(call);
  const first = asked ?? event ?? outcome ?? pending;
  const { ms } = timesOf(call);
  /** @param {SessionEntry | null} entry */
  const word = (entry) => entry?.row.word
    && html`<${WordIcon} word=${entry.row.word} record=${verdictOn(assess, entry.row.index, { ok: true })}
      judge=${judge} /> `;
  /**
   * @param {string} name
   * @param {Child} content
   * @param {string} [title]
   */
  const cell = (name, content, title) =>
    html`<span role="gridcell" class="call-${name}" title=${title}>${content}</span>`;
  const title = first ? nameOf(first) : 'no record';
  const delegation = first?.record.delegation;
  const came = outcome ?? pending;
  return html`
    <span role="gridcell" class="row-verdict ${tone}" title=${says}>
      ${plain ? '' : tone ? html`<${Icon} name=${tone} />` : html`<span class="dot"></span>`}
      <span class="visually-hidden">${says}</span></span>
    ${cell('time', first ? bare(first.record.timestamp, 23).slice(11) : '?', first
      ? `${timeText(first.record.timestamp, 23)}, recorded as ${first.record.timestamp}` : undefined)}
    <span role="gridcell" class="call-what">
      <a class="row-link" href=${link} tabindex=${tab}>${withText(title)}</a>
      ${delegation && html` <span class="muted" title=${visible(`by delegation of ${delegation.subject}`)}>
        <span aria-hidden="true">↪</span><span class="visually-hidden">delegated by
        ${visible(delegation.subject)}</span></span>`}</span>
    ${cell('asked', broken ? html`<span class="bad-text">${says}</span>`
      : event || asked ? html`${word(event ?? asked)}${(event ?? asked)?.words.what
        ? html`<${Asked} words=${(event ?? asked)?.words} />` : asked && html`<span class="muted">no input</span>`}`
        : html`<span class="muted">not on record</span>`, visible((event ?? asked)?.words.what ?? ''))}
    ${cell('decision', broken || event ? ''
      : asked?.record.decision ? html`<${DecisionWord} of=${asked.record.decision} />`
        : html`<span class="muted">–</span>`)}
    ${cell('outcome', event ? html`${event.words.outcome && html`<${Outcome} is=${event.words.outcome} /> `}
      <span class="call-why">${withText(event.words.why || event.words.output)}</span>` : !broken && html`
      ${word(came)}<${Outcome} is=${state} says=${state === 'none' && !ended ? 'no outcome yet' : STATES[state]} />
      ${' '}${came && html`<span class=${came.words.why ? 'call-why' : 'call-output'}>
        ${withText(came.words.why || came.words.output)}</span>`}${note && html`${' '}<em>${note}</em>`}`,
    visible(came?.words.why ?? ''))}
    ${cell('fall', html`<${Bar} call=${call} span=${span} />`)}
    ${cell('lasted', ms === null ? '' : lasted(ms))}`;
}

/**
 * The time in which nothing ran, as a row of its own, which leads to the call after it.
 * @param {number} ms
 * @param {string | undefined} link
 * @param {number} tab
 */
const pauseCell = (ms, link, tab) => html`
  <span role="gridcell" class="call-pause">
    <a class="row-link" href=${link} tabindex=${tab}>${pauseText(ms)}</a></span>`;

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
  const tone = calls && whole ? toneOfWhole(whole, [...calls.pruned, ...calls.entries], assess, judge) : '';
  const span = calls?.span ?? { from: 0, to: 0 };
  const list = calls?.list ?? [];
  const open = query.record
    && list.find((call) => entriesOf(call).some(({ record }) => String(record.index) === query.record));
  /** @param {SessionCall} [call] */
  const linkOf = (call) => {
    const [first] = call ? entriesOf(call) : [];
    return first && href('sessions', sid, { ...query, record: first.record.index });
  };
  const close = () => go('sessions', sid, { ...query, record: '' });
  const wide = useMedia(WIDE);
  const story = storyOf(list);
  const [target, setTarget] = useState(/** @type {{row: number, focus: boolean} | null} */ (null));
  useEffect(() => {
    if (open) setTarget({ row: story.findIndex(({ call }) => call === open), focus: false });
  }, [Boolean(open)]); // the address named it, or it was chosen in view
  return html`
    <${Heading} calls=${calls} sid=${sid} heading=${heading} />
    <div class="records session-page">
      ${rows?.error && html`<${Notice} kind="bad"
        actions=${html`<button type="button" class="button small" onClick=${() => rows.more()}>Retry</button>`}>
        ${rows.error.message}<//>`}
      <${KeyHint} keyOf=${key} />
      ${!listed && !rows?.error && html`<p class="muted" role="status">Loading …</p>`}
      ${rows && listed && whole && html`<${Summary} rows=${rows} listed=${listed} whole=${whole} tone=${tone}
        linkOf=${linkOf} isLive=${isLive} />`}
      ${list.length > PRINTED && html`<p class="print-only small">A print has ${count(PRINTED)} calls at most, from the
        one at the top of the list on. The file of the session has all.</p>`}
      ${list.length > 0 && html`
        <div class="session-body ${open && wide ? 'with-call' : ''}">
          <div class="calls"><${VirtualList} label="Calls of this session" head=${HEADS()} count=${story.length}
            rowHeight=${narrow ? 84 : 36} scrollTo=${target}
            row=${(/** @type {number} */ i, /** @type {number} */ tab) => {
              const { call, pause, at } = story[i];
              if (!call) return pauseCell(pause, linkOf(list[at]), tab);
              return cells({ call, link: linkOf(call), tab, span, ended: calls?.ended ?? false, assess, judge });
            }}
            propsOf=${(/** @type {number} */ i) => {
              const { call, pause, at } = story[i];
              if (!call) return { class: 'vlist-row pause-row', 'data-pause': pause };
              const { tone } = verdictOf(call, assess);
              return {
                class: `vlist-row call-${stateOf(call)} ${tone === 'bad' ? 'bad' : ''}`,
                'aria-selected': call === open ? 'true' : 'false',
                'data-call': at,
                'data-state': stateOf(call),
                'data-check': tone,
              };
            }} /></div>
          ${open && wide && html`<${OpenCall} key=${query.record} call=${open} index=${query.record} wide
            onClose=${close} />`}
        </div>`}
    </div>
    ${open && !wide && html`<${OpenCall} call=${open} index=${query.record} onClose=${close} />`}`;
}
