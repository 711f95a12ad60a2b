// How numbers, times and hashes are written.
import { visible } from '../lib/visible.js';

export const count = (n) => n.toLocaleString('en');

export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

export const short = (s, head = 8, tail = 6) => (s.length > head + tail + 1 ? `${s.slice(0, head)}…${s.slice(-tail)}` : s);

/** A server timestamp in the reader's time zone; the exact string belongs into a title. */
export function localTime(timestamp, withDate = true) {
  const date = new Date(timestamp);
  if (Number.isNaN(date.getTime())) return visible(timestamp);
  const time = date.toLocaleTimeString('en-GB', { hour12: false });
  return withDate ? `${date.toLocaleDateString('en-CA')} ${time}` : `${time}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
