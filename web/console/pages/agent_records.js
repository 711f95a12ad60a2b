// @ts-check
// What an agent did: how much and when, its newest records, and who acted for whom in its
// delegations. All records are checked here.
import { html, useEffect, useMemo, useState } from '../vendor/preact-htm.js';
import { activityOf, delegationsOf, newest } from '../core/agent_records.js';
import { count, timeText, plural } from '../core/format.js';
import { hasFailed, verdictOn } from '../core/pruned.js';
import { href } from '../core/router.js';
import { useStore } from '../core/store.js';
import { times } from '../core/times.js';
import { toneOfSet } from '../core/verdict.js';
import { graphOf } from '../lib/delegations.js';
import { Badge, Failure, Notice, useTask } from '../parts/basic.js';
import { Bars } from '../parts/chart.js';
import { DelegationPicture } from '../parts/delegation_picture.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { Unsearched } from '../parts/pruned.js';
import { RowMark } from '../parts/row_mark.js';
import { Text } from '../parts/text.js';
import { WordOf } from '../parts/word.js';

const LATEST = 8;
const BUCKETS = 48;
const DRAWN = [500, 5000]; // records that the picture is drawn from, at first and when asked for more

/**
 * The newest records of an agent; onWhy(index) is asked why one was allowed.
 * @param {{agent: {agentId: string}, companyKey: NamedKey, onFound: (records: LogRecord[]) =>
 *   void}} props
 */
export function LatestRecords({ agent, companyKey, onFound }) {
  const assess = useAssess(companyKey);
  const [state, setState] = useState(
    /** @type {Awaited<ReturnType<typeof newest>> & {activity: Buckets} | null} */ (null),
  );
  const [run, , error] = useTask();
  const load = () =>
    run(async () => {
      const [latest, activity] = await Promise.all([
        newest({ agent: agent.agentId }, LATEST),
        activityOf(agent.agentId, BUCKETS),
      ]);
      setState({ ...latest, activity });
      onFound(latest.found.map(({ record }) => record));
    });
  useEffect(() => {
    load();
  }, [agent]);
  const { zone } = useStore(times);
  const all = href('records', '', { agent: agent.agentId });
  const { found = [], activity } = state ?? {};
  const unsearched = state?.page.pruned ?? 0;
  const bars = useMemo(
    () =>
      (activity?.buckets ?? []).map(({ since, count: value }, i, every) => ({
        label: timeText(since),
        value,
        href: href('records', '', { agent: agent.agentId, since, until: every[i + 1]?.since }),
      })),
    [activity, zone],
  );
  return html`
    <section class="card" aria-label="Records of this agent" data-records=${state ? found.length : ''}>
      <div class="card-head"><h2>Records</h2>
        ${activity
          && html`<a href=${all}>${activity.total ? `All ${plural(activity.total, 'record')}` : 'Records'}</a>`}</div>
      <${Failure} error=${error} retry=${load} />
      ${state && found.length === 0 && html`<p class="empty">
        ${unsearched ? 'No record that could be searched is of this agent.' : 'No records yet.'}</p>`}
      <${Unsearched} count=${unsearched} />
      ${activity && activity.total > 1
        && html`<${Bars} label="Records over time, counted by the server" bars=${bars} />`}
      ${
        found.length > 0 &&
        html`
        <ul class="agent-records">${found
          .map((one) => ({ one, verdict: verdictOn(assess, one.record.index, one) }))
          .map(
            ({ one, verdict }) => html`
          <li key=${one.record.index} data-index=${one.record.index} data-check=${verdict.tone}>
            <a class="agent-record" href=${href('records', one.record.index)}>
              <code class="muted">#${one.record.index}</code>
              <span class="agent-record-what"><strong><${Text} of=${one.record.actionType} /></strong>
                ${one.record.delegation && html` <span class="muted small">by delegation</span>`}
                ${one.ok && html` <${WordOf} of=${one.record} record=${verdict} />`}</span>
              <span class="muted small nowrap" title=${one.record.timestamp}>${timeText(one.record.timestamp)}</span>
              <${RowMark} of=${verdict} /></a>
            ${!one.ok && html`<p class="small ${one.pruned ? 'muted' : 'bad-text'}">${one.reason}</p>`}</li>`)}</ul>
        <${KeyHint} keyOf=${companyKey} />
        <p class="small muted">The server selects these records, and this browser verifies each. Only <a
          href=${href('verify')}>Verify</a> shows that none is missing.</p>`
      }
    </section>`;
}

