// @ts-check
// The texts of the policies that made a decision, as they were then: from control records that this
// browser checks, whose hash of the set must be the one that the decision names.
import { html, useState } from '../vendor/preact-htm.js';
import { policiesAt } from '../core/cedar.js';
import { useSignedIn } from '../core/session.js';
import { Failure, isOpen, useTask } from './basic.js';
import { Change } from './change.js';
import { useAssess } from './key_trust.js';
import { Text } from './text.js';

/** @param {{of: Decision, open?: boolean}} props */
export function DecisionRules({ of, open }) {
  const { key } = useSignedIn();
  const assess = useAssess(key);
  const [found, setFound] = useState(/** @type {CedarSet | null} */ (null));
  const [run, busy, error] = useTask();
  const load = () => run(async () => setFound(await policiesAt(of)));
  const ids = [...new Set(of.by.map((id) => id.split('#')[0]))];
  return html`
    <details open=${open} data-rules=${found ? ids.length : ''}
      onToggle=${(/** @type {Event} */ event) => isOpen(event) && !found && !busy && load()}>
      <summary>The policies that decided, as they were</summary>
      <${Failure} error=${error} retry=${load} />
      ${!found && !error && html`<p class="muted">Loading …</p>`}
      ${found && ids.map((id) => {
        const policy = found.policies.get(id);
        return policy ? html`
          <div class="stack tight" key=${id} data-rule=${id}><h4><code><${Text} of=${id} /></code></h4>
            <pre class="code" tabindex="0" aria-label="Text of ${id}"><${Text} of=${policy.cedar} /></pre>
            <ul class="change-list"><${Change} change=${policy.change} assess=${assess} /></ul></div>`
          : html`<p class="bad-text" key=${id}>The set of revision ${found.revision} has no policy
            <code><${Text} of=${id} /></code>.</p>`;
      })}
    </details>`;
}
