// @ts-check
// Passports that were issued, as the server lists them; each can be revoked, and its signed status
// asked for.
import { html, useState } from '../vendor/preact-htm.js';
import { passportRevoked } from '../core/answers.js';
import { call, callText } from '../core/api.js';
import { listedPassport } from '../core/agents.js';
import { timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { companyKey, signedIn } from '../core/session.js';
import { PART } from '../core/verdict.js';
import { checkStatus } from '../lib/status.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, useTask } from './basic.js';
import { Confirm } from './dialogs.js';
import { useAssess } from './key_trust.js';
import { Listed, useListedPage } from './listed.js';
import { Text } from './text.js';
import { table } from '../lib/table.js';

/** @type {Partial<Record<ListedPassport['status'], Tone>>} */
const TONES = table({ revoked: 'bad' }); // valid is only the server’s word

/**
 * @param {{jti: string, agentId: string, onDone: () => void, onClose: () => void}} props
 */
export function Revoke({ jti, agentId, onDone, onClose }) {
  /** @param {string} reason */
  const act = async (reason) => {
    await call(passportRevoked, 'POST', `/v1/passports/${encodeURIComponent(jti)}/revoke`, {
      asked: { jti },
      body: reason ? { reason } : {},
    });
    onDone();
  };
  return html`
    <${Confirm} title="Revoke this passport?" action="Revoke" reasonLabel="Reason (optional)" act=${act}
      onClose=${onClose}>
      <p>The service rejects passport <code><${Text} of=${jti} /></code> of <strong>
        <${Text} of=${agentId} /></strong> at once. An offline verifier notices when it next checks the status. This
          can’t be undone.</p>
    <//>`;
}

/** @param {string} jti */
async function signedStatus(jti) {
  const answer = await callText('GET', `/v1/ocsp/${encodeURIComponent(jti)}`);
  const key = await companyKey(signedIn().company.companyId);
  return { key, ...(await checkStatus(answer, key, { jti, now: Date.now() / 1000 })) };
}

/**
 * The service's signed statement about a passport, checked here, once it is asked for.
 * @param {{jti: string}} props
 */
function Status({ jti }) {
  const [found, setFound] = useState(/** @type {Awaited<ReturnType<typeof signedStatus>> | null} */ (null));
  const [run, busy, error] = useTask();
  const assess = useAssess(found?.key ?? signedIn().key);
  const ask = () => run(async () => setFound(await signedStatus(jti)));
  return html`
    ${
      found &&
      html`<span data-signed-status=${found.status}>
      <${Badge} tone=${assess(found.status === 'valid', PART).tone}>
        ${found.status === 'valid' ? 'not revoked' : found.status}, signed<//>
      <span class="small muted" title=${found.checkedAt}>${timeText(found.checkedAt)}</span></span>`
    }
    ${error && html`<span class="small bad-text" role="alert">The signed status is invalid: ${error.message}</span>`}
    <button type="button" class="button small quiet" disabled=${busy}
      aria-label=${visible(`Get the signed status of passport ${jti}`)} onClick=${ask}>
      ${found ? 'Refresh' : 'Signed status'}</button>`;
}

/**
 * @param {{passport: ListedPassport, ofAgent?: boolean, onRevoke: (passport: ListedPassport) =>
 *   void}} props
 */
function Row({ passport: p, ofAgent, onRevoke }) {
  return html`
    <tr data-jti=${visible(p.jti)} data-status=${p.status}>
      <td data-label="Passport">${!ofAgent
        && html`<div><a href=${href('agents', p.agentId)}><${Text} of=${p.agentId} /></a></div>`}
        <code class=${ofAgent ? '' : 'muted'}><${Text} of=${p.jti} /></code>
        ${p.revokedAt
          && html`<div class="small muted">revoked ${timeText(p.revokedAt)}
          ${p.reason && html`: <${Text} of=${p.reason} />`}</div>`}</td>
      <td data-label="Status"><${Badge} tone=${TONES[p.status]}>${p.status}<//></td>
      <td data-label="Expires" title="issued ${p.issuedAt}, expires ${p.expiresAt}">${timeText(p.expiresAt)}</td>
      <td data-label="Scopes"><span class="chips">
        ${p.scopes.map((s) => html`<span class="chip"><${Text} of=${s} /></span>`)}</span></td>
      <td><div class="buttons"><${Status} jti=${p.jti} />
        ${p.status === 'valid'
          && html`<button type="button" class="button danger small" aria-label=${visible(`Revoke passport ${p.jti}`)}
            onClick=${() => onRevoke(p)}>Revoke</button>`}</div></td>
    </tr>`;
}

/**
 * paged: of usePaged; empty: the text where there is none; ofAgent: whether all are of the agent
 * that the page is about.
 * @param {{paged: Paged<ListedPassport>, empty: string, ofAgent?: boolean, onChange?: () =>
 *   void}} props
 */
export function PassportTable({ paged, empty, ofAgent, onChange }) {
  const { items, more, retry, hasMore, busy, error } = paged;
  const compared = useListedPage('passport', paged, listedPassport, (all) => ({
    since: all.map(({ issuedAt }) => issuedAt).sort()[0], ...(ofAgent && { q: all[0].agentId }),
  }));
  const [revoking, setRevoking] = useState(/** @type {ListedPassport | null} */ (null));
  return html`
    <${Failure} error=${error} retry=${retry} />
    <${Listed} of=${compared} page />
    ${items?.length === 0 && html`<p class="empty">${hasMore ? 'None among the newest 100,000 passports.' : empty}</p>`}
    ${items && items.length > 0 && html`
      <table class="table passports">
        <thead><tr><th>Passport</th><th>Status</th><th>Expires</th><th>Scopes</th>
          <th><span class="visually-hidden">Actions</span></th></tr></thead>
        <tbody>${items.map((p) => html`<${Row} key=${p.jti} passport=${p} ofAgent=${ofAgent}
          onRevoke=${setRevoking} />`)}</tbody>
      </table>`}
    ${hasMore
      && html`<div><button type="button" class="button" disabled=${busy} onClick=${more}>
      ${items?.length ? 'Show more' : 'Search further back'}</button></div>`}
    ${revoking
      && html`<${Revoke} jti=${revoking.jti} agentId=${revoking.agentId} onDone=${onChange}
        onClose=${() => setRevoking(null)} />`}`;
}
