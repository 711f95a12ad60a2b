// @ts-check
// Agents: who may act for the company. The list is searched by the server, and what was searched
// for is in the URL.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { agentPage, agentsAsked, listedAgent } from '../core/agents.js';
import { timeText, plural } from '../core/format.js';
import { href, replace, route } from '../core/router.js';
import { useStore } from '../core/store.js';
import { Badge, Failure, Field, Page, useReturn } from '../parts/basic.js';
import { Listed, useListedPage } from '../parts/listed.js';
import { usePaged } from '../parts/pages_of.js';
import { Text } from '../parts/text.js';
import { Agent } from './agent.js';
import { RegisterAgent } from './register_agent.js';

const TYPING = 250; // ms without a key before what was typed is searched for
const STATES = [['', 'any'], ['active', 'active'], ['disabled', 'disabled']];

/**
 * The fields of a search: {q, status} of the URL.
 * @param {{q: string, status: string}} props
 */
function Search({ q, status }) {
  const [typed, setTyped] = useState(q);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => { if (typed.trim() !== q) setTyped(q); }, [q]); // another link was followed
  /** @param {string} text */
  const search = (text) => {
    clearTimeout(timer.current);
    replace({ ...route.get().query, q: text.trim() });
  };
  /** @param {Happening} event */
  const type = (event) => {
    const text = event.target.value;
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => search(text), TYPING);
  };
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    search(typed);
  };
  return html`
    <form class="filters" role="search" onSubmit=${submit}>
      <${Field} label="Agent ID contains">
        ${(p) => html`<input ...${p} class="input" name="q" type="search" maxlength="128" autocomplete="off"
          spellcheck="false" value=${typed} onInput=${type} />`}<//>
      <${Field} label="Status">${(p) => html`
        <select ...${p} class="input" name="status" value=${status}
          onChange=${(e) => replace({ ...route.get().query, status: e.target.value })}>
          ${STATES.map(([state, name]) => html`<option value=${state}>${name}</option>`)}</select>`}<//>
    </form>`;
}

function AgentList() {
  const { query } = useStore(route);
  const { q = '', status = '' } = query;
  const asked = { q, status: STATES.some(([state]) => state === status) ? status : '' };
  const paged = usePaged(agentPage, '/v1/agents', 'agents', asked, agentsAsked);
  const { items, total, more, reload, retry, hasMore, busy, error } = paged;
  const compared = useListedPage('agent', paged, listedAgent, (all) => (all.length === 1 ? { q: all[0].agentId } : {}));
  const sought = asked.q || asked.status;
  return html`
    <${Page} title="Agents"
      lead="Each agent has a SPIFFE ID under the company’s. Open an agent for its records, its authorization and its
        passports.">
      <div class="columns uneven">
        <section class="stack" aria-label="Registered agents">
          <${Search} ...${asked} />
          <${Failure} error=${error} retry=${retry} />
          <${Listed} of=${compared} page />
          ${total !== undefined
            && html`<p class="small muted" role="status" data-total=${total}>
            ${sought ? `${plural(total, 'agent')} found` : plural(total, 'agent')}</p>`}
          ${items?.length === 0
            && html`<p class="empty">${sought ? 'No agent matches.' : 'No agents yet. Register the first one.'}</p>`}
          ${items && items.length > 0 && html`
            <ul class="rows">${items.map((a) => html`
              <li key=${a.agentId} data-agent=${a.agentId}><a class="row-button" href=${href('agents', a.agentId)}>
                <strong><${Text} of=${a.agentId} /></strong>
                <span class="row-side">${a.disabledAt && html`<${Badge}>disabled<//>`}
                  <span class="muted small nowrap" title=${a.registeredAt}>
                    registered ${timeText(a.registeredAt)}</span></span>
                <code class="muted"><${Text} of=${a.spiffeId} /></code>
              </a></li>`)}
            </ul>`}
          ${hasMore
            && html`<div class="buttons"><button type="button" class="button" disabled=${busy} onClick=${more}>
            Show more</button>
            <span class="small muted">${items?.length} of ${plural(total ?? 0, 'agent')}</span></div>`}
        </section>
        <div class="stack">
          <section class="card" aria-label="Register an agent"><h2>Register an agent</h2>
            <${RegisterAgent} onDone=${reload} /></section>
        </div>
      </div>
    <//>`;
}

/** @param {{argument: string}} props */
export function Agents({ argument }) {
  useReturn(argument);
  return argument ? html`<${Agent} key=${argument} agentId=${argument} />` : html`<${AgentList} />`;
}
