// @ts-check
// The sessions of an agent: its runs, as far as they are recorded.
import { html, useEffect } from '../vendor/preact-htm.js';
import { sessionPage, sessionsAsked } from '../core/sessions.js';
import { usePaged } from '../parts/pages_of.js';
import { SessionTable } from '../parts/session_table.js';

/** @param {{agentId: string, version: number, companyKey: ServiceKey}} props */
export function AgentSessions({ agentId, version, companyKey }) {
  const paged = usePaged(sessionPage, '/v1/sessions', 'sessions', { agentId }, sessionsAsked);
  const { items, reload, busy } = paged;
  useEffect(() => { if (version) reload(); }, [version]);
  return html`
    <section class="card across" aria-label="Sessions of this agent" data-sessions=${items?.length ?? ''}>
      <div class="card-head"><h2>Sessions</h2>
        <button type="button" class="button quiet small" disabled=${busy} onClick=${reload}>Refresh</button></div>
      <p class="small muted">Runs of the agent. The list is claimed by the server; a session is checked where it is
        opened, and its file when it is saved, or with attestd check anywhere. Whether a session is complete can be
        proven only where the agent has signed each step.</p>
      <${SessionTable} paged=${paged} companyKey=${companyKey} none="No sessions yet." />
    </section>`;
}
