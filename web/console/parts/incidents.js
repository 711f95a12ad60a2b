// @ts-check
// What went wrong in the last day, the worst first: what was found about the log, refused calls
// that ran all the same, calls that were denied or failed, and what else needs a look.
import { html } from '../vendor/preact-htm.js';
import { bare, count, timeText } from '../core/format.js';
import { titleOf } from '../core/finding_words.js';
import { verdictOn } from '../core/pruned.js';
import { href } from '../core/router.js';
import { zoneOf } from '../core/times.js';
import { having, integer, string } from '../lib/form.js';
import { visible } from '../lib/visible.js';
import { Asked } from './call_line.js';
import { RowMark } from './row_mark.js';
import { sessionHref } from './session_table.js';
import { Text } from './text.js';

const disobeyedForm = having({ agentId: string, tool: string, done: integer });

/**
 * The time of day, after the day where it is not today.
 * @param {string} at
 */
function clockOf(at) {
  const [day, time] = bare(at, 16).split(' ');
  return bare(new Date().toISOString(), 10) === day ? time : `${day.slice(5)} ${time}`;
}

/**
 * A line: what kind it is, of which agent, what, when, and the way to it where go names one.
 * @param {{kind: string, word: Child, agentId?: string, at?: string, to?: string, go?: string,
 *   children?: Child}} props
 */
const Line = ({ kind, word, agentId, at, to, go, children }) => html`
  <li class="incident" data-incident=${kind}>
    <span class="incident-word">${word}</span>
    <span class="incident-agent">${agentId
      && html`<a href=${href('agents', agentId)}><${Text} of=${agentId} /></a>`}</span>
    <span class="incident-what">${children}</span>
    <span class="incident-at" title=${at && timeText(at)}>${at && clockOf(at)}</span>
    ${go && html`<a class="incident-go" href=${to}>${go}</a>`}
  </li>`;

/** @param {{of: Incident, kind: string, assess: Assess}} props */
function Call({ of, kind, assess }) {
  const { index, at, agentId, words, session } = of;
  const { tool, what, why } = words;
  return html`
    <${Line} kind=${kind} word=${kind} agentId=${agentId} at=${at} go="Show the call"
      to=${session ? sessionHref(session, index) : href('records', index)}>
      <strong><${Text} of=${tool} /></strong> ${what && html`<${Asked} words=${words} />`}${why
        && html` <span class="muted">→ <${Text} of=${why} /></span>`}
      <${RowMark} of=${verdictOn(assess, index, of)} /><//>`;
}

/** @param {{change: ControlChange, assess: Assess}} props */
function Disobeyed({ change: { record: { inner, source, index, timestamp }, ok }, assess }) {
  const mark = html`<${RowMark} of=${assess(ok, { log: 'control', index })} />`;
  let said;
  try {
    said = disobeyedForm(inner, source, 'it');
  } catch {
    return html`<${Line} kind="disobeyed" word="disobeyed" at=${timestamp} to=${href('control', index)}
      go="Show the record">a refused call ran ${mark}<//>`;
  }
  return html`
    <${Line} kind="disobeyed" word="disobeyed" agentId=${said.agentId} at=${timestamp} to=${href('records', said.done)}
      go="Show the call"><strong><${Text} of=${said.tool} /></strong> was refused, and ran all the same ${mark}<//>`;
}

const SHOWN = 4; // calls of a kind

/**
 * @param {{of: Overview, found: Finding[], assess: Assess}} props
 */
export function Incidents({ of, found, assess }) {
  const { attention, decided, denied, failed, disobeyed, limited } = of;
  /** @param {number} n */
  const more = (n) => Math.max(0, n - SHOWN);
  const refused = decided.deny + decided.ask;
  const none = !found.length && !attention.length && !disobeyed.length && !refused && !denied.total && !failed.total;
  return html`
    <section class="card" aria-label="Incidents" data-attention=${attention.length + disobeyed.length}>
      <div class="card-head"><h2>Incidents of the last 24 hours</h2>
        <span class="small muted">times in ${zoneOf()}</span></div>
      ${none && html`<p class="muted">None, according to this server.</p>`}
      <ul class="incidents">
        ${found.map((one) => html`<${Line} key=${one.kind} kind="log" word="log" at=${one.found} to=${href('verify')}
          go="What was found">${visible(titleOf(one))}<//>`)}
        ${disobeyed.slice(0, SHOWN).map((change) => html`
          <${Disobeyed} key=${change.record.index} change=${change} assess=${assess} />`)}
        ${denied.shown.slice(0, SHOWN).map((one) => html`<${Call} key=${one.index} of=${one} kind="denied"
          assess=${assess} />`)}
        ${failed.shown.slice(0, SHOWN).map((one) => html`<${Call} key=${one.index} of=${one} kind="failed"
          assess=${assess} />`)}
        ${attention.map(({ words, page, argument, query }) => html`
          <${Line} key=${words} kind="service" word="service"><a href=${href(page, argument, query)}>${words}</a><//>`)}
      </ul>
      <p class="small muted incident-more">
        ${more(disobeyed.length) > 0 && html`<a href=${href('control', '', { kind: 'call.disobeyed' })}>
          ${count(more(disobeyed.length))} more disobeyed</a> `}
        ${decided.deny > 0 && html`<a href=${href('records', '', { decision: 'deny', last: '24h' })}>
          ${count(decided.deny)} denied by the service</a> `}
        ${decided.ask > 0 && html`<a href=${href('records', '', { decision: 'ask', last: '24h' })}>
          ${count(decided.ask)} without an approval</a> `}
        ${more(denied.total) > 0 && html`<a href=${href('records', '', { action: 'tool.denied', last: '24h' })}>
          ${count(more(denied.total))} more denied</a> `}
        ${more(failed.total) > 0 && html`<a href=${href('records', '', { action: 'tool.failed', last: '24h' })}>
          ${count(more(failed.total))} more failed</a> `}
        ${limited && 'Keys, webhooks and federations are shown to an admin.'}</p>
    </section>`;
}
