// @ts-check
// What both pages of approvals use: how long one can still be decided, and when to read again.
import { html, useEffect, useRef } from '../vendor/preact-htm.js';
import { duration } from '../core/format.js';
import { live } from '../core/live_state.js';
import { clock } from '../core/session.js';
import { useStore } from '../core/store.js';
import { table } from '../lib/table.js';
import { useNow } from './basic.js';

const POLL = 5000; // ms after which the inbox is read again, whether or not a record came

/** @type {Record<Approval['state'], string>} */
export const STATES = table({
  pending: 'waits', approved: 'approved', denied: 'denied', expired: 'expired', used: 'used', withdrawn: 'withdrawn',
});

/**
 * Calls a function when a record has come, and every POLL while the page is seen.
 * @param {() => unknown} read
 */
export function useOften(read) {
  const { entries, server } = useStore(live);
  const now = useRef(read);
  now.current = read;
  useEffect(() => { now.current(); }, [entries[0]?.record.index, server?.length]);
  useEffect(() => {
    const timer = setInterval(() => { if (!document.hidden) now.current(); }, POLL);
    return () => clearInterval(timer);
  }, []);
}

/**
 * The time left by the server's clock, or that it is over. It is not read out each second.
 * @param {{until: string}} props
 */
export function Left({ until }) {
  const { offset } = useStore(clock);
  const left = Math.floor(Date.parse(until) / 1000 - useNow() - offset);
  return html`<span class=${left > 0 && left <= 60 ? 'warn-text' : ''} data-left=${Math.max(0, left)}>
    ${left > 0 ? `${duration(left)} left` : 'time is up'}</span>`;
}
