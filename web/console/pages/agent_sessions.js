// @ts-check
// The sessions of an agent: its runs, as far as it has signed each step. A session is saved as one
// file, which is checked here on the way.
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { sessionFile, sessionPage, sessionsAsked } from '../core/agent_keys.js';
import { count, plural, short, timeText } from '../core/format.js';
import { PART } from '../core/verdict.js';
import { checkSession } from '../lib/evidence/session.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, useTask } from '../parts/basic.js';
import { useAssess } from '../parts/key_trust.js';
import { usePaged } from '../parts/pages_of.js';
import { save } from '../parts/save.js';
import { Text } from '../parts/text.js';
import { useAgentTrust } from '../parts/word.js';

const CHECKED = 64 << 20; // bytes of a file that is checked here
const SHOWN = 10; // ranges that are missing

/** @param {ListedSession} session */
const missingOf = ({ missing }) =>
  missing.slice(0, SHOWN).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(', ') +
  (missing.length > SHOWN ? ' and more' : '');

/**
 * Saves the file of a session, and says what its check found; null where it is too long for that.
 * @param {ListedSession} session
 * @param {ServiceKey} companyKey
 */
async function saved(session, companyKey) {
  const { agentId, sid, kid } = session;
  const file = await sessionFile(session);
  save(`session-${agentId}-${sid}.jsonl`, 'application/jsonl', file);
  if (file.size > CHECKED) return { size: file.size };
  const bytes = new Uint8Array(await file.arrayBuffer());
  const check = await checkSession(bytes, { fingerprint: companyKey.fingerprint });
  const { companyId } = companyKey;
  const { header } = check;
  const asked = header?.companyId === companyId && header.agentId === agentId &&
    header.sid === sid && header.kid === kid;
  const reason = check.verdict === 'fails' ? check.reason : asked ? '' : 'it is of another session';
  const chain = check.agentKeys?.chain.map(({ key }) => key.thumbprint) ?? [];
  /** @type {Word} */
  const word = { is: reason ? 'fails' : 'agent', reason, companyId, agentId, chain };
  return { size: file.size, word, state: reason ? '' : check.state() };
}

/** @param {{session: ListedSession, companyKey: ServiceKey}} props */
function Row({ session: s, companyKey }) {
  const assess = useAssess(companyKey);
  const judge = useAgentTrust();
  const [found, setFound] = useState(/** @type {Awaited<ReturnType<typeof saved>> | null} */ (null));
  const [run, busy, error] = useTask();
  const judged = found?.word && judge(found.word, assess(true, PART));
  return html`
    <tr data-session=${visible(s.sid)} data-state=${s.state}>
      <td data-label="Session"><code><${Text} of=${s.sid} /></code>
        <div class="small muted" title=${visible(s.kid)}>key ${visible(short(s.kid, 8, 4))}</div></td>
      <td data-label="State"><${Badge} tone=${s.state === 'gap' ? 'bad' : ''}>
        ${s.state === 'gap' ? `missing ${missingOf(s)}` : s.state === 'open' ? `open at ${s.last}` : s.state}<//></td>
      <td data-label="Records">${count(s.records)}</td>
      <td data-label="Time" title="${s.firstAt} to ${s.lastAt}">${timeText(s.firstAt)}
        <div class="small muted">to ${timeText(s.lastAt)}</div></td>
      <td><div class="buttons">
        ${judged && html`<span data-checked-session=${judged.tone}><${Badge} tone=${judged.tone}>
          ${judged.tone === 'bad' ? judged.is : visible(found.state)}<//></span>`}
        <button type="button" class="button small" disabled=${busy}
          aria-label=${visible(`Save file of session ${s.sid}`)}
          onClick=${() => run(async () => setFound(await saved(s, companyKey)))}>Save file</button></div>
        ${found?.word?.reason && html`<p class="small bad-text" role="alert">The file fails:
          <${Text} of=${found.word.reason} /></p>`}
        ${found && !found.word && html`<p class="small muted">Saved without a check: it is too long for this page. Use
          attestd check.</p>`}
        <${Failure} error=${error} /></td>
    </tr>`;
}

/** @param {{agentId: string, version: number, companyKey: ServiceKey}} props */
export function AgentSessions({ agentId, version, companyKey }) {
  const paged = usePaged(sessionPage, '/v1/sessions', 'sessions', { agentId }, sessionsAsked);
  const { items, more, retry, reload, hasMore, busy, error } = paged;
  useEffect(() => { if (version) reload(); }, [version]);
  return html`
    <section class="card across" aria-label="Sessions of this agent" data-sessions=${items?.length ?? ''}>
      <div class="card-head"><h2>Sessions</h2>
        <button type="button" class="button quiet small" disabled=${busy} onClick=${reload}>Refresh</button></div>
      <p class="small muted">Runs of the agent in which it has signed each step. The list is claimed by the server; a
        file is checked here when it is saved, and with attestd check anywhere.</p>
      <${Failure} error=${error} retry=${retry} />
      ${items?.length === 0 && html`<p class="empty">No sessions yet.</p>`}
      ${items && items.length > 0 && html`
        <table class="table passports">
          <thead><tr><th>Session</th><th>State</th><th>Records</th><th>Time</th>
            <th><span class="visually-hidden">File</span></th></tr></thead>
          <tbody>${items.map((s) => html`<${Row} key=${`${s.kid} ${s.sid}`} session=${s}
            companyKey=${companyKey} />`)}</tbody>
        </table>`}
      ${hasMore && html`<div class="buttons"><button type="button" class="button" disabled=${busy} onClick=${more}>
        Show more</button><span class="small muted">${plural(items?.length ?? 0, 'session')}</span></div>`}
    </section>`;
}
