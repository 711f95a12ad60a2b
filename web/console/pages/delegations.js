// @ts-check
// Delegations: who acted for whom in the whole company, drawn from its records, each checked here.
import { html, useEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { delegated } from '../core/agent_records.js';
import { findings } from '../core/findings.js';
import { count, plural, timeText } from '../core/format.js';
import { hasFailed, verdictOn } from '../core/pruned.js';
import { href, route } from '../core/router.js';
import { clock, useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { trust } from '../core/trust.js';
import { companyGraph } from '../lib/company_graph.js';
import { Badge, Failure, Notice, Page, useTask } from '../parts/basic.js';
import { CompanyPicture, CompanyTable } from '../parts/company_graph.js';
import { principal } from '../parts/delegation_picture.js';
import { KeyHint, useAssess } from '../parts/key_trust.js';
import { Unsearched } from '../parts/pruned.js';

const MOST = 5000; // records that are read, the newest ones

/**
 * @typedef {{found: {record: LogRecord, ok: boolean, pruned: boolean, reason: string}[],
 *   total: number, done: boolean}} Read
 */

/** What is read while this page is shown. */
function useDelegated() {
  const [state, setState] = useState(/** @type {Read | null} */ (null));
  const [run, busy, error] = useTask();
  const turn = useRef(0);
  const load = () => {
    const mine = ++turn.current;
    return run(async () => {
      for await (const read of delegated(MOST)) {
        if (turn.current !== mine) return;
        setState(read);
      }
    });
  };
  useEffect(() => {
    load();
    return () => { turn.current++; };
  }, []);
  return { state, busy, error, load };
}

/**
 * The records of the line that the URL names.
 * @param {{edge: CompanyEdge, company: Company}} props
 */
function EdgeRecords({ edge, company }) {
  const heading = useRef(null);
  useEffect(() => { heading.current.focus(); }, [edge.from, edge.to]);
  const [to, from] = [principal(edge.to, company), principal(edge.from, company)];
  const all = href('records', '', { delegatedBy: edge.from, ...(to.agentId !== undefined && { agent: to.agentId }) });
  const search = `Search all records ${to.agentId === undefined ? '' : 'of this agent '}that ${from.name} delegated`;
  return html`
    <section class="card" aria-label="Records of a delegation" data-edge=${edge.count}>
      <div class="card-head"><h2 tabindex="-1" ref=${heading}>${to.name} acted for ${from.name}</h2>
        <a href=${href('delegations')}>Close</a></div>
      <p class="small muted">${plural(edge.count, 'record')} under ${plural(edge.tokens, 'token')}${
        `, from ${timeText(edge.since)} to ${timeText(edge.last)}.`}
        ${edge.entries.length < edge.count && ` These are the newest ${count(edge.entries.length)}. `}
        <a href=${all}>${search}</a></p>
      <ul class="edge-records">${edge.entries.map(({ index, timestamp, tone }) => html`
        <li key=${index} data-index=${index} data-check=${tone}><a href=${href('records', index)}>#${index}</a>
          <span class="small muted">${timeText(timestamp)}</span>
          ${tone === 'bad' ? html`<${Badge} tone="bad">fails<//>`
            : html`<span class="visually-hidden">checked</span>`}</li>`)}</ul>
    </section>`;
}

/**
 * What is drawn, in words.
 * @param {ReturnType<typeof companyGraph>} graph
 * @param {Read} read
 */
function summaryOf({ edges, nodes, alone }, { found, total, done }) {
  const records = found.length < total ? `the newest ${count(found.length)} of ${count(total)} records`
    : plural(found.length, 'record');
  const said = `${plural(edges.length, 'delegation')} between ${plural(nodes.length, 'principal')}, ` +
    `from ${records} with a delegation.`;
  const own = alone ? ` In ${count(alone)} of them an agent used its own token, for no one else.` : '';
  return `${done ? '' : 'Reading … '}${said}${own}`;
}

export function Delegations() {
  const { key, company } = useSignedIn();
  const { query } = useStore(route);
  const assess = useAssess(key);
  const [trusted, judged] = [useStore(trust), useStore(findings)];
  const { state, busy, error, load } = useDelegated();
  const now = Date.now() + clock.get().offset * 1000;
  const graph = useMemo(
    () => companyGraph((state?.found ?? []).flatMap((one) => (one.pruned ? []
      : [{ record: one.record, tone: verdictOn(assess, one.record.index, one).tone }]))),
    [state, trusted, judged],
  );
  const failed = (state?.found ?? []).filter(hasFailed);
  const pruned = (state?.found ?? []).filter((one) => one.pruned).length;
  const edge = graph.edges.find(({ from, to }) => from === query.from && to === query.to);
  const { found, done } = state ?? { found: [], done: false };
  return html`
    <${Page} title="Delegations"
      lead="Who acted for whom in the company, as its records say. Each line leads to its records, which this browser
        verifies.">
      <${Failure} error=${error} retry=${load} />
      <p class="small muted" role="status" aria-live=${busy ? 'off' : 'polite'}
        data-delegated=${done ? found.length : ''}>
        ${!state ? 'Loading …' : summaryOf(graph, state)}</p>
      <${KeyHint} keyOf=${key} />
      ${failed.length > 0 && html`<${Notice} kind="bad"><strong>${plural(failed.length, 'record')} failed
        verification.</strong> Who acted for whom in them is only what the server says.
        ${failed.slice(0, 5).map(({ record, reason }) => html`<div key=${record.index}>
          <a href=${href('records', record.index)}>Record ${record.index}</a>: ${reason}</div>`)}<//>`}
      ${edge && html`<${EdgeRecords} edge=${edge} company=${company} />`}
      ${state && query.from && !edge && done && html`<p class="empty">No such delegation among ${pruned
        ? 'the records that could be checked' : 'these records'}.</p>`}
      <${Unsearched} count=${pruned} what="with a delegation cannot be checked, because their payloads were pruned" />
      ${graph.edges.length > 0 && html`
        <section class="card" aria-label="Picture"><${CompanyPicture} ...${graph} company=${company} /></section>
        <section class="card" aria-label="Table">
          <${CompanyTable} edges=${graph.edges} company=${company} now=${now} /></section>`}
      ${done && !graph.edges.length && html`<p class="empty">${pruned
        ? 'No record that could be checked has a delegation.' : 'No agent has acted for another yet.'}</p>`}
      <p class="small muted">A delegation proves that these principals were asserted, not that anyone approved the
        action. Tokens are not recorded before they are used, and last an hour at most: a delegation that was used
        within the last hour may be in force. The server selects the records;
        only <a href=${href('verify')}>Verify</a> shows that none is missing.</p>
    <//>`;
}
