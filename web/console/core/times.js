// @ts-check
// In which zone times are shown: that of the reader, or UTC. One choice for all pages and for
// paper, stored in this browser.
import { store } from './store.js';

const NAME = 'attestd.times';
const CHOICES = ['utc', 'local']; // the first by default: what records and the API say

function restored() {
  try {
    const stored = localStorage.getItem(NAME);
    return stored !== null && CHOICES.includes(stored) ? stored : CHOICES[0];
  } catch {
    return CHOICES[0]; // no storage
  }
}

/** zone: local or utc. */
export const times = store({ zone: restored() });
globalThis.addEventListener?.('storage', ({ key }) => { if (key === NAME) times.set({ zone: restored() }); });

/** @param {string} zone */
export function chooseZone(zone) {
  try {
    localStorage.setItem(NAME, zone);
  } catch { /* the choice then lasts as long as the page */ }
  times.set({ zone });
}

/**
 * Minutes by which the shown zone is ahead of UTC at a date.
 * @param {Date} date
 */
export const ahead = (date) => (times.get().zone === 'utc' ? 0 : -date.getTimezoneOffset());

/**
 * A date in the shown zone, spelled as toISOString does, without the Z.
 * @param {Date} date
 */
export const zoned = (date) => new Date(date.getTime() + ahead(date) * 60_000).toISOString().slice(0, -1);

/** @param {number} n */
const two = (n) => String(n).padStart(2, '0');

/** The name of the shown zone at a date: UTC, or UTC+05:30. */
export function zoneOf(date = new Date()) {
  if (times.get().zone === 'utc') return 'UTC';
  const minutes = Math.abs(ahead(date));
  return `UTC${ahead(date) < 0 ? '−' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
}

/**
 * The date of a spelling like 2026-03-02T09:05:04.218 in the shown zone; null where there is no
 * such time.
 * @param {string} spelled
 */
export function dateOf(spelled) {
  const date = new Date(times.get().zone === 'utc' ? `${spelled}Z` : spelled);
  return Number.isNaN(date.getTime()) || zoned(date) !== spelled ? null : date;
}
