// Passports: look into a token, revoke or rotate it, and the list of those issued.
import { html, useState } from '../vendor/preact-htm.js';
import * as answers from '../core/answers.js';
import { call } from '../core/api.js';
import { localTime } from '../core/format.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, Field, Notice, Page, useTask } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { Drop } from '../parts/drop.js';
import { usePaged } from '../parts/pages_of.js';
import { Text } from '../parts/text.js';
import { Inspector, bench } from './passport_inspector.js';

function Revoke({ jti, agentId, onDone, onClose }) {
  const act = async (reason) => {
    await call(answers.nothing, 'POST', `/v1/passports/${encodeURIComponent(jti)}/revoke`, { body: reason ? { reason } : {} });
    onDone();
  };
  return html`
    <${Confirm} title="Revoke this passport?" action="Revoke" reasonLabel="Reason (optional)" act=${act} onClose=${onClose}>
      <p>Passport <code><${Text} of=${jti} /></code> of <strong><${Text} of=${agentId} /></strong> is refused by the service at once. A verifier that works offline learns it when it asks for the status. This cannot be taken back.</p>
    <//>`;
}

function Rotate({ decoded, onDone }) {
  const [run, busy, error] = useTask();
  const rotate = () => run(async () => {
    const path = `/v1/agents/${encodeURIComponent(decoded.passport.agentId)}/passport/rotate`;
    const made = await call(answers.passportRotated, 'POST', path, { headers: { 'Attestd-Passport': decoded.compact } });
    bench.set({ token: made.passport, rotatedFrom: made.rotatedFrom });
    onDone();
  });
  return html`<button type="button" class="button" disabled=${busy} onClick=${rotate}>Rotate</button><${Failure} error=${error} />`;
}

const TONES = { revoked: 'bad' }; // valid is only the server’s word

function Issued({ list, onRevoke }) {
  const { items, more, hasMore, busy, error } = list;
  return html`
    <section class="stack">
      <h2>Issued</h2>
      <${Failure} error=${error} />
      ${items?.length === 0 && html`<p class="empty">No passport issued yet. Open an agent to issue one.</p>`}
      ${items?.length > 0 && html`
        <div class="card"><table class="table">
          <thead><tr><th>Agent</th><th>Status</th><th>Expires</th><th>Scopes</th><th>Passport ID</th><th><span class="visually-hidden">Actions</span></th></tr></thead>
          <tbody>${items.map((p) => html`
            <tr key=${p.jti} data-jti=${visible(p.jti)} data-status=${p.status}>
              <td data-label="Agent"><strong><${Text} of=${p.agentId} /></strong></td>
              <td data-label="Status"><${Badge} tone=${TONES[p.status]}>${p.status}<//>
                ${p.revokedAt && html`<div class="small muted">${localTime(p.revokedAt)}${p.reason && html`: <${Text} of=${p.reason} />`}</div>`}</td>
              <td data-label="Expires" class="nowrap">${localTime(p.expiresAt)}</td>
              <td data-label="Scopes"><span class="chips">${p.scopes.map((s) => html`<span class="chip"><${Text} of=${s} /></span>`)}</span></td>
              <td data-label="ID"><code><${Text} of=${p.jti} /></code></td>
              <td>${p.status === 'valid' && html`<button type="button" class="button danger small" aria-label=${visible(`Revoke passport ${p.jti}`)} onClick=${() => onRevoke(p)}>Revoke</button>`}</td>
            </tr>`)}</tbody>
        </table></div>`}
      ${hasMore && html`<div><button type="button" class="button" disabled=${busy} onClick=${more}>Show more</button></div>`}
    </section>`;
}

// The list needs a company; looking into a token does not.
function Company({ onRevoke }) {
  return html`<${Issued} list=${usePaged(answers.passportPage, '/v1/passports', 'passports')} onRevoke=${onRevoke} />`;
}

export function Passports() {
  const { status, company } = useStore(session);
  const { token, rotatedFrom } = useStore(bench);
  const [version, setVersion] = useState(0);
  const [revoking, setRevoking] = useState(null);
  const changed = () => setVersion((v) => v + 1);
  const actions = (decoded, online) => status === 'in' && decoded.companyId === company.companyId && online?.status === 'valid' && html`
    <div class="buttons">
      <${Rotate} decoded=${decoded} onDone=${changed} />
      <button type="button" class="button danger" onClick=${() => setRevoking({ jti: decoded.claims.value.jti, agentId: decoded.passport.agentId })}>Revoke</button>
    </div>`;
  return html`
    <${Page} title="Passports" lead="A passport is a signed credential with an agent’s identity and scopes. Its signature is checked here, with the company’s key; whether it was revoked, only the service knows.">
      <${Drop} what="a token file" onText=${(text) => bench.set({ token: text.trim(), rotatedFrom: '' })}>
        <div class="wide"><${Field} label="Paste a passport, SVID or delegation token, or drop a file that holds one">
          ${(p) => html`<textarea ...${p} class="input" name="token" spellcheck="false" autocomplete="off" placeholder="eyJhbGciOi…" value=${token}
            onInput=${(e) => bench.set({ token: e.target.value, rotatedFrom: '' })}></textarea>`}
        <//></div>
      <//>
      ${rotatedFrom && html`<${Notice}>Rotated. The token above is the new one; <code><${Text} of=${rotatedFrom} /></code> is revoked.<//>`}
      ${token.trim() && html`<${Inspector} token=${token} version=${version} actions=${actions} />`}
      ${status === 'in' && html`<${Company} key=${version} onRevoke=${setRevoking} />`}
      ${revoking && html`<${Revoke} jti=${revoking.jti} agentId=${revoking.agentId} onDone=${changed} onClose=${() => setRevoking(null)} />`}
    <//>`;
}
