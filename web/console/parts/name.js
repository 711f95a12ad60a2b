// @ts-check
// A credential by the name that people gave it. Its fingerprint is in the title, and on paper.
import { html, useEffect } from '../vendor/preact-htm.js';
import { names, readNames } from '../core/names.js';
import { useStore } from '../core/store.js';
import { visible } from '../lib/visible.js';
import { Text } from './text.js';

/** @param {{of: string}} props */
export function CredentialName({ of }) {
  const { names: known } = useStore(names);
  useEffect(() => { readNames().catch(() => {}); }, []); // a fingerprint without a name is shown as it is
  const name = known.get(of);
  if (of.startsWith('person:')) return html`<${Text} of=${of.slice('person:'.length)} />`;
  if (!name) return html`<code>${visible(of)}</code>`;
  return html`<span title=${visible(of)}>${visible(name)}</span><span class="print-only"> (<code>${visible(of)}</code>)
    </span>`;
}
