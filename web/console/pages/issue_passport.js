// @ts-check
// Issues a passport: which scopes, for how long. The token is shown once.
import { html, useState } from '../vendor/preact-htm.js';
import { passportIssued } from '../core/answers.js';
import { mustBePassport } from '../core/agents.js';
import { call } from '../core/api.js';
import { duration } from '../core/format.js';
import { Failure, Field, Notice, Value, useTask } from '../parts/basic.js';
import { inspect } from './passport_inspector.js';

const LIFETIMES = [[900, '15 minutes'], [3600, '1 hour'], [28800, '8 hours'], [86400, '24 hours']];

/**
 * onDone is called when one was issued.
 * @param {{agentId: string, onDone: () => void}} props
 */
export function IssuePassport({ agentId, onDone }) {
  const [scopes, setScopes] = useState('tool:* attest:write');
  const [ttl, setTTL] = useState(3600);
  const [made, setMade] = useState(/** @type {ReturnType<typeof passportIssued> | null} */ (null));
  const [run, busy, error] = useTask();
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    run(async () => {
      const body = { scopes: scopes.split(/[\s,]+/).filter(Boolean), ttl };
      const issued = await call(passportIssued, 'POST', `/v1/agents/${encodeURIComponent(agentId)}/passport`, {
        asked: { agentId, expiresIn: body.ttl },
        body,
      });
      mustBePassport(issued.passport, agentId, body.scopes);
      setMade(issued);
      onDone();
    });
  };
  return html`
    <form class="stack" onSubmit=${submit}>
      <${Field} label="Scopes" hint="Separated by spaces: category:name, category:* or *.">
        ${(p) => html`<input ...${p} class="input mono" name="scopes" required spellcheck="false" value=${scopes}
          onInput=${(e) => setScopes(e.target.value)} />`}
      <//>
      <${Field} label="Lifetime">
        ${(
          p,
        ) => html`<select ...${p} class="input" name="ttl" value=${String(ttl)}
          onChange=${(e) => setTTL(Number(e.target.value))}>
          ${LIFETIMES.map(([seconds, name]) => html`<option value=${String(seconds)}>${name}</option>`)}</select>`}
      <//>
      <${Failure} error=${error} />
      <div><button class="button primary" disabled=${busy}>Issue passport</button></div>
      ${made && html`
        <${Notice}>Issued for ${duration(made.expiresIn)}. The token is shown only once.<//>
        <${Value} value=${made.passport} what="passport" />
        <div><button type="button" class="button" onClick=${() => inspect(made.passport)}>Inspect</button></div>`}
    </form>`;
}
