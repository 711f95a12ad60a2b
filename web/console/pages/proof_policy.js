// @ts-check
// A policy (c2sp.org/tlog-policy): whose checkpoints are taken, and who must have cosigned them.
import { html, useState } from '../vendor/preact-htm.js';
import { readPolicy } from '../lib/policy.js';
import { Field, Notice } from '../parts/basic.js';
import { Text } from '../parts/text.js';

/**
 * text as it was entered, policy as read, error where it is none; from is the name of the file that
 * it came as, and '' where the person entered it.
 */
/** @type {EnteredPolicy} */
export const NO_POLICY = { text: '', policy: null, error: '', from: '' };

/**
 * A policy that was entered, or came as a file.
 * @param {string} text
 * @param {string} [from]
 * @returns {Promise<EnteredPolicy>}
 */
export async function policyOf(text, from = '') {
  if (!text.trim()) return NO_POLICY;
  try {
    return { text, policy: await readPolicy(text.endsWith('\n') ? text : `${text}\n`), error: '', from };
  } catch (err) {
    return { text, policy: null, error: err.message, from };
  }
}

/**
 * The field in which a policy is entered that the person has from elsewhere.
 * @param {{policy: EnteredPolicy, setPolicy: (policy: EnteredPolicy) => void}} props
 */
export function PolicyField({ policy, setPolicy }) {
  const [typed, setTyped] = useState(policy.from ? '' : policy.text);
  /** @param {string} text */
  const enter = async (text) => {
    setTyped(text);
    setPolicy(await policyOf(text));
  };
  return html`
    <details class="policy" open=${policy.text !== ''}>
      <summary>Check against a policy</summary>
      <div class="stack tight">
        <${Field} label="Your policy"
          hint="Lines of c2sp.org/tlog-policy: log, witness, group, quorum. Get it from another source than the file: it
            says whose cosignatures you require.">
          ${(p) => html`<textarea ...${p} class="input" name="policy" spellcheck="false" value=${typed}
            onInput=${(e) => enter(e.target.value)}></textarea>`}
        <//>
        ${policy.error && html`<${Notice} kind="bad">${policy.from && `${policy.from}: `}${policy.error}<//>`}
        ${policy.from && !policy.error && html`
          <p class="small muted">The policy in <strong><${Text} of=${policy.from} /></strong> came as a file, perhaps
            with the evidence, so it says only what the sender requires. Enter a policy that you trust to replace
            it.</p>
          <pre class="code" tabindex="0" aria-label="The policy from the file"><${Text} of=${policy.text} /></pre>`}
      </div>
    </details>`;
}
