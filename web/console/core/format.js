// @ts-check
// How numbers, times and hashes are written.
import { visible } from '../lib/visible.js';
import { zoneOf, zoned } from './times.js';

/** @param {number} n */
export const count = (n) => n.toLocaleString('en');

/**
 * @param {number} n
 * @param {string} one
 * @param {string} [many]
 */
export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

/**
 * @param {string} s
 * @param {number} [head]
 * @param {number} [tail]
 */
export const short = (s, head = 8, tail = 6) =>
  s.length > head + tail + 1 ? `${s.slice(0, head)}…${s.slice(-tail)}` : s;

/**
 * The beginning of a timestamp in the zone that the reader chose, without that zone: for a column
 * whose head names it.
 * @param {string} timestamp
 * @param {number} [length]
 */
export function bare(timestamp, length = 19) {
  const date = new Date(timestamp);
  return Number.isNaN(date.getTime()) ? visible(timestamp) : zoned(date).slice(0, length).replace('T', ' ');
}

/**
 * The same with its zone; the exact timestamp belongs into a title.
 * @param {string} timestamp
 * @param {number} [length]
 */
export function timeText(timestamp, length) {
  const date = new Date(timestamp);
  return Number.isNaN(date.getTime()) ? visible(timestamp) : `${bare(timestamp, length)} ${zoneOf(date)}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/**
 * How long something ran that may have been short.
 * @param {number} ms
 */
export const lasted = (ms) =>
  (ms < 1000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms / 1000));
