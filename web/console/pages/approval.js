// @ts-check
// One approval: the call as its record has it, what is signed, and who decided.
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { decide, decisionsOf, objectOf, readApproval, requestOf } from '../core/approvals.js';
import { timeText, plural } from '../core/format.js';
import { isPerson, readMe, signInHere } from '../core/people.js';
import { verdictOn } from '../core/pruned.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { sessionOf } from '../core/session_calls.js';
import { challengeOf } from '../lib/signed_approval.js';
import { Badge, Failure, Field, Notice, useTask } from '../parts/basic.js';
import { Left, STATES, useOften } from '../parts/approvals.js';
import { CallView } from '../parts/call_view.js';
import { Change } from '../parts/change.js';
import { JSONView } from '../parts/json_view.js';
import { useAssess } from '../parts/key_trust.js';
import { sessionHref } from '../parts/session_table.js';
import { Text } from '../parts/text.js';

const HOUR = 3_600_000;
/** @type {[string, string][]} */
const UNTIL = [['0', 'until the request ends'], ['1', 'for an hour'], ['24', 'for a day'], ['168', 'for a week']];

/** @param {{approval: Approval}} props */
function Quorum({ approval: { quorum, by, state, approvers } }) {
  const missing = quorum - by.length;
  return html`
    <p class="small" data-quorum=${quorum} data-missing=${missing}>
      ${quorum > 1 && html`${plural(quorum, 'person', 'people')} must approve it. `}
      ${by.length > 0 && html`Decided by <strong><${Text} of=${by.join(', ')} /></strong>. `}
      ${state === 'pending' && quorum > 1 && html`${plural(missing, 'approval')} missing. `}
      ${approvers.length > 0 && html`Approvers: members of <${Text} of=${approvers.join(', ')} />.`}</p>`;
}

/**
 * The form of a decision. What is signed is shown before the passkey is asked for.
 * @param {{approval: Approval, request: ApprovalRequest, me: Person, onDone: (next: Approval) =>
 *   void}} props
 */
function Decide({ approval, request, me, onDone }) {
  const [reason, setReason] = useState('');
  const [uses, setUses] = useState(1);
  const [until, setUntil] = useState({ hours: '0', at: '' });
  const [signs, setSigns] = useState({ approve: '', deny: '' });
  const [run, busy, error] = useTask();
  /** @param {'approve' | 'deny'} verdict */
  const choiceOf = (verdict) => ({
    verdict, reason: reason.trim(), ...(verdict === 'approve' ? { uses, until: until.at } : { uses: 1, until: '' }),
  });
  /** @param {'approve' | 'deny'} verdict */
  const object = (verdict) => objectOf(approval, request, me.personId, choiceOf(verdict));
  useEffect(() => {
    let left = false;
    Promise.all([challengeOf(object('approve')), challengeOf(object('deny'))])
      .then(([approve, deny]) => { if (!left) setSigns({ approve, deny }); });
    return () => { left = true; };
  }, [reason, uses, until, request, me]);
  /** @param {'approve' | 'deny'} verdict */
  const press = (verdict) => run(async () => onDone(await decide(object(verdict), choiceOf(verdict))));
  /** @param {string} hours */
  const chooseUntil = (hours) =>
    setUntil({ hours, at: hours === '0' ? '' : new Date(Date.now() + Number(hours) * HOUR).toISOString() });
  return html`
    <section class="card no-print" aria-label="Decide">
      <h2>Decide as <${Text} of=${me.name} /></h2>
      <${Field} label="Reason (optional)" hint="It is signed and recorded.">
        ${(p) => html`<input ...${p} class="input" name="reason" maxlength="1024" autocomplete="off" value=${reason}
          onInput=${(e) => setReason(e.target.value)} />`}<//>
      <details><summary>Approve more than one call</summary>
        <div class="filters">
          <${Field} label="Calls with these arguments">
            ${(p) => html`<input ...${p} class="input" name="uses" type="number" min="1" max="1000" value=${uses}
              onInput=${(e) => setUses(Math.min(1000, Math.max(1, Math.floor(Number(e.target.value)) || 1)))} />`}<//>
          <${Field} label="Until">
            ${(p) => html`<select ...${p} class="input" name="until" value=${until.hours}
              onChange=${(e) => chooseUntil(e.target.value)}>
              ${UNTIL.map(([hours, says]) => html`<option value=${hours}>${says}</option>`)}</select>`}<//></div>
        </details>
      <${Failure} error=${error} />
      <div class="columns">
        <button type="button" class="button primary" disabled=${busy} onClick=${() => press('approve')}>
          Approve with a passkey</button>
        <button type="button" class="button danger" disabled=${busy} onClick=${() => press('deny')}>
          Deny with a passkey</button></div>
      <dl class="facts small">
        <dt>record’s hash</dt><dd><code class="break" data-hash>${request.record.hash}</code></dd>
        <dt>signed to approve</dt><dd><code class="break" data-signs="approve">${signs.approve}</code></dd>
        <dt>signed to deny</dt><dd><code class="break" data-signs="deny">${signs.deny}</code></dd></dl>
      <p class="small muted">This browser computed these hashes from the record above. If the server offers anything
        else, the passkey is not asked.</p>
    </section>`;
}

