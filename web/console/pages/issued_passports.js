// @ts-check
// The passports that the company issued, and the one that takes the place of another.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { mustBePassport, passportPage, passportsAsked } from '../core/agents.js';
import * as answers from '../core/answers.js';
import { call } from '../core/api.js';
import { replace, route } from '../core/router.js';
import { useStore } from '../core/store.js';
import { Failure, Field, useTask } from '../parts/basic.js';
import { usePaged } from '../parts/pages_of.js';
import { PassportTable } from '../parts/passport_table.js';
import { bench } from './passport_inspector.js';

/** @param {{decoded: Token, passport: Passport, onDone: () => void}} props */
export function Rotate({ decoded, passport: { agentId, scopes }, onDone }) {
  const [run, busy, error] = useTask();
  const rotate = () =>
    run(async () => {
      const path = `/v1/agents/${encodeURIComponent(agentId)}/passport/rotate`;
      const asked = { agentId, rotatedFrom: decoded.claims.value.jti };
      const made = await call(answers.passportRotated, 'POST', path, {
        asked,
        headers: { 'Attestd-Passport': decoded.compact },
      });
      mustBePassport(made.passport, agentId, scopes);
      bench.set({ token: made.passport, rotatedFrom: made.rotatedFrom });
      onDone();
    });
  return html`<button type="button" class="button" disabled=${busy} onClick=${rotate}>Rotate</button>
  <${Failure} error=${error} />`;
}

const STATES = [['', 'any'], ['valid', 'valid'], ['revoked', 'revoked'], ['expired', 'expired']];

/**
 * The list needs a company; looking into a token does not. What is sought is in the URL.
 * @param {{onChange: () => void}} props
 */
export function Issued({ onChange }) {
  const { query } = useStore(route);
  const { agent = '', status = '' } = query;
  const [typed, setTyped] = useState(agent);
  const asked = { agent, status: STATES.some(([state]) => state === status) ? status : '' };
  useEffect(() => setTyped(agent), [agent]); // another link was followed
  const paged = usePaged(passportPage, '/v1/passports', 'passports', asked, passportsAsked);
  /** @param {Event} event */
  const search = (event) => {
    event.preventDefault();
    replace({ ...query, agent: typed.trim() });
  };
  return html`
    <section class="card aside" aria-label="Issued passports">
      <div class="card-head"><h2>Issued</h2>
        <form class="filters" onSubmit=${search}>
          <${Field} label="Agent">
            ${(p) => html`<input ...${p} class="input" name="agent" type="search" autocomplete="off" spellcheck="false"
              value=${typed} onInput=${(e) => setTyped(e.target.value)} onChange=${search} />`}<//>
          <${Field} label="Status">${(
            p,
          ) => html`<select ...${p} class="input" name="status" value=${asked.status}
            onChange=${(e) => replace({ ...query, status: e.target.value })}>
            ${STATES.map(([state, name]) => html`<option value=${state}>${name}</option>`)}</select>`}<//>
        </form></div>
      <${PassportTable} paged=${paged} onChange=${onChange}
        empty=${asked.agent || asked.status ? 'No passport matches.'
          : 'No passport issued yet. Open an agent to issue one.'} />
    </section>`;
}
