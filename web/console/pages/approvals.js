// @ts-check
// Approvals: the calls of agents that wait for a person, and what people decided of others.
import { html, useState } from '../vendor/preact-htm.js';
import { canNotify, notifies, notifyMe } from '../core/approvals_watch.js';
import { readApprovals } from '../core/approvals.js';
import { timeText } from '../core/format.js';
import { href } from '../core/router.js';
import { Badge, Failure, Page, useReturn, useTask } from '../parts/basic.js';
import { Left, STATES, useOften } from '../parts/approvals.js';
import { Text } from '../parts/text.js';
import { ApprovalPage } from './approval.js';

/** @param {{of: Approval}} props */
function Row({ of }) {
  const waits = of.state === 'pending';
  return html`
    <li data-approval=${of.approvalId} data-state=${of.state}>
      <a class="row-button" href=${href('approvals', of.approvalId)}>
        <strong><${Text} of=${of.tool} /></strong>
        <span class="row-side">${waits ? html`<${Left} until=${of.expiresAt} />`
          : html`<${Badge}>${STATES[of.state]}<//>`}
          <span class="muted small nowrap">${timeText(of.createdAt, 16)}</span></span>
        <span class="muted small">asked by <${Text} of=${of.agentId} />${of.by.length > 0
          && html` · decided by <${Text} of=${of.by.join(', ')} />`}${of.requestReason
          && html` · <${Text} of=${of.requestReason} />`}</span></a></li>`;
}

/** @param {{of: Approval[], none: string}} props */
const Rows = ({ of, none }) => (of.length
  ? html`<ul class="rows">${of.map((one) => html`<${Row} key=${one.approvalId} of=${one} />`)}</ul>`
  : html`<p class="empty">${none}</p>`);

/** Asks for the permission to notify, which a browser gives after a click alone. */
function Notifications() {
  const [on, setOn] = useState(notifies());
  const [run, busy, error] = useTask();
  if (on) return html`<p class="small muted" data-notifies>This browser shows a notification when a call waits.</p>`;
  if (!canNotify()) return null;
  return html`<div><button type="button" class="button small" disabled=${busy}
    onClick=${() => run(async () => setOn(await notifyMe()))}>Notify me in this browser</button></div>
    <${Failure} error=${error} />`;
}

function Inbox() {
  const [found, setFound] = useState(
    /** @type {{waiting: Approval[], ended: Approval[], more: boolean} | null} */ (null),
  );
  const [run, , error] = useTask();
  const load = () => run(async () => {
    const [waiting, all] = await Promise.all([readApprovals('pending'), readApprovals()]);
    setFound({ waiting: waiting.approvals, more: Boolean(waiting.next),
      ended: all.approvals.filter(({ state }) => state !== 'pending') });
  });
  useOften(load);
  return html`
    <${Page} title="Approvals" lead="Calls of agents that a policy lets through only after a person approved them.">
      <${Failure} error=${error} retry=${load} />
      ${found && html`
        <section class="card" aria-label="Waiting" data-waiting=${found.waiting.length}>
          <div class="card-head"><h2>Waiting</h2></div>
          <${Rows} of=${found.waiting} none="No call waits for a person." />
          ${found.more && html`<p class="small muted">Only the newest 100 are shown.</p>`}
          <${Notifications} /></section>
        <section class="card" aria-label="Decided">
          <div class="card-head"><h2>Decided</h2></div>
          <${Rows} of=${found.ended} none="None in the last day." />
          <p class="small muted">Claimed by the server. Open one: this browser checks its records.</p></section>`}
    <//>`;
}

/** @param {{argument: string}} props */
export function Approvals({ argument }) {
  useReturn(argument);
  return argument ? html`<${ApprovalPage} key=${argument} id=${argument} />` : html`<${Inbox} />`;
}
