// @ts-check
// One agent: what it did, what gave it the right, what it holds, and what can be changed of it.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { disable, enable, metadataOf, passportPage, passportsAsked, readSVID } from '../core/agents.js';
import { readAgent } from '../core/agent_said.js';
import { timeText, plural } from '../core/format.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { agentSPIFFE } from '../lib/spiffe.js';
import { Badge, Failure, Notice, Value, useTask } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { JSONView } from '../parts/json_view.js';
import { usePaged } from '../parts/pages_of.js';
import { AttestPolicy } from '../parts/attest_policy.js';
import { PassportTable } from '../parts/passport_table.js';
import { Text } from '../parts/text.js';
import { AgentChanges, Authority } from './agent_authority.js';
import { AgentKeys } from './agent_keys.js';
import { Delegations, LatestRecords } from './agent_records.js';
import { AgentSessions } from './agent_sessions.js';
import { IssuePassport } from './issue_passport.js';
import { RegisterAgent } from './register_agent.js';

/**
 * Disabling or enabling, after a question. onDone gets the message about it.
 * @param {{agent: RegisteredAgent, onDone: (what: string) => void}} props
 */
function Switch({ agent, onDone }) {
  const [asking, ask] = useState(false);
  const off = Boolean(agent.disabledAt);
  const act = async () => {
    if (off) {
      await enable(agent.agentId);
      onDone('The agent is enabled. Revoked passports stay revoked.');
    } else {
      const { revokedPassports } = await disable(agent.agentId);
      onDone(
        `The agent is disabled. ${plural(revokedPassports, 'passport')} ${revokedPassports === 1 ? 'was' : 'were'} ` +
          `revoked with it.`,
      );
    }
  };
  return html`
    <button type="button" class="button ${off ? '' : 'danger'}" onClick=${() => ask(true)}>
      ${off ? 'Enable' : 'Disable'}</button>
    ${asking && html`
      <${Confirm} title=${`${off ? 'Enable' : 'Disable'} ${agent.agentId}?`}
        action=${off ? 'Enable agent' : 'Disable agent'} act=${act} onClose=${() => ask(false)}>
        <p>${
          off
            ? 'The agent can get SVIDs, passports and delegations again, and act. Revoked passports stay revoked.'
            : 'The agent gets no SVID, passport or delegation any more, and no record in its name is accepted. All ' +
              'its passports are revoked permanently. Tokens that it already has still verify offline until they ' +
                'expire, within an hour. You can enable it again.'
        }</p>
      <//>`
    }`;
}

/** @param {{agentId: string}} props */
function SVID({ agentId }) {
  const [svid, setSVID] = useState('');
  const [run, busy, error] = useTask();
  return html`
    <section class="stack tight"><h3>SVID</h3>
      <p class="small muted">A JWT that identifies the agent for one hour. Use it in the token exchange.</p>
      ${svid && html`<${Value} value=${svid} what="SVID" />`}
      <${Failure} error=${error} />
      <div><button type="button" class="button" disabled=${busy}
        onClick=${() => run(async () => setSVID(await readSVID(agentId)))}>
        ${svid ? 'Get a fresh SVID' : 'Get an SVID'}</button></div>
    </section>`;
}

/** @param {{agent: RegisteredAgent, onChange: () => void}} props */
function About({ agent, onChange }) {
  const metadata = metadataOf(agent);
  const source = metadata ? metadata.source.slice(metadata.node.start, metadata.node.end) : '';
  return html`
    <section class="card" aria-label="Registration">
      <div class="card-head"><h2>Registration</h2></div>
      <dl class="facts">
        <dt>SPIFFE ID</dt><dd><code><${Text} of=${agent.spiffeId} /></code></dd>
        <dt>registered</dt><dd title=${agent.registeredAt}>${timeText(agent.registeredAt)}</dd>
        ${agent.disabledAt && html`<dt>disabled</dt><dd title=${agent.disabledAt}>${timeText(agent.disabledAt)}</dd>`}
      </dl>
      <section class="stack tight"><h3>Metadata</h3>
        ${metadata ? html`<${JSONView} ...${metadata} what="metadata" />`
          : html`<p class="small muted">none</p>`}</section>
      ${!agent.disabledAt && html`
        <details class="steps"><summary>Edit metadata</summary>
          <${RegisterAgent} agentId=${agent.agentId} metadata=${source} onDone=${onChange} /></details>
        <${SVID} agentId=${agent.agentId} />`}
    </section>`;
}

/**
 * Records may come in any name.
 * @param {{agentId: string, onChange: () => void}} props
 */
const Nobody = ({ agentId, onChange }) => html`
  <section class="card" aria-label="Registration">
    <h2>Not registered</h2>
    <p>No agent with this ID is registered. Records can name it nevertheless: the writer of a record chooses the agent
      ID.</p>
    <details class="steps"><summary>Register this agent</summary>
      <${RegisterAgent} agentId=${agentId} onDone=${onChange} /></details>
  </section>`;

/**
 * @param {{agent: {agentId: string, disabledAt?: string}, version: number, onChange: () =>
 *   void}} props
 */
function Passports({ agent, version, onChange }) {
  const paged = usePaged(passportPage, '/v1/passports', 'passports', { agent: agent.agentId }, passportsAsked);
  const bare = useRef(null); // whether it had none when the page was opened: then the form is open, and stays so
  if (paged.items) bare.current ??= paged.items.length === 0;
  useEffect(() => { if (version) paged.reload(); }, [version]);
  return html`
    <section class="card across" aria-label="Passports of this agent" data-passports=${paged.items?.length ?? ''}>
      <div class="card-head"><h2>Passports</h2>
        <a href=${href('passports', '', { agent: agent.agentId })}>All passports</a></div>
      <${PassportTable} paged=${paged} ofAgent empty="No passports yet." onChange=${onChange} />
      ${!agent.disabledAt
        && html`<details class="steps" open=${bare.current}><summary>Issue a passport</summary>
        <${IssuePassport} agentId=${agent.agentId} onDone=${onChange} /></details>`}
    </section>`;
}

/** @param {{agentId: string}} props */
export function Agent({ agentId }) {
  const { company, key } = useSignedIn();
  const heading = useRef(null);
  useEffect(() => { scrollTo(0, 0); heading.current.focus(); }, []);
  const [agent, setAgent] = useState(null);
  const [version, setVersion] = useState(0); // of what was changed here
  const [wrong, setWrong] = useState(/** @type {string[]} */ ([]));
  const [records, setRecords] = useState([]);
  const [said, say] = useState('');
  const [run, , error] = useTask();
  const load = () =>
    run(async () => {
      const { listed, said, wrong: found } = await readAgent(agentId);
      setWrong(found);
      const { registeredAt, disabledAt = '' } = said ?? listed ?? {};
      // Whether it may act is what the control log says; the server's list is held against it.
      setAgent({ agentId, spiffeId: agentSPIFFE(company.spiffeId, agentId), ...listed,
        ...(registeredAt && { registeredAt, disabledAt: disabledAt || undefined }) });
    });
  useEffect(() => {
    load();
  }, [agentId, version]);
  /** @param {string} [what] */
  const changed = (what = '') => {
    say(what);
    setVersion((v) => v + 1);
  };
  return html`
    <div class="page-head agent-head">
      <p class="small"><a href=${href('agents')}>Agents</a></p>
      <div class="card-head"><h1 tabindex="-1" ref=${heading}><${Text} of=${agentId} /></h1>
        ${agent?.registeredAt
          && html`<div class="buttons" data-agent-status=${agent.disabledAt ? 'disabled' : 'active'}>
          <${Badge}>${agent.disabledAt ? `disabled since ${timeText(agent.disabledAt)}` : 'active'}<//>
            <${Switch} agent=${agent} onDone=${changed} /></div>`}</div>
    </div>
    <${Failure} error=${error} retry=${load} />
    ${said && html`<${Notice}>${said}<//>`}
    ${wrong.length > 0 && html`<div data-misstated=${wrong.length}><${Notice} kind="bad">
      ${wrong.map((one) => html`<p><${Text} of=${one} /></p>`)}<//></div>`}
    ${agent && html`
      <div class="agent-page">
        <${LatestRecords} agent=${agent} companyKey=${key} onFound=${setRecords} />
        ${agent.registeredAt ? html`<${About} agent=${agent} onChange=${() => changed()} />`
          : html`<${Nobody} agentId=${agentId} onChange=${() => changed()} />`}
        ${agent.registeredAt && html`
          <${AgentKeys} agent=${{ ...agent, companyId: company.companyId }} version=${version}
            onChange=${() => changed()} />`}
        <${AgentSessions} agentId=${agentId} version=${version} companyKey=${key} />
        <${Delegations} agent=${agent} company=${company} companyKey=${key} />
        ${agent.registeredAt && html`<${Passports} agent=${agent} version=${version} onChange=${() => changed()} />`}
        <${Authority} agentId=${agentId} records=${records} companyKey=${key} />
        ${agent.registeredAt && html`<${AttestPolicy} agentId=${agentId} version=${version}
          onChange=${() => changed()} />`}
        <${AgentChanges} agentId=${agentId} version=${version} companyKey=${key} />
      </div>`}`;
}
