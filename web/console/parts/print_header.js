// @ts-check
// What each print begins with: of which company and server it is, with which key it was checked,
// whether this browser confirmed that key, and when it was printed.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { timeText } from '../core/format.js';
import { session } from '../core/session.js';
import { useStore } from '../core/store.js';
import { confirmedAt, keyStateOf, trust } from '../core/trust.js';
import { Text } from './text.js';

const PAPER = matchMedia('print');

/**
 * @param {NamedKey} key
 * @param {TrustState} state
 */
function confirmation(key, state) {
  const is = keyStateOf(key, state);
  if (is === 'other') return 'not the key that this browser knows';
  if (is === 'unconfirmed') return 'not confirmed in this browser';
  const at = confirmedAt(key, state);
  return at ? `confirmed in this browser at ${timeText(at)}` : 'confirmed in this browser';
}

export function PrintHeader() {
  const { company, key } = useStore(session);
  const state = useStore(trust);
  const [at, setAt] = useState(() => new Date());
  useEffect(() => {
    const now = () => setAt(new Date());
    // What is printed is laid out right after beforeprint, before a change of the medium is heard
    // of.
    window.addEventListener('beforeprint', now);
    PAPER.addEventListener('change', now);
    return () => {
      window.removeEventListener('beforeprint', now);
      PAPER.removeEventListener('change', now);
    };
  }, []);
  return html`
    <div class="print-header print-only">
      <p>${company && key ? html`<strong><${Text} of=${company.companyId} /></strong>` : 'Not signed in'}
        ${' '}at <code>${location.origin}</code>, printed at <span data-printed>${timeText(at.toISOString())}</span></p>
      ${company && key && html`<p>Key <code>${key.fingerprint}</code>
        , <span data-printed-key=${keyStateOf(key, state)}>${confirmation(key, state)}</span></p>`}
    </div>`;
}
