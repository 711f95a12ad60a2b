// @ts-check
// What the first page says to who is signed in: what needs a look, who acted when, and what was
// changed last. Each part leads to the rows behind it.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../vendor/preact-htm.js';
import { HOURS, shadeOf } from '../core/attention.js';
import { bare, count, plural, timeText } from '../core/format.js';
import { reconnect } from '../core/live.js';
import { live, toneOfLive } from '../core/live_state.js';
import { readOverview } from '../core/overview.js';
import { href } from '../core/router.js';
import { signedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { times, zoneOf } from '../core/times.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, useTask } from './basic.js';
import { Change } from './change.js';
import { useAssess } from './key_trust.js';
import { lazy } from './lazy.js';
import { sessionHref } from './session_table.js';
import { Text } from './text.js';

const DemoWeek = lazy('', () => import('./demo_week.js').then((m) => m.DemoWeek));

/** @param {{companyKey: CompanyKey}} props */
function Checked({ companyKey }) {
  const state = useStore(live);
  const tone = toneOfLive(state, useAssess(companyKey));
  const { range, server, problem } = state;
  const checked = range ? range.to - range.from : 0;
  const unread = problem
    && html`<${Failure} error=${{ message: `The log cannot be read: ${problem}` }} retry=${reconnect} />`;
  if (!checked && (unread || !server))
    return html`<div data-checked="none">${unread || html`<p class="muted">${state.connection === 'retrying'
      ? 'There is no connection to the log.' : 'The log has not been read yet.'}</p>`}</div>`;
  return html`
    ${unread}
    <p data-checked=${tone || 'none'}>
      <${Badge} tone=${tone}>${count(checked)} of ${count(Math.max(server?.length ?? 0, range?.to ?? 0))} records<//>
      ${' '}checked in this page. ${!state.whole && html`<a href=${href('verify')}>Verify the whole log</a>`}</p>`;
}

/** @param {{of: Awaited<ReturnType<typeof readOverview>>}} props */
function Attention({ of: { attention, limited } }) {
  const due = attention.filter(({ ordinary }) => !ordinary);
  const ordinary = attention.filter((one) => one.ordinary);
  return html`
    <section class="card across" aria-label="Needs a look" data-attention=${due.length}>
      <h2>Needs a look</h2>
      ${due.length === 0 && html`<p class="muted">Nothing, by what this server says of the last day.</p>`}
      <ul class="attention">${due.map(({ words, page, argument, query }) => html`
        <li key=${words}><a href=${href(page, argument, query)}>${words}</a></li>`)}</ul>
      ${ordinary.length > 0 && html`<p class="small muted">Also in the last day:${ordinary.map(
        ({ words, page, argument, query }, i) => html`${i > 0 && ','}
        ${' '}<a key=${words} href=${href(page, argument, query)}>${words}</a>`)}.</p>`}
      ${limited && html`<p class="small muted">Keys, webhooks and federations are shown to an admin.</p>`}
    </section>`;
}

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

/** @param {{of: Awaited<ReturnType<typeof readOverview>>['activity']}} props */
function HeatMap({ of: { buckets, topAgents, agents, total, until } }) {
  const most = Math.max(1, ...topAgents.flatMap(({ counts }) => counts));
  /** @param {number} i */
  const end = (i) => buckets[i + 1]?.since ?? until;
  const others = agents - topAgents.length;
  return html`
    <section class="card across" aria-label="Activity" data-activity=${total}>
      <div class="card-head"><h2>The last ${HOURS} hours</h2>
        <span class="small muted">${plural(total, 'record')} of ${plural(agents, 'agent')}, by hour
        (${zoneOf(new Date(until))})</span></div>
      ${topAgents.length === 0 && html`<p class="muted">No agent has acted in this time.</p>`}
      ${topAgents.length > 0 && html`
        <${FromTheEnd} label="Records by agent and hour">
        <table class="heat">
          <thead><tr><th>Agent</th>${buckets.map(({ since }, i) => html`
            <th scope="col"><span class=${i % 6 ? 'visually-hidden' : ''}>${hourOf(since)}</span></th>`)}
            <th scope="col" class="number">Records</th></tr></thead>
          <tbody>${topAgents.map(({ agentId, total: sum, counts }) => html`
            <tr key=${agentId} data-agent=${visible(agentId)}>
              <th scope="row"><a href=${href('agents', agentId)}><${Text} of=${agentId} /></a></th>
              ${counts.map((n, i) => html`
                <td class="shade-${shadeOf(n, most)}"
                  title="${bare(buckets[i].since, 16)} ${zoneOf(new Date(buckets[i].since))}: ${plural(n, 'record')}">
                  ${n > 0 && html`<a tabindex="-1"
                    href=${href('records', '', { agent: agentId, since: buckets[i].since, until: end(i) })}>
                    <span class="visually-hidden">${count(n)}</span></a>`}</td>`)}
              <td class="number"><a href=${href('records', '', { agent: agentId, last: '24h' })}>${count(sum)}</a></td>
            </tr>`)}</tbody>
        </table><//>`}
      ${others > 0 && html`<p class="small muted">${plural(others, 'more agent')} with fewer records.</p>`}
    </section>`;
}

/** @param {{of: Awaited<ReturnType<typeof readOverview>>, companyKey: CompanyKey}} props */
function Newest({ of: { changes, sessions }, companyKey }) {
  const assess = useAssess(companyKey);
  return html`
    <section class="card" aria-label="Newest changes">
      <div class="card-head"><h2>Newest permission changes</h2><a href=${href('control')}>All</a></div>
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

/** @param {{companyKey: CompanyKey}} props */
export function Overview({ companyKey }) {
  const [found, setFound] = useState(/** @type {Awaited<ReturnType<typeof readOverview>> | null} */ (null));
  const { zone } = useStore(times); // its hours may begin at other minutes
  const [run, busy, error, retry] = useTask();
  const load = () => run(async () => setFound(await readOverview(Date.now())));
  useEffect(() => { load(); }, [companyKey.fingerprint, zone]);
  return html`
    <div class="overview" data-overview=${found ? 'ready' : 'loading'}>
      <div class="card-head across"><${Checked} companyKey=${companyKey} />
        <button type="button" class="button small" disabled=${busy} onClick=${load}>Refresh</button></div>
      <${Failure} error=${error} retry=${retry} />
      ${found && html`
        <${Attention} of=${found} />
        ${signedIn().company.metadata?.demo && html`<${DemoWeek} companyKey=${companyKey} />`}
        <${HeatMap} of=${found.activity} />
        <${Newest} of=${found} companyKey=${companyKey} />`}
    </div>`;
}
