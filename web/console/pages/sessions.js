// @ts-check
// Sessions: the runs of all agents, found by agent, kind and time. What is searched for is in the
// URL.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { replace, route } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { KINDS, KIND_NAMES, sessionPage, sessionsAsked } from '../core/sessions.js';
import { useStore } from '../core/store.js';
import { Field, Page, useReturn } from '../parts/basic.js';
import { usePaged } from '../parts/pages_of.js';
import { Completion } from '../parts/completion.js';
import { PeriodFields } from '../parts/period.js';
import { SessionTable } from '../parts/session_table.js';
import { Session } from './session.js';

const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

function SessionList() {
  const { query } = useStore(route);
  const { key } = useSignedIn();
  const { agent = '', sid = '', kind = '', since = '', until = '' } = query;
  const [typed, setTyped] = useState({ agent, sid });
  useEffect(() => setTyped({ agent, sid }), [agent, sid]); // another link was followed
  const asked = {
    agentId: agent,
    sid,
    kind: KINDS.find((one) => one === kind) ?? '',
    from: TIME.test(since) ? since : '',
    to: TIME.test(until) ? until : '',
  };
  const paged = usePaged(sessionPage, '/v1/sessions', 'sessions', asked, sessionsAsked);
  /** @param {Query} patch */
  const set = (patch) => replace({ ...route.get().query, ...patch });
  /** @param {Event} event */
  const search = (event) => {
    event.preventDefault();
    set({ agent: typed.agent.trim(), sid: typed.sid.trim() });
  };
  const sought = Object.values(asked).some(Boolean);
  return html`
    <${Page} title="Sessions"
      lead="Runs of agents, the newest first. Open one to see its calls with their outcomes, each checked by this
        browser.">
      <form class="filters" role="search" onSubmit=${search}>
        <${Field} label="Session ID">
          ${(p) => html`<input ...${p} class="input" name="sid" type="search" maxlength="256" spellcheck="false"
            autocomplete="off" placeholder="exact session ID" value=${typed.sid}
            onInput=${(e) => setTyped({ ...typed, sid: e.target.value })} onChange=${search} />`}<//>
        <${Field} label="Agent, exact ID">
          ${(p) => html`<input ...${p} class="input" name="agent" type="search" maxlength="256"
            list="sessions-agent" spellcheck="false" value=${typed.agent}
            onInput=${(e) => setTyped({ ...typed, agent: e.target.value })} onChange=${search} />`}<//>
        <${Completion} id="sessions-agent" kind="agent" />
        <${Field} label="Kind">${(p) => html`
          <select ...${p} class="input" name="kind" value=${asked.kind}
            onChange=${(e) => set({ kind: e.target.value })}>
            <option value="">any</option>
            ${KINDS.map((one) => html`<option value=${one}>${KIND_NAMES[one]}</option>`)}</select>`}<//>
        <${PeriodFields} since=${asked.from} until=${asked.to} set=${set} />
      </form>
      <section class="card" aria-label="Sessions" data-sessions=${paged.items?.length ?? ''}>
        <${SessionTable} paged=${paged} companyKey=${key} withAgent
          none=${sought ? 'No session matches.'
            : 'No sessions yet. Hooks, MCP, attestd run and signed steps make them.'} />
      </section>
    <//>`;
}

/** @param {{argument: string}} props */
export function Sessions({ argument }) {
  const { query: { agent = '', kind = '', kid = '' } } = useStore(route);
  useReturn(argument);
  return argument
    ? html`<${Session} key=${`${agent} ${kind} ${kid} ${argument}`} agentId=${agent} sid=${argument} kind=${kind}
      kid=${kid} />`
    : html`<${SessionList} />`;
}
