// Agents: who may act for the company; register one, get its SVID, issue it a passport.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import * as answers from '../core/answers.js';
import { call } from '../core/api.js';
import { localTime } from '../core/format.js';
import { go } from '../core/router.js';
import { parse } from '../lib/json.js';
import { Failure, Field, Notice, Page, Value, useTask } from '../parts/basic.js';
import { Drawer } from '../parts/dialogs.js';
import { JSONView } from '../parts/json_view.js';
import { usePaged } from '../parts/pages_of.js';
import { Text } from '../parts/text.js';
import { IssuePassport } from './issue_passport.js';

function Register({ onDone }) {
  const [agentId, setAgentId] = useState('');
  const [metadata, setMetadata] = useState('');
  const [run, busy, error] = useTask();
  const [made, setMade] = useState('');
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      const body = { agentId };
      if (metadata.trim()) {
        parse(metadata); // says where the JSON is wrong
        body.metadata = JSON.parse(metadata);
      }
      await call(answers.agent, 'POST', '/v1/agents/register', { body });
      setMade(agentId);
      setAgentId('');
      setMetadata('');
      onDone();
    });
  };
  return html`
    <form class="card" onSubmit=${submit}>
      <h2>Register an agent</h2>
      <${Field} label="Agent ID" hint="Letters, digits, dot, hyphen and underscore. An ID that exists is registered anew.">
        ${(p) => html`<input ...${p} class="input" name="agentId" required autocomplete="off" spellcheck="false" value=${agentId} onInput=${(e) => setAgentId(e.target.value)} />`}
      <//>
      <${Field} label="Metadata (optional)" hint="A JSON object.">
        ${(p) => html`<textarea ...${p} class="input" name="metadata" spellcheck="false" placeholder='{"team":"payments"}' value=${metadata} onInput=${(e) => setMetadata(e.target.value)}></textarea>`}
      <//>
      <${Failure} error=${error} />
      ${made && html`<${Notice}>Agent <strong><${Text} of=${made} /></strong> is registered.<//>`}
      <div><button class="button primary" disabled=${busy}>Register agent</button></div>
    </form>`;
}

function AgentPanel({ agentId, onClose }) {
  const [agent, setAgent] = useState(null);
  const [svid, setSVID] = useState('');
  const [run, , error] = useTask();
  const [runSVID, busy, svidError] = useTask();
  useEffect(() => { run(async () => setAgent(await call(answers.agent, 'GET', `/v1/agents/${encodeURIComponent(agentId)}`))); }, [agentId]);
  const fetchSVID = () => runSVID(async () => setSVID((await call(answers.agentSVID, 'GET', `/v1/agents/${encodeURIComponent(agentId)}/svid`)).svid));
  return html`
    <${Drawer} title=${agentId} onClose=${onClose}>
      <${Failure} error=${error} />
      ${agent && html`
        <dl class="facts">
          <dt>SPIFFE ID</dt><dd><code><${Text} of=${agent.spiffeId} /></code></dd>
          <dt>registered</dt><dd>${localTime(agent.registeredAt)} <span class="muted">(${agent.registeredAt})</span></dd>
        </dl>
        ${agent.metadata?.node.type === 'object' && html`<section class="stack tight"><h3>Metadata</h3><${JSONView} ...${agent.metadata} what="metadata" /></section>`}
        <section class="stack"><h3>SVID</h3>
          <p class="small muted">A JWT that says who the agent is, for one hour. It goes into the token exchange.</p>
          ${svid && html`<${Value} value=${svid} what="SVID" />`}
          <${Failure} error=${svidError} />
          <div><button type="button" class="button" disabled=${busy} onClick=${fetchSVID}>${svid ? 'Get a fresh SVID' : 'Get an SVID'}</button></div>
        </section>
        <${IssuePassport} agentId=${agentId} />`}
    <//>`;
}

export function Agents({ argument }) {
  const { items, more, reload, hasMore, busy, error } = usePaged(answers.agentPage, '/v1/agents', 'agents');
  return html`
    <${Page} title="Agents" lead="Each agent has a SPIFFE ID below the company’s. Open one for its SVID, or to issue it a passport.">
      <div class="columns uneven">
        <section class="stack" aria-label="Registered agents">
          <${Failure} error=${error} />
          ${items?.length === 0 && html`<p class="empty">No agent yet. Register the first one.</p>`}
          ${items?.length > 0 && html`
            <ul class="rows">${items.map((a) => html`
              <li key=${a.agentId}><button type="button" class="row-button" onClick=${() => go('agents', a.agentId)}>
                <span class="stack tight"><strong><${Text} of=${a.agentId} /></strong><code class="muted"><${Text} of=${a.spiffeId} /></code></span>
                <span class="muted small nowrap">${localTime(a.registeredAt)}</span>
              </button></li>`)}
            </ul>`}
          ${hasMore && html`<div><button type="button" class="button" disabled=${busy} onClick=${more}>Show more</button></div>`}
        </section>
        <${Register} onDone=${reload} />
      </div>
      ${argument && html`<${AgentPanel} key=${argument} agentId=${argument} onClose=${() => go('agents')} />`}
    <//>`;
}
