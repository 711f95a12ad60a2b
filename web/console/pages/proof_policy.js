// A policy (c2sp.org/tlog-policy): whose checkpoints are taken, and who must have cosigned them.
import { html, useState } from '../vendor/preact-htm.js';
import { readPolicy } from '../lib/policy.js';
import { Field, Notice } from '../parts/basic.js';
import { Text } from '../parts/text.js';

/** text as it was entered, policy as read, error where it is none; from is the name of the file that it came as, and '' where the person entered it. */
export const NO_POLICY = { text: '', policy: null, error: '', from: '' };

/** A policy that was entered, or came as a file. */
export async function policyOf(text, from = '') {
  if (!text.trim()) return NO_POLICY;
  try {
    return { text, policy: await readPolicy(text.endsWith('\n') ? text : `${text}\n`), error: '', from };
  } catch (err) {
    return { text, policy: null, error: err.message, from };
  }
}

/** The field in which a policy is entered that the person has from elsewhere. */
export function PolicyField({ policy, setPolicy }) {
  const [typed, setTyped] = useState(policy.from ? '' : policy.text);
  const enter = async (text) => {
    setTyped(text);
    setPolicy(await policyOf(text));
  };
  return html`
    <details class="policy" open=${policy.text !== ''}>
      <summary>Judge it by a policy</summary>
      <div class="stack tight">
        <${Field} label="Policy that you keep" hint="Lines of c2sp.org/tlog-policy: log, witness, group, quorum. From elsewhere than the file: it says whose cosignatures you want to see.">
          ${(p) => html`<textarea ...${p} class="input" name="policy" spellcheck="false" value=${typed} onInput=${(e) => enter(e.target.value)}></textarea>`}
        <//>
        ${policy.error && html`<${Notice} kind="bad">${policy.from && `${policy.from}: `}${policy.error}<//>`}
        ${policy.from && !policy.error && html`
          <p class="small muted">The policy in <strong><${Text} of=${policy.from} /></strong> came as a file, with the evidence perhaps: it says what its sender asks for. Enter one that you know to replace it.</p>
          <pre class="code" tabindex="0" aria-label="The policy that came as a file"><${Text} of=${policy.text} /></pre>`}
      </div>
    </details>`;
}
