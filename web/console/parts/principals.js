// @ts-check
// A delegation as a chain: from the one acted for, down to the one that acts.
import { html } from '../vendor/preact-htm.js';
import { Text } from './text.js';

/** @param {{chain: string[]}} props */
export function Principals({ chain }) {
  /** @param {number} i */
  const role = (i) => {
    if (chain.length === 1) return 'acts for itself';
    if (i === 0) return 'acted for';
    return i === chain.length - 1 ? 'acts' : `actor ${i}`;
  };
  return html`
    <ol class="principals" aria-label="Delegation chain, from the subject to the acting principal">
      ${chain.map((name, i) => html`<li><span class="role">${role(i)}</span><code><${Text} of=${name} /></code></li>`)}
    </ol>`;
}
