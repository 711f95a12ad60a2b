// @ts-check
// Passports: look into a token, revoke or rotate it, and the list of those issued.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import * as answers from '../core/answers.js';
import { mustBePassport, passportPage, passportsAsked } from '../core/agents.js';
import { call } from '../core/api.js';
import { replace, route } from '../core/router.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Failure, Field, Notice, Page, useTask } from '../parts/basic.js';
import { Drop } from '../parts/drop.js';
import { lazy } from '../parts/lazy.js';
import { usePaged } from '../parts/pages_of.js';
import { Text } from '../parts/text.js';
import { Inspector, bench } from './passport_inspector.js';

// What needs a server is loaded later; the inspector works without one.
const PassportTable = lazy('', () => import('../parts/passport_table.js').then((m) => m.PassportTable));
const Revoke = lazy('', () => import('../parts/passport_table.js').then((m) => m.Revoke));

/** @param {{decoded: Token, passport: Passport, onDone: () => void}} props */
function Rotate({ decoded, passport: { agentId, scopes }, onDone }) {
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
function Issued({ onChange }) {
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

export function Passports() {
  const { status, company } = useStore(session);
  const { token, rotatedFrom } = useStore(bench);
  const [version, setVersion] = useState(0);
  const [revoking, setRevoking] = useState(/** @type {{jti: string, agentId: string} | null} */ (null));
  const changed = () => setVersion((v) => v + 1);
  /** @param {string} token */
  const enter = (token) => bench.set({ token, rotatedFrom: '' });
  /** @type {TokenActions} */
  const actions = (decoded, online) =>
    status === 'in' &&
    decoded.companyId === company?.companyId &&
    decoded.passport &&
    online?.status === 'valid' &&
    html`
    <div class="buttons">
      <${Rotate} decoded=${decoded} passport=${decoded.passport} onDone=${changed} />
      <button type="button" class="button danger"
        onClick=${() => setRevoking({ jti: online.jti, agentId: decoded.passport?.agentId ?? '' })}>
        Revoke</button>
    </div>`;
  return html`
    <${Page} title="Passports"
      lead="A passport is a signed credential with an agent’s identity and scopes. This browser checks its signature
        with the company’s key; only the service knows whether it was revoked.">
      <div class="beside">
        <${Drop} what="a token file" reads=${['token']} onText=${(/** @type {string} */ text) => enter(text.trim())}>
          <div class="wide"><${Field} label="Paste a passport, SVID or delegation token, or drop a file that holds one">
            ${(
              p,
            ) => html`<textarea ...${p} class="input" name="token" spellcheck="false" autocomplete="off"
              placeholder="eyJhbGciOi…" value=${token}
              onInput=${(e) => enter(e.target.value)}></textarea>`}
          <//></div>
        <//>
        ${rotatedFrom
          && html`<${Notice}>Rotated. The token above is the new one; <code><${Text} of=${rotatedFrom} /></code> is
          revoked.<//>`}
        ${token.trim() && html`<${Inspector} token=${token} version=${version} actions=${actions} />`}
        ${status === 'in' && html`<${Issued} key=${version} onChange=${changed} />`}
      </div>
      ${revoking
        && html`<${Revoke} jti=${revoking.jti} agentId=${revoking.agentId} onDone=${changed}
          onClose=${() => setRevoking(null)} />`}
    <//>`;
}
