// @ts-check
// Passports: look into a token, revoke or rotate it, and the list of those issued.
import { html, useState } from '../vendor/preact-htm.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { Field, Notice, Page } from '../parts/basic.js';
import { Drop } from '../parts/drop.js';
import { lazy } from '../parts/lazy.js';
import { Text } from '../parts/text.js';
import { Inspector, bench } from './passport_inspector.js';

// What needs a server is loaded later; the inspector works without one.
const Issued = lazy('', () => import('./issued_passports.js').then((m) => m.Issued));
const Rotate = lazy('', () => import('./issued_passports.js').then((m) => m.Rotate));
const Revoke = lazy('', () => import('../parts/passport_table.js').then((m) => m.Revoke));

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
