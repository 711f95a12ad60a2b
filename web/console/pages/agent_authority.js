// @ts-check
// What gave an agent the right to act: what the service says of one record, and the changes of the
// control log about the agent. Each change is a record of its own, and is checked here.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { authorityOf } from '../core/agents.js';
import { needingPayload } from '../core/archives.js';
import { changesAt, changesWith } from '../core/control_log.js';
import { count, timeText } from '../core/format.js';
import { href, replace, route } from '../core/router.js';
import { useStore } from '../core/store.js';
import { visible } from '../lib/visible.js';
import { Failure, Field, useTask } from '../parts/basic.js';
import { Change } from '../parts/change.js';
import { useAssess } from '../parts/key_trust.js';
import { Text } from '../parts/text.js';
import { table } from '../lib/table.js';

const PAGE = 50;

/** @type {Record<string, string>} */
const SAYS = table({
  registered: 'registered',
  disabled: 'registered, and disabled',
  notRegistered: 'not registered',
  unknown: 'in a state that the control log doesn’t show',
});

/**
 * A checked change that an answer names at a place, as one that fails where it is another change
 * than the answer says.
 * @param {ControlChange} change
 * @param {NamedEntry} named
 * @returns {ControlChange}
 */
function compared(change, { subject, entry }) {
  const {
    record: { timestamp, actionType },
  } = change;
  if (
    !change.ok ||
    (timestamp === entry.timestamp &&
      actionType === entry.actionType &&
      change.by === entry.by &&
      change.subject === subject)
  )
    return change;
  return {
    ...change,
    ok: false,
    flaw: `this record differs from what the service says about it: ${visible(entry.actionType)} at ${entry.timestamp}`,
  };
}

/**
 * Every entry of the control log that an answer names, with the subject that its record must have.
 * @param {Authority} said
 * @returns {NamedEntry[]}
 */
function entriesOf({ agent, passports, delegation, signingKey }) {
  /** @type {NamedEntry[]} */
  const found = [];
  /**
   * @param {string} subject
   * @param {...(AuthorityEntry | null)} entries
   */
  const add = (subject, ...entries) => {
    for (const entry of entries)
      if (entry && !found.some((one) => one.entry.index === entry.index)) found.push({ subject, entry });
  };
  for (const one of [agent, ...(delegation?.agents ?? [])])
    add(`agent:${one.agentId}`, one.registered, one.last, one.next);
  for (const one of passports) add(`passport:${one.jti}`, one.issued, one.revoked);
  add(`signing-key:${signingKey.kid}`, signingKey.rotated);
  return found.sort((a, b) => a.entry.index - b.entry.index);
}

/**
 * Why the action of a record was allowed: of the one that the URL names, or the newest. records:
 * those of the agent that are shown, the newest first.
 * @param {{agentId: string, records: LogRecord[], companyKey: NamedKey}} props
 */
export function Authority({ agentId, records, companyKey }) {
  const assess = useAssess(companyKey);
  const { query } = useStore(route);
  const [state, setState] = useState(/** @type {{said: Authority, changes: ControlChange[]} | null} */ (null));
  const [run, busy, error] = useTask();
  const card = useRef(null);
  const named = /^[0-9]{1,15}$/.test(query.record ?? '') ? Number(query.record) : undefined;
  const index = named ?? records[0]?.index;
  const load = () => run(async () => {
    const said = await needingPayload(index, () => authorityOf(index));
    if (said.agent.agentId !== agentId) throw new Error(`Record ${index} belongs to another agent.`);
    const entries = entriesOf(said);
    const changes = await changesAt(entries.map(({ entry }) => entry.index));
    setState({ said, changes: entries.flatMap((one) => {
      const change = changes.get(one.entry.index);
      return change ? [compared(change, one)] : [];
    }) });
  });
  useEffect(() => { if (index !== undefined) load(); }, [index]);
  const { said, changes = [] } = state ?? {};
  const current = said?.index === index;
  useEffect(() => {
    if (named !== undefined && current) card.current?.scrollIntoView({ block: 'nearest' });
  }, [current]);
  if (!records.length) return null;
  return html`
    <section class="card" ref=${card} aria-label="Authority" data-authority=${current ? index : ''}
      aria-busy=${busy ? 'true' : 'false'}>
      <div class="card-head"><h2>Authorization at that time</h2></div>
      <${Field} label="Record">${(p) => html`
        <select ...${p} class="input" name="record" value=${String(index)}
          onChange=${(e) => replace({ ...query, record: e.target.value })}>
          ${!records.some((r) => r.index === index) && html`<option value=${String(index)}>#${index}</option>`}
          ${records.map((r) => html`<option value=${String(r.index)}>#${r.index} ${visible(r.actionType)}
          , ${timeText(r.timestamp)}</option>`)}</select>`}<//>
      <${Failure} error=${error} retry=${load} />
      ${current && html`
        <p>According to the service, the agent was <strong>${SAYS[said.agent.state]}</strong> at that time
          ${said.passports.length
            ? `, and had ${count(said.passports.length)} valid ` +
              `${said.passports.length === 1 ? 'passport' : 'passports'}` : ''}.
          ${said.delegation
            && html` It acted under a delegation of ${count(said.delegation.delegationChain.length)} principals.`}</p>
        ${changes.length > 0
          && html`<ul class="change-list">
          ${changes.map((change) => html`<${Change} key=${change.record.index} change=${change} assess=${assess} />`)}
          </ul>`}
        <details class="steps"><summary>Not determined</summary>
          <ul class="cannot small muted">
            ${said.cannotSay.map((what) => html`<li><${Text} of=${what} /></li>`)}</ul></details>`
      }
    </section>`;
}

/**
 * All changes about an agent and its passports, the newest first, as far as the server has looked.
 * @param {{agentId: string, version: number, companyKey: NamedKey}} props
 */
export function AgentChanges({ agentId, version, companyKey }) {
  const assess = useAssess(companyKey);
  const [state, setState] = useState(/** @type {{found: ControlChange[], page: ControlPage} | null} */ (null));
  const [run, busy, error] = useTask();
  /**
   * @param {ControlPage | null} after
   * @param {ControlChange[]} before
   */
  const load = (after, before) => run(async () => {
    const { found: fresh, page } = await changesWith(agentId, after, PAGE);
    const about = fresh.filter((change) => change.subject === `agent:${agentId}` || change.agentId === agentId);
    setState({ page, found: [...before, ...about] });
  });
  useEffect(() => { load(null, []); }, [agentId, version]);
  return html`
    <section class="card" aria-label="Changes of this agent" data-changes=${state ? state.found.length : ''}>
      <div class="card-head"><h2>Changes</h2><a href=${href('control', '', { subject: agentId })}>Control log</a></div>
      <${Failure} error=${error} retry=${() => load(state?.page ?? null, state?.found ?? [])} />
      ${state?.found.length === 0 && !state.page.next && html`<p class="empty">No changes yet.</p>`}
      ${state && html`
        <ul class="change-list">
          ${state.found.map((change) => html`<${Change} key=${change.record.index} change=${change}
            assess=${assess} />`)}
          </ul>
        ${
          state.page.next &&
          html`<div class="buttons"><button type="button" class="button" disabled=${busy}
            onClick=${() => load(state.page, state.found)}>Search further back</button>
          <span class="small muted">searched back to control record ${count(state.page.read.from)}</span></div>`
        }`
      }
    </section>`;
}
