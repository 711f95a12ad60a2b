// @ts-check
// The keys of all agents, as the control log says: whose, since when, and which are revoked. Each
// record is checked here; that the server left none out, a report shows.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { agentKeys } from '../core/agent_keys_said.js';
import { timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, Page, useTask } from '../parts/basic.js';
import { Text } from '../parts/text.js';

/** @param {{of: Awaited<ReturnType<typeof agentKeys>>[number]}} props */
const Row = ({ of: { agentId, thumbprint, label, enrolledAt, expiresAt, revokedAt, reason } }) => html`
  <tr data-key=${visible(thumbprint)}>
    <td data-label="Agent"><a href=${href('agents', agentId)}><${Text} of=${agentId} /></a></td>
    <td data-label="Key">${label ? html`<span title=${visible(thumbprint)}><${Text} of=${label} /></span>
      <span class="print-only"> (<code><${Text} of=${thumbprint} /></code>)</span>`
      : html`<code><${Text} of=${thumbprint} /></code>`}</td>
    <td data-label="Enrolled" title=${enrolledAt}>${timeText(enrolledAt, 16)}</td>
    <td data-label="State">${revokedAt ? html`<${Badge}>revoked<//> <span class="small muted" title=${revokedAt}>
      ${timeText(revokedAt, 16)}${reason && html`: <${Text} of=${reason} />`}</span>`
      : expiresAt === null ? 'does not expire'
        : html`${Date.parse(expiresAt) <= Date.now() ? html`<${Badge}>expired<//> ` : 'expires '}
          <span title=${expiresAt}>${timeText(expiresAt, 16)}</span>`}</td>
  </tr>`;

export function AllAgentKeys() {
  const [keys, setKeys] = useState(/** @type {Awaited<ReturnType<typeof agentKeys>> | null} */ (null));
  const [run, , error, retry] = useTask();
  useEffect(() => { run(async () => setKeys(await agentKeys(''))); }, []);
  return html`
    <${Page} title="Agent keys" lead="With a key of its own an agent signs what it does. These are the keys that the
      control log has; enrol and revoke them on the agent’s page.">
      <${Failure} error=${error} retry=${retry} />
      <section class="card" aria-label="Keys of all agents" data-agent-keys=${keys?.length ?? ''}>
        ${keys?.length === 0 && html`<p class="empty">No agent has a key of its own yet.</p>`}
        ${keys && keys.length > 0 && html`
          <table class="table passports">
            <thead><tr><th>Agent</th><th>Key</th><th>Enrolled</th><th>State</th></tr></thead>
            <tbody>${keys.map((one) => html`<${Row} key=${one.thumbprint} of=${one} />`)}</tbody>
          </table>`}
      </section><//>`;
}