/** Leads somebody who is not signed in as a person to their passkey. */
function PersonFirst() {
  const [run, busy, error] = useTask();
  return html`
    <div data-person-first><${Notice}>You are signed in with a key. Only a person who signed in with a passkey approves
      or denies.<//>
      <div><button type="button" class="button primary" disabled=${busy} onClick=${() => run(signInHere)}>
        Sign in with a passkey</button></div><${Failure} error=${error} /></div>`;
}

/** @param {{approval: Approval, of: Awaited<ReturnType<typeof decisionsOf>>}} props */
function Decision({ approval, of: { changes, wrong } }) {
  const { key } = useSignedIn();
  const assess = useAssess(key);
  return html`
    <section class="card" aria-label="Decision" data-decided=${approval.state}>
      <h2>Decision</h2>
      ${wrong && html`<div data-misstated><${Notice} kind="bad"><${Text} of=${wrong} /><//></div>`}
      ${changes.length ? html`<ul class="change-list">${changes.map((change) => html`
        <${Change} key=${change.record.index} change=${change} assess=${assess} />`)}</ul>`
        : html`<p class="muted">No control record: nobody decided it in time.</p>`}
      ${approval.remaining !== undefined && approval.state === 'approved'
        && html`<p>${plural(approval.remaining, 'use')} left, until ${timeText(approval.expiresAt, 16)}.</p>`}
      ${approval.reason && html`<p>Reason: <${Text} of=${approval.reason} /></p>`}
      <p class="small muted">The company signed these records, and each passkey’s assertion is over this approval.
        ${' '}<code>attestd check</code> verifies the passkey’s signature.</p>
    </section>`;
}

/** @param {{id: string}} props */
export function ApprovalPage({ id }) {
  const { key } = useSignedIn();
  const assess = useAssess(key);
  const heading = useRef(null);
  const [approval, setApproval] = useState(/** @type {Approval | null} */ (null));
  const [request, setRequest] = useState(/** @type {ApprovalRequest | null} */ (null));
  const [decided, setDecided] = useState(/** @type {Awaited<ReturnType<typeof decisionsOf>> | null} */ (null));
  const [me, setMe] = useState(/** @type {Person | null} */ (null));
  const [run, , error, retry] = useTask();
  const [runRequest, , refused] = useTask();
  const [runDecided, , unread] = useTask();
  useEffect(() => { scrollTo(0, 0); heading.current.focus(); }, []);
  const load = () => run(async () => setApproval(await readApproval(id)));
  useOften(load);
  useEffect(() => {
    if (isPerson()) run(async () => setMe(await readMe()));
  }, []);
  const known = approval !== null;
  useEffect(() => {
    if (approval) runRequest(async () => setRequest(await requestOf(approval)));
  }, [known, key]);
  const stamp = approval && `${approval.state} ${approval.by.join()} ${approval.controlIndex} ${approval.remaining}`;
  useEffect(() => {
    setDecided(null);
    if (approval)
      runDecided(async () => {
        let found = await decisionsOf(approval);
        if (found.wrong) { // it may have changed between the two answers
          const now = await readApproval(id);
          setApproval(now);
          found = await decisionsOf(now);
        }
        setDecided(found);
      });
  }, [stamp]);
  const waits = approval?.state === 'pending';
  const at = request && sessionOf(request.record);
  const verdict = request && verdictOn(assess, request.record.index, { ok: true });
  const tone = verdict?.tone ?? '';
  return html`
    <div class="page-head">
      <p class="small"><a href=${href('approvals')}>Approvals</a></p>
      <div class="card-head"><h1 tabindex="-1" ref=${heading}>${approval
        ? html`<${Text} of=${request?.record.agentId ?? approval.agentId} /> asks for
          ${' '}<${Text} of=${request?.tool ?? approval.tool} />` : 'Approval'}</h1>
        ${approval && html`<span data-approval-state=${approval.state}>
          ${waits ? html`<${Left} until=${approval.expiresAt} />`
            : html`<${Badge}>${STATES[approval.state]}<//>`}</span>`}
      </div>
    </div>
    <${Failure} error=${error} retry=${retry} />
    ${refused && html`<div data-refused><${Failure} error=${refused} /></div>`}
    <${Failure} error=${unread} />
    ${approval && html`
      <div class="columns">
        <section class="card" aria-label="Call" data-request=${request ? tone || 'read' : ''} data-check=${tone}>
          <h2>Call</h2>
          ${!request && !refused && html`<p class="muted" role="status">Checking its record …</p>`}
          ${request && html`
            <p class="small">Asked by <a href=${href('agents', request.record.agentId)}>
              <${Text} of=${request.record.agentId} /></a>, ${timeText(request.record.timestamp)}${at
              && html`, in the session <a href=${sessionHref(at, request.record.index)}><${Text} of=${at.sid} /></a>`}.
              ${' '}<a href=${href('records', request.record.index)}>Record ${request.record.index}</a>:
              ${' '}<${Badge} tone=${tone}>${verdict?.is}<//></p>
            <${CallView} record=${request.record} isCall openRules />
            <details><summary>JSON</summary>
              <${JSONView} node=${request.record.inner} source=${request.record.source} what="payload" /></details>`}
          <${Quorum} approval=${approval} />
        </section>
        <div class="stack">
          ${decided && (decided.wrong || decided.changes.length > 0 || !waits)
            && html`<${Decision} approval=${approval} of=${decided} />`}
          ${waits && !isPerson() && html`<${PersonFirst} />`}
          ${waits && request && me && !refused && html`<${Decide} approval=${approval} request=${request} me=${me}
            onDone=${setApproval} />`}</div>
      </div>`}`;
}
