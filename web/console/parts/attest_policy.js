// @ts-check
// The policy that says what may be recorded in an agent's name, or in that of any agent: what it
// is, and its change, with what that would have refused.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { setPolicy, tryPolicy } from '../core/agent_keys.js';
import { count, plural } from '../core/format.js';
import { href } from '../core/router.js';
import { policiesOf } from '../core/words.js';
import { Failure, useTask } from './basic.js';
import { Confirm } from './dialogs.js';
import { Text } from './text.js';

const SHOWN = 20; // agents of a dry run

/** @param {{of: Awaited<ReturnType<typeof tryPolicy>>}} props */
const DryRun = ({ of: { records, refused, complete, agents } }) => html`
  <div class="stack tight" data-refused=${refused}>
    <p><strong>${refused
      ? `${count(refused)} of the ${plural(records, 'record')} of the last 24 hours would have been refused.`
      : 'Nothing of the last 24 hours would have been refused.'}</strong>
      ${!complete && ` Only the newest ${count(records)} were counted.`}</p>
    ${agents.length > 0 && html`<ul class="differences small">${agents.slice(0, SHOWN).map((one) => html`
      <li><a href=${href('agents', one.agentId)}><${Text} of=${one.agentId} /></a>: ${count(one.refused)}</li>`)}</ul>`}
    ${agents.length > SHOWN && html`<p class="small muted">and ${count(agents.length - SHOWN)} more agents</p>`}
  </div>`;

/**
 * agentId: '' for the policy of the company.
 * @param {{agentId: string, version?: number, onChange: () => void}} props
 */
export function AttestPolicy({ agentId, version = 0, onChange }) {
  const [now, setNow] = useState(/** @type {Policies | null} */ (null));
  const [tried, setTried] = useState(/** @type {Awaited<ReturnType<typeof tryPolicy>> | null} */ (null));
  const [ending, setEnding] = useState(false);
  const [run, busy, error] = useTask();
  const load = () => run(async () => setNow(await policiesOf(agentId)));
  useEffect(() => { load(); }, [agentId, version]);
  /** @param {'any' | 'key'} attest */
  const set = async (attest) => {
    await setPolicy(agentId, attest);
    await load();
    onChange();
  };
  const own = now && (agentId ? now.own : now.company);
  const whose = agentId ? 'this agent' : 'every agent';
  return html`
    <section class="card" aria-label="Policy" data-policy=${own ?? ''}>
      <div class="card-head"><h2>Policy</h2></div>
      <${Failure} error=${error} retry=${load} />
      ${own && html`
        <p>${own === 'key' ? html`In the name of ${whose}, <strong>only a key of the agent</strong> may speak. All else
          is refused.` : html`In the name of ${whose}, <strong>any credential</strong> that may attest can speak.`}</p>
        ${agentId && now.company === 'key' && html`<p class="small muted">The policy of the company demands the agent’s
          key in any case.</p>`}
        <div>${own === 'any'
          ? html`<button type="button" class="button" disabled=${busy}
            onClick=${() => run(async () => setTried(await tryPolicy(agentId)))}>Require the agent’s key…</button>`
          : html`<button type="button" class="button danger" onClick=${() => setEnding(true)}>
            Allow any credential…</button>`}</div>`}
      ${tried && html`
        <${Confirm} title="Require the agent’s key?" action="Require the key" onClose=${() => setTried(null)}
          act=${() => set('key')}>
          <p>From now on only what a key of the agent has signed is recorded in the name of ${whose}.</p>
          <${DryRun} of=${tried} /><//>`}
      ${ending && html`
        <${Confirm} title="Allow any credential?" action="Allow any credential" onClose=${() => setEnding(false)}
          act=${() => set('any')}>
          <p>The holder of any company key that may attest can then record in the name of ${whose}.</p><//>`}
    </section>`;
}
