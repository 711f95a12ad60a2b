// @ts-check
// What the first page says to who is signed in: the last day in one sentence, what went wrong in
// it, who acted when, and what was changed last. Each part leads to the rows behind it.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../vendor/preact-htm.js';
import { HOURS, shadeOf } from '../core/attention.js';
import { sentenceOf } from '../core/call_words.js';
import { sentenceOfDay } from '../core/day.js';
import { findings } from '../core/findings.js';
import { bare, count, plural, timeText } from '../core/format.js';
import { reconnect } from '../core/live.js';
import { live } from '../core/live_state.js';
import { readOverview } from '../core/overview.js';
import { href } from '../core/router.js';
import { signedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { times, zoneOf } from '../core/times.js';
import { visible } from '../lib/visible.js';
import { Failure, useTask } from './basic.js';
import { Change } from './change.js';
import { Incidents } from './incidents.js';
import { useAssess } from './key_trust.js';
import { lazy } from './lazy.js';
import { sessionHref } from './session_table.js';
import { Text, withText } from './text.js';

const DemoWeek = lazy('', () => import('./demo_week.js').then((m) => m.DemoWeek));

/**
 * The payload of what is no call is JSON, which is for the record's own page.
 * @param {{of: CallWords | undefined}} props
 */
const Last = ({ of }) => of && html`<${Text} of=${of.what.startsWith('{') ? of.tool : sentenceOf(of)} />`;

/**
 * The hour that begins at a time, in the shown zone: 05, or 05:30 where that is no full hour.
 * @param {string} timestamp
 */
const hourOf = (timestamp) => bare(timestamp, 16).slice(11).replace(/:00$/, '');

/**
 * A box that scrolls sideways and is first shown with its end, where what is newest stands.
 * @param {{label: string, children?: Child}} props
 */
function FromTheEnd({ label, children }) {
  const box = useRef(null);
  useLayoutEffect(() => { box.current.scrollLeft = box.current.scrollWidth; }, []);
  return html`<div class="heat-scroll" tabindex="0" role="group" aria-label=${label} ref=${box}>${children}</div>`;
}

/** @param {{of: Overview}} props */
function Agents({ of: { activity, denied, lastActions, keyStates } }) {
  const { buckets, topAgents, agents, total, until } = activity;
  /**
   * @param {string} agentId
   * @param {number} i
   */
  const deniedIn = (agentId, i) => denied.times
    .filter((one) => one.agentId === agentId && one.at >= buckets[i].since && one.at < end(i)).length;
  const most = Math.max(1, ...topAgents.flatMap(({ counts }) => counts));
  /** @param {number} i */
  const end = (i) => buckets[i + 1]?.since ?? until;
  const others = agents - topAgents.length;
  return html`
    <section class="card" aria-label="Activity" data-activity=${total}>
      <div class="card-head"><h2>Agents</h2>
        <span class="small muted">${plural(total, 'record')} of ${plural(agents, 'agent')} in ${HOURS} hours, by hour
        (${zoneOf(new Date(until))})</span></div>
      ${topAgents.length === 0 && html`<p class="muted">No agent has acted in this time.</p>`}
      ${topAgents.length > 0 && html`
        <${FromTheEnd} label="Records by agent and hour">
        <table class="heat">
          <thead><tr><th>Agent</th>${buckets.map(({ since }, i) => html`
            <th scope="col"><span class=${i % 6 ? 'visually-hidden' : ''}>${hourOf(since)}</span></th>`)}
            <th scope="col" class="number">Records</th><th scope="col">Key</th>
            <th scope="col">Last action</th></tr></thead>
          <tbody>${topAgents.map(({ agentId, total: sum, counts }) => html`
            <tr key=${agentId} data-agent=${visible(agentId)}>
              <th scope="row"><a href=${href('agents', agentId)}><${Text} of=${agentId} /></a></th>
              ${counts.map((n, i) => {
                const { since } = buckets[i];
                const refused = deniedIn(agentId, i);
                return html`
                  <td class="shade-${shadeOf(n, most)} ${refused ? 'denied' : ''}"
                    title="${bare(since, 16)} ${zoneOf(new Date(since))}: ${plural(n, 'record')}${
                      refused ? `, ${count(refused)} denied` : ''}">
                    ${n > 0 && html`<a tabindex="-1"
                      href=${href('records', '', { agent: agentId, since, until: end(i) })}>
                      <span class="visually-hidden">${count(n)}</span></a>`}</td>`;
              })}
              <td class="number"><a href=${href('records', '', { agent: agentId, last: '24h' })}>${count(sum)}</a></td>
              <td class="heat-key">${keyStates.get(agentId)}</td>
              <td class="heat-last"><${Last} of=${lastActions.get(agentId)} /></td>
            </tr>`)}</tbody>
        </table><//>`}
      ${others > 0 && html`<p class="small muted">${plural(others, 'more agent')} with fewer records.</p>`}
    </section>`;
}

/** @param {{of: Overview, companyKey: CompanyKey}} props */
function Newest({ of: { changes, sessions }, companyKey }) {
  const assess = useAssess(companyKey);
  return html`
    <section class="card" aria-label="Newest changes">
      <div class="card-head"><h2>Permission changes</h2><a href=${href('control')}>All</a></div>
      <ul class="change-list">${changes.map((change) => html`
        <${Change} key=${change.record.index} change=${change} assess=${assess} />`)}</ul>
    </section>
    <section class="card" aria-label="Newest sessions">
      <div class="card-head"><h2>Newest sessions</h2><a href=${href('sessions')}>All</a></div>
      ${sessions.length === 0 && html`<p class="muted">No session is on record.</p>`}
      <ul class="attention">${sessions.map((session) => html`
        <li key=${sessionHref(session)}><a href=${sessionHref(session)}><${Text} of=${session.sid} /></a> of
          ${' '}<${Text} of=${session.agentId} />, since ${timeText(session.firstAt, 16)}</li>`)}</ul>
    </section>`;
}

/**
 * children: what is shown while the company has no records yet.
 * @param {{companyKey: CompanyKey, children?: Child}} props
 */
export function Overview({ companyKey, children }) {
  const [found, setFound] = useState(/** @type {Overview | null} */ (null));
  const { zone } = useStore(times); // its hours may begin at other minutes
  const { problem } = useStore(live);
  const [run, busy, error] = useTask();
  const assess = useAssess(companyKey);
  const wrong = useStore(findings).all.filter(({ companyId }) => companyId === companyKey.companyId);
  const load = () => run(async () => setFound(await readOverview(Date.now())));
  useEffect(() => { load(); }, [companyKey.fingerprint, zone]);
  const again = () => {
    reconnect();
    load();
  };
  const since = error || !found ? '' : found.intactSince;
  return html`
    <div class="page-head overview-head">
      <h1 tabindex="-1" class=${wrong.length ? 'bad-text' : ''} data-day>${found
        ? withText(sentenceOfDay(found, wrong, since)) : 'The last 24 hours'}</h1>
      <button type="button" class="button small" disabled=${busy} onClick=${load}>Refresh</button>
    </div>
    <${Failure} error=${problem ? { message: `The log cannot be read: ${problem}` } : error} retry=${again} />
    <div class="overview" data-overview=${found ? 'ready' : 'loading'}>
      ${found && html`
        ${found.activity.total === 0 && found.sessions.length === 0 && children}
        <div class="stack"><${Incidents} of=${found} found=${wrong} assess=${assess} /><${Agents} of=${found} /></div>
        <div class="stack"><${Newest} of=${found} companyKey=${companyKey} /></div>
        ${signedIn().company.metadata?.demo && html`<${DemoWeek} companyKey=${companyKey} />`}`}
    </div>`;
}