/**
 * @param {number} drawn
 * @param {number} total
 */
const part = (drawn, total) => (drawn < total ? `the newest ${count(drawn)} of ${count(total)}` : count(total));

const NOTHING = { drawn: { acted: 0, gave: 0 }, total: { acted: 0, gave: 0 } };

/**
 * The picture of who acted for whom, drawn from what holds alone.
 * @param {{agent: {agentId: string, spiffeId: string}, company: Company,
 *   companyKey: NamedKey}} props
 */
export function Delegations({ agent, company, companyKey }) {
  const assess = useAssess(companyKey);
  const [most, setMost] = useState(DRAWN[0]);
  const [state, setState] = useState(/** @type {Awaited<ReturnType<typeof delegationsOf>> | null} */ (null));
  const [run, busy, error] = useTask();
  const load = () => run(async () => setState(await delegationsOf(agent, most)));
  useEffect(() => { load(); }, [agent.agentId, most]);
  const good = useMemo(() => (state?.found ?? []).filter((one) => one.ok).map(({ record }) => record), [state]);
  const graph = useMemo(() => graphOf(good), [good]);
  const failed = (state?.found ?? []).filter(hasFailed);
  const { drawn, total } = state ?? NOTHING;
  const more = state && (drawn.acted < total.acted || drawn.gave < total.gave);
  const pruned = (state?.found ?? []).filter((one) => one.pruned).length;
  const unsearched = pruned + (state?.unsearched ?? 0);
  const tone = toneOfSet((state?.found ?? []).map((one) => verdictOn(assess, one.record.index, one).tone));
  return html`
    <section class="card across" aria-label="Delegations" data-drawn=${state ? good.length : ''}
      data-failed=${failed.length} aria-busy=${busy ? 'true' : 'false'}>
      <div class="card-head"><h2>Delegations</h2>
        ${state && state.found.length > 0
          && html`<${Badge} tone=${tone}>
          ${failed.length ? `${plural(failed.length, 'record')} of ${count(state.found.length)} fail`
            : `${plural(good.length, 'record')} checked${pruned ? `, ${count(pruned)} pruned` : ''}`}<//>`}</div>
      <${Failure} error=${error} retry=${load} />
      ${state && !state.found.length && html`<p class="empty">
        ${unsearched ? 'No record that could be searched has a delegation.' : 'No delegations.'}</p>`}
      <${Unsearched} count=${unsearched} what="may have delegations that cannot be checked, because their payloads were
        pruned" />
      ${state && state.found.length > 0 && html`
        <p class="small muted">Based on ${plural(good.length, 'record')}
          : those in which it acted under a delegation (
          <a href=${href('records', '', { agent: agent.agentId, delegatedBy: '*' })}>
            ${part(drawn.acted, total.acted)}</a>), and those in which others acted for it (
            <a href=${href('records', '', { delegatedBy: agent.spiffeId })}>${part(drawn.gave, total.gave)}</a>
              ). A delegation proves that these principals were asserted, not that anyone approved the action.</p>
        ${failed.length > 0 && html`
          <${Notice} kind="bad"><strong>The picture leaves out ${failed.length === 1 ? 'this record' : 'these records'}
            :</strong>
            ${failed.slice(0, 5).map(({ record, reason }) => html`<div key=${record.index}>
            <a href=${href('records', record.index)}>Record ${record.index}</a>: ${reason}</div>`)}<//>`
        }
        ${good.length > 0 && html`<${DelegationPicture} graph=${graph} company=${company} own=${agent.spiffeId} />`}
        ${more && most < DRAWN[1]
          && html`<div><button type="button" class="button" disabled=${busy} onClick=${() => setMost(DRAWN[1])}>
          Include up to ${count(DRAWN[1])} records</button></div>`}`
      }
    </section>`;
}
