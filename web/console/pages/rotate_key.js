// @ts-check
// The key that signs for the company, and its change. Only an admin gets here.
import { html, useState } from '../vendor/preact-htm.js';
import { keyRotated } from '../core/answers.js';
import { call } from '../core/api.js';
import { NOTHING } from '../core/asked.js';
import { refreshKey, useSignedIn } from '../core/session.js';
import { Notice, Value } from '../parts/basic.js';
import { Confirm } from '../parts/dialogs.js';
import { KeyBadge } from '../parts/key_trust.js';

const PIN = 'Anyone who pinned the fingerprint of the old key must pin the new one.';

/** @param {DialogProps} dialog */
const Ordinary = (dialog) => html`
  <${Confirm} title="Rotate the signing key?" action="Rotate now" ...${dialog}>
    <p>A new key signs from the next record on. Signatures of the old key stay valid, and its tokens verify until they
      expire. Both keys sign the rotation. The token keys rotate too.</p>
    <p>${PIN} The old key is deleted. This can’t be undone.</p>
  <//>`;

/** @param {DialogProps} dialog */
const Compromised = (dialog) => html`
  <${Confirm} title="Declare the signing key compromised?" action="Rotate and reject its tokens" ...${dialog}>
    <p>A new key signs from the next record
      on. <strong>Every SVID, delegation and passport that was signed before is rejected at once</strong>
      , also those of keys retired in the last 24 hours: all agents need new ones. Tokens for others are no longer
      vouched for either. Records stay as they are.</p>
    <p>${PIN} Anyone who checks tokens offline must fetch the keys again. This can’t be undone.</p>
  <//>`;

/**
 * The fingerprint is taken from the list of keys, as far as each of them is proven, and never from
 * the answer alone.
 * @param {{made: RotatedNow, companyKey: CompanyKey}} props
 */
function Rotated({ made, companyKey }) {
  const proven = companyKey.ring?.some((k) => k.fingerprint === made.fingerprint);
  if (!proven)
    return html`<${Notice} kind="bad">
    The key was rotated, but the server’s list of keys does not prove that ${made.fingerprint} follows the previous
    key.<//>`;
  return html`
    <${Notice}>A new key signs from record ${made.index} on.
      ${made.compromised && ' No token signed before it is accepted any more.'} ${PIN} Send them its fingerprint over
      another channel than this server:<//>
    <div data-rotated=${made.compromised ? 'compromised' : 'ordinary'}>
      <${Value} value=${made.fingerprint} what="fingerprint of the new key" /></div>`;
}

export function RotateKey() {
  const { company, key } = useSignedIn();
  const [asks, setAsks] = useState(null); // one of the two dialogs
  const [made, setMade] = useState(null);
  const act = async () => {
    const compromised = asks.dialog === Compromised;
    const answer = await call(keyRotated, 'POST', '/v1/companies/rotate-keys', {
      asked: NOTHING,
      body: { compromised },
    });
    // It is rotated all the same, and asked for again with the next record.
    await refreshKey(company.companyId).catch(() => {});
    setMade({ ...answer, compromised });
  };
  return html`
    <section class="card" aria-label="Signing key">
      <div class="card-head"><h2>Signing key</h2><${KeyBadge} keyOf=${key} /></div>
      <p class="muted small">It signs the company’s records, tokens and checkpoints, and never leaves the server.</p>
      <dl class="facts">
        <dt>key ID</dt><dd><code>${key.kid}</code></dd>
        <dt>fingerprint</dt><dd><code>${key.fingerprint}</code></dd>
      </dl>
      ${made && html`<${Rotated} made=${made} companyKey=${key} />`}
      <div class="buttons">
        <button type="button" class="button" onClick=${() => setAsks({ dialog: Ordinary })}>Rotate key</button>
        <button type="button" class="button danger" onClick=${() => setAsks({ dialog: Compromised })}>
          Declare compromised</button>
      </div>
      ${asks && html`<${asks.dialog} act=${act} onClose=${() => setAsks(null)} />`}
    </section>`;
}
