// @ts-check
// Saves a session as one file, and checks it here on the way: the file of its statements or, where
// it has none, the report of its time.
import { html, useState } from '../vendor/preact-htm.js';
import { strangerTo } from '../core/session_calls.js';
import { lackingIn, toneOfSession, wholeOfFile } from '../core/session_tone.js';
import { sessionFile } from '../core/sessions.js';
import { PART } from '../core/verdict.js';
import { checkSession } from '../lib/evidence/session.js';
import { checkReport, linesOf } from '../lib/report.js';
import { visible } from '../lib/visible.js';
import { Badge, Failure, useTask } from './basic.js';
import { useAssess } from './key_trust.js';
import { save } from './save.js';
import { Text } from './text.js';
import { useAgentTrust } from './word.js';

const CHECKED = 64 << 20; // bytes of a file that is checked here

/**
 * records: indexes of those that were shown, which the file must hold.
 * @param {ListedSession} session
 * @param {Blob} file
 * @param {ServiceKey} companyKey
 * @param {number[]} records
 */
async function checkSigned(session, file, companyKey, records) {
  const { agentId, sid, kid } = session;
  const check = await checkSession(new Uint8Array(await file.arrayBuffer()), { fingerprint: companyKey.fingerprint });
  const { companyId } = companyKey;
  const { header } = check;
  const asked = header?.companyId === companyId && header.agentId === agentId &&
    header.sid === sid && header.kid === kid;
  const reason = check.verdict === 'fails' ? check.reason
    : asked ? lackingIn(session, check, records) : 'it is of another session';
  const chain = check.agentKeys?.chain.map(({ key }) => key.thumbprint) ?? [];
  /** @type {Word} */
  const word = {
    is: reason ? 'fails' : 'agent', reason, companyId, agentId, chain, notes: [], stolen: check.sinceStolen > 0,
  };
  /** @type {SessionWhole} */
  const whole = reason ? { is: 'fails', says: 'fails' } : { is: wholeOfFile(check), says: check.state() };
  return { word, reason, whole };
}

/**
 * @param {ListedSession} session
 * @param {Blob} file
 * @param {ServiceKey} companyKey
 * @param {number[]} records
 */
async function checkReportOf(session, file, companyKey, records) {
  /** @type {Set<number>} */
  const indexes = new Set();
  const check = await checkReport(linesOf(file.stream()), { fingerprint: companyKey.fingerprint }, undefined,
    (events) => {
      for (const { record, index } of events) if (record && !strangerTo(record, session)) indexes.add(index);
    });
  const reason = check.verdict === 'fails' ? check.reason
    : check.file.companyId !== companyKey.companyId ? 'it is of another company'
      : lackingIn(session, { indexes, from: check.file.from, to: check.file.to }, records);
  /** @type {SessionWhole} */
  const whole = reason ? { is: 'fails', says: 'fails' } : { is: 'complete', says: 'nothing is left out of its time' };
  return { word: null, reason, whole };
}

/**
 * Saves the file of a session, and says what its check found; null where it is too long for that.
 * @param {ListedSession} session
 * @param {ServiceKey} companyKey
 * @param {number[]} records
 */
async function saved(session, companyKey, records) {
  const file = await sessionFile(session);
  save(`session-${session.agentId}-${session.sid}.jsonl`, 'application/jsonl', file);
  if (file.size > CHECKED) return { checked: null };
  return {
    checked: session.kind === 'statement' ? await checkSigned(session, file, companyKey, records)
      : await checkReportOf(session, file, companyKey, records),
  };
}

/**
 * A button that saves the file of a session, and what its check has found.
 * @param {{session: ListedSession, companyKey: ServiceKey, records?: number[]}} props
 */
export function SaveSession({ session, companyKey, records = [] }) {
  const assess = useAssess(companyKey);
  const judge = useAgentTrust();
  const [found, setFound] = useState(/** @type {Awaited<ReturnType<typeof saved>> | null} */ (null));
  const [run, busy, error] = useTask();
  const checked = found?.checked;
  const judged = checked && (checked.word ? judge(checked.word, assess(true, PART)) : assess(!checked.reason));
  const tone = judged && checked ? toneOfSession(checked.whole.is, [judged.tone]) : '';
  return html`
    <div class="buttons">
      ${judged && html`<span data-checked-session=${tone}><${Badge} tone=${tone}>
        ${judged.tone === 'bad' ? judged.is : visible(checked.whole.says)}<//></span>`}
      <button type="button" class="button small" disabled=${busy}
        aria-label=${visible(`Save file of session ${session.sid}`)}
        onClick=${() => run(async () => setFound(await saved(session, companyKey, records)))}>Save file</button></div>
    ${checked?.reason && html`<p class="small bad-text" role="alert">The file fails:
      ${' '}<${Text} of=${checked.reason} /></p>`}
    ${found && !checked && html`<p class="small muted">Saved without a check: it is too long for this page. Use
      attestd check.</p>`}
    <${Failure} error=${error} />`;
}
