// @ts-check
// The policy that a person keeps for a company, and the field that takes it.
import { forgetPolicy, savePolicy, policies, policyText } from '../core/policy.js';
import { useStore } from '../core/store.js';
import { readPolicy } from '../lib/policy.js';
import { visible } from '../lib/visible.js';
import { html, useState } from '../vendor/preact-htm.js';
import { CopyButton, Failure, Field, Notice, useResult, useTask } from './basic.js';
import { Drop } from './drop.js';

/**
 * The policy that is stored for a company: {text, policy, error}, with policy as readPolicy gives
 * it, or null.
 * @param {string} companyId
 */
export function usePolicy(companyId) {
  useStore(policies);
  const text = policyText(companyId);
  const read = useResult(
    async () =>
      text
        ? readPolicy(text).then(
            (policy) => ({ policy, error: '' }),
            (error) => ({ policy: null, error: String(error.message) }),
          )
        : null,
    [text],
  );
  return { text, policy: read?.policy ?? null, error: read?.error ?? '' };
}

/** @param {{companyId: string, lines: NoteLine[]}} props */
function Entry({ companyId, lines }) {
  const [text, setText] = useState('');
  const [run, busy, error] = useTask();
  /** @param {string} given */
  const save = (given) => run(() => savePolicy(companyId, given));
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    save(text);
  };
  return html`
    <form class="stack" onSubmit=${submit}>
      <${Drop} what="a policy" largest=${1 << 20} onText=${save}><p>Drop a policy file here, or paste it below.</p><//>
      <${Field} label="Policy"
        hint="c2sp.org/tlog-policy: lines log, witness, group and quorum. Get it from the witnesses or write it
          yourself; don’t take it from this server.">
        ${(p) => html`<textarea ...${p} class="input" name="policy" required spellcheck="false" autocomplete="off"
          value=${text} onInput=${(e) => setText(e.target.value)}></textarea>`}<//>
      <div class="buttons"><button class="button primary" disabled=${busy}>Save policy</button></div>
      <${Failure} error=${error} />
      <details><summary class="small">Lines for these logs, to start a policy</summary>
        <pre class="code" tabindex="0" aria-label="Lines of a policy for these logs">${lines}</pre>
        <div class="buttons"><${CopyButton} text=${lines} what="lines of a policy" /></div>
        <p class="small muted">Claimed by the server, not verified: compare the key with the one that you confirmed. One
          line covers both logs.</p>
      </details>
    </form>`;
}

/**
 * What was kept, or the field for it. lines are those with which a policy for the company may
 * begin.
 * @param {{companyId: string, lines: NoteLine[]}} props
 */
export function PolicyCard({ companyId, lines }) {
  const { text, policy, error } = usePolicy(companyId);
  return html`
    <section class="card" data-policy=${policy ? 'kept' : 'none'}>
      <div class="card-head"><h2>Your policy</h2>
        ${text && html`<button type="button" class="button quiet small" onClick=${() => forgetPolicy(companyId)}>
        Remove policy</button>`}</div>
      <p class="small muted">The witnesses that you choose see every checkpoint before you do, and cosign only one
        history. A policy names them and says how many must cosign. It is stored in this browser.</p>
      ${error && html`<${Notice} kind="bad">The stored policy is invalid: ${visible(error)}<//>`}
      ${text ? html`<pre class="code" tabindex="0" aria-label="Your policy">${visible(text)}</pre>`
        : html`<${Entry} ...${{ companyId, lines }} />`}
    </section>`;
}
