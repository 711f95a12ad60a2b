// @ts-check
// Browser notifications of calls that wait for a person, on every page, once somebody has allowed
// them by a click.
import { readApprovals } from './approvals.js';
import { live } from './live_state.js';
import { href } from './router.js';
import { session } from './session.js';
import { visible } from '../lib/visible.js';

export const notifies = () => globalThis.Notification?.permission === 'granted';

/** Whether the browser can still be asked. */
export const canNotify = () => globalThis.Notification?.permission === 'default';

/** Asks for the permission; resolves to whether it was given. */
export async function notifyMe() {
  await Notification.requestPermission();
  watch();
  await reading; // what waits now is on the page already
  return notifies();
}

const HELD = 1000; // IDs, of which 100 can wait on a page

/** @type {Set<string> | null} */
let known = null; // IDs of approvals that waited before, or were announced
/** @type {Promise<void> | null} */
let reading = null;
let again = false; // whether a record has come while they were read
let begun = false; // whether what waits was asked for since the sign-in
let newest = -1;

/** @param {Approval} approval */
function announce({ approvalId, agentId, tool }) {
  const shown = new Notification('A call waits for your approval', {
    body: visible(`${agentId}: ${tool}`), tag: approvalId,
  });
  shown.onclick = () => {
    window.focus();
    location.hash = href('approvals', approvalId);
    shown.close();
  };
}

async function read() {
  try {
    const { approvals } = await readApprovals('pending');
    const before = known;
    known = new Set([...(before ?? []), ...approvals.map(({ approvalId }) => approvalId)].slice(-HELD));
    if (before) approvals.filter(({ approvalId }) => !before.has(approvalId)).forEach(announce);
  } catch { /* the page says what is wrong; the next record asks again */ }
  reading = null;
  if (again) look();
}

function look() {
  again = reading !== null;
  reading ??= read();
}

/** @param {LogRecord} record */
const asks = ({ actionType, decision }) => actionType === 'approval.requested' || decision?.verdict === 'ask';

function onLive() {
  if (!notifies() || session.get().status !== 'in') return;
  if (!begun) look();
  begun = true;
  const fresh = live.get().entries.filter(({ record }) => record.index > newest);
  if (!fresh.length) return;
  newest = Math.max(...fresh.map(({ record }) => record.index));
  if (fresh.some(({ record }) => asks(record))) look();
}

let watching = false;
/** Begins to watch, where the permission was given. */
export function watch() {
  if (watching || !notifies()) return;
  watching = true;
  session.subscribe(() => { if (session.get().status !== 'in') [known, begun, newest] = [null, false, -1]; });
  live.subscribe(onLive);
  onLive();
}
