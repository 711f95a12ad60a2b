// @ts-check
// A list of sessions, as the server claims it. Each leads to its page.
import { html } from '../vendor/preact-htm.js';
import { bare, count, plural, short, timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { toneOfSession } from '../core/session_tone.js';
import { KIND_NAMES } from '../core/sessions.js';
import { zoneOf } from '../core/times.js';
import { disobeyedText } from '../lib/calls.js';
import { table } from '../lib/table.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure } from './basic.js';
import { SaveSession } from './session_file.js';
import { useMedia } from './media.js';
import { Text, withText } from './text.js';
import { VirtualList } from './virtual_list.js';

const SHOWN = 10; // ranges that are missing
const LONG = 100; // sessions beyond which a list is virtual
const NARROW = matchMedia('(max-width: 48rem)');
/**
 * What the server calls the states of a session; nothing is green for its word.
 * @type {Record<string, SessionWhole['is']>}
 */
const STATES = table({ gap: 'missing', broken: 'fails', disobeyed: 'disobeyed' });

/** @param {ListedSession} session */
const missingOf = ({ missing }) =>
  missing.slice(0, SHOWN).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(', ') +
  (missing.length > SHOWN ? ' and more' : '');

/**
 * The page of a session, with one of its records open where it is named.
 * @param {SessionName} session
 * @param {number} [record]
 */
export const sessionHref = ({ agentId, sid, kind, kid }, record) =>
  href('sessions', sid, { agent: agentId, kind, kid, record });

/**
 * What the server says of a session, in few words.
 * @param {ListedSession} session
 * @returns {string}
 */
export function claimOf(session) {
  const { state, completeness, disobeyed = [], ...rest } = session;
  if (state === 'disobeyed' && completeness)
    return `disobeyed: ${disobeyedText(disobeyed)}; ${claimOf({ ...rest, state: completeness })}`;
  const { last, ended, pruned } = session;
  if (state === 'gap') return `missing ${missingOf(session)}`;
  if (state === 'broken') return 'broken: its statements contradict one another';
  if (state === 'open') return `open at ${last}`;
  if (state === 'pruned') return 'payloads pruned';
  return state === 'unproven'
    ? `unproven, ${pruned ? `payloads pruned${ended ? ', ended' : ''}` : ended ? 'ended' : 'no end on record'}` : state;
}

/** @param {{session: ListedSession, companyKey: ServiceKey, withAgent?: boolean}} props */
function Line({ session: s, companyKey, withAgent }) {
  return html`
    <tr data-session=${visible(s.sid)} data-state=${s.state} data-kind=${s.kind}>
      <td data-label="Session"><a href=${sessionHref(s)}><code><${Text} of=${s.sid} /></code></a>
        <div class="small muted">${KIND_NAMES[s.kind]}${s.source && s.source !== s.kind
          && html` · <${Text} of=${s.source} />`}</div>
        ${s.kid && html`<div class="small muted" title=${visible(s.kid)}>key ${visible(short(s.kid, 8, 4))}</div>`}</td>
      ${withAgent && html`<td data-label="Agent">
        <a href=${href('agents', s.agentId)}><${Text} of=${s.agentId} /></a></td>`}
      <td data-label="State"><${Badge} tone=${toneOfSession(STATES[s.state] ?? 'unproven', [])}>${claimOf(s)}<//></td>
      <td data-label="Records">${count(s.records)}</td>
      <td data-label="Time" title="${s.firstAt} to ${s.lastAt}">${timeText(s.firstAt)}
        <div class="small muted">to ${timeText(s.lastAt)}</div></td>
      <td><${SaveSession} session=${s} companyKey=${companyKey} /></td>
    </tr>`;
}

const AHEAD = 20; // rows before the end of those that were read, at which more are read

const heads = (/** @type {boolean | undefined} */ withAgent) => [
  'Session', ...(withAgent ? ['Agent'] : []), 'State', 'Records', `Time (${zoneOf()})`,
].map((name) => html`<span role="columnheader">${name}</span>`);

/**
 * A list of which only the rows in view exist, and which is read on as it is scrolled.
 * @param {{items: ListedSession[], withAgent?: boolean, onEnd: () => void}} props
 */
function LongList({ items, withAgent, onEnd }) {
  const narrow = useMedia(NARROW);
  return html`
    <div class="long-sessions ${withAgent ? 'with-agent' : ''}"><${VirtualList} label="Sessions"
      head=${heads(withAgent)} count=${items.length} rowHeight=${narrow ? 84 : 36} scrollTo=${null}
      row=${(/** @type {number} */ i, /** @type {number} */ tab) => {
        const s = items[i];
        const source = s.source && s.source !== s.kind ? ` · ${s.source}` : '';
        return html`
          <span role="gridcell" class="session-id"><a class="row-link" href=${sessionHref(s)} tabindex=${tab}>
            <code>${withText(s.sid)}</code></a>
            <span class="small muted"> ${withText(KIND_NAMES[s.kind] + source)}</span></span>
          ${withAgent && html`<span role="gridcell" class="session-agent">${withText(s.agentId)}</span>`}
          <span role="gridcell" class="session-state">
            <${Badge} tone=${toneOfSession(STATES[s.state] ?? 'unproven', [])}>${claimOf(s)}<//></span>
          <span role="gridcell" class="session-records">${count(s.records)}</span>
          <span role="gridcell" class="session-time" title=${`${s.firstAt} to ${s.lastAt}`}>${bare(s.firstAt)}</span>`;
      }}
      propsOf=${(/** @type {number} */ i) => ({
        class: 'vlist-row', 'data-session': visible(items[i].sid), 'data-state': items[i].state,
        'data-kind': items[i].kind,
      })}
      onView=${(/** @type {number} */ first, /** @type {number} */ last) => last > items.length - AHEAD && onEnd()} />
    </div>`;
}

/**
 * paged: as of usePaged. none: the text where there is none.
 * @param {{paged: Paged<ListedSession>, companyKey: ServiceKey, withAgent?: boolean,
 *   none: string}} props
 */
export function SessionTable({ paged: { items, more, retry, hasMore, busy, error }, companyKey, withAgent, none }) {
  if (items && items.length > LONG)
    return html`<${Failure} error=${error} retry=${retry} />
      <${LongList} items=${items} withAgent=${withAgent}
        onEnd=${() => hasMore && !busy && !error && more()} />
      <p class="small muted" role="status">${plural(items.length, 'session')}${hasMore ? ' so far' : ''}</p>`;
  return html`
    <${Failure} error=${error} retry=${retry} />
    ${items?.length === 0 && !hasMore && html`<p class="empty">${none}</p>`}
    ${items && items.length > 0 && html`
      <table class="table passports sessions">
        <thead><tr><th>Session</th>${withAgent && html`<th>Agent</th>`}<th>State</th><th>Records</th><th>Time</th>
          <th><span class="visually-hidden">File</span></th></tr></thead>
        <tbody>${items.map((s) => html`<${Line} key=${`${s.agentId} ${s.kind} ${s.kid} ${s.sid}`} session=${s}
          companyKey=${companyKey} withAgent=${withAgent} />`)}</tbody>
      </table>`}
    ${hasMore && html`<div class="buttons"><button type="button" class="button" disabled=${busy} onClick=${more}>
      Show more</button><span class="small muted">${plural(items?.length ?? 0, 'session')} so far</span></div>`}`;
}
