// @ts-check
// The company's signing key: its fingerprint, and the field that confirms it.
import { html } from '../vendor/preact-htm.js';
import { timeText } from '../core/format.js';
import { useSignedIn } from '../core/session.js';
import { useStore } from '../core/store.js';
import { confirmedAt, trust } from '../core/trust.js';
import { visible } from '../lib/visible.js';
import { Page } from '../parts/basic.js';
import { ConfirmKey, Fingerprint, KeyBadge, useKeyState } from '../parts/key_trust.js';
import { Text } from '../parts/text.js';
import { table } from '../lib/table.js';

const TITLES = table({
  confirmed: 'You confirmed this key',
  unconfirmed: 'Confirm the signing key',
  other: 'The signing key was replaced',
});

export function SigningKey() {
  const { company, key } = useSignedIn();
  const is = useKeyState(key);
  const at = confirmedAt(key, useStore(trust));
  return html`
    <${Page} title="Signing key" lead=${html`Everything here is checked with the key that this server publishes for
      ${' '}<${Text} of=${company.companyId} />. Only the company can confirm that it is theirs.`}>
      <section class="card narrow" data-company-key=${is}>
        <div class="card-head"><h2>${TITLES[is]}</h2>
          ${is !== 'confirmed' && html`<${KeyBadge} keyOf=${key} />`}</div>
        <${Fingerprint} of=${key} />
        ${is === 'confirmed' && at && html`<p class="small muted" title=${at}>Confirmed in this browser at
          ${' '}${timeText(at)}.</p>`}
        ${is !== 'confirmed' && html`<p class="small muted">Typed on the server’s own machine, this prints it:
          ${' '}<code>curl -s "${location.origin}/v1/ca/public-key?companyId=${visible(company.companyId)}"</code></p>`}
        <${ConfirmKey} keyOf=${key} action="Confirm key" />
        <p class="small muted">Stored in this browser. Green: verified by this browser with a key that you confirmed.
          Amber: verified, key unconfirmed. Claims of the server are never green.</p>
        <dl class="facts"><dt>SPIFFE ID</dt><dd><code><${Text} of=${company.spiffeId} /></code></dd><dt>key ID</dt>
          <dd><code>${key.kid}</code></dd></dl>
      </section>
    <//>`;
}
