// @ts-check
// What needs a look on the first page, which hours it shows, and how dark a number of records is.
import { completenessOf } from '../lib/calls.js';
import { plural } from './format.js';
import { wordsOfService } from './service_state.js';

const HOUR = 3_600_000;
export const HOURS = 24;
const SOON = 14 * 24 * HOUR; // a key that ends within that time needs a look

/**
 * The last HOURS hours, up to the end of this one, of a time in ms. ahead: minutes by which the
 * reader's zone is ahead of UTC, for in some zones the hours begin at another minute.
 * @param {number} now
 * @param {number} [ahead]
 */
export function lastHours(now, ahead = 0) {
  const shift = ahead * 60_000;
  const until = Math.floor((now + shift) / HOUR) * HOUR + HOUR - shift;
  return { since: new Date(until - HOURS * HOUR).toISOString(), until: new Date(until).toISOString() };
}

const SHADES = 5;

/**
 * The shade of a number of records: 0 for none, SHADES for the most, else 1 to SHADES on a
 * logarithmic scale.
 * @param {number} n
 * @param {number} most
 */
export function shadeOf(n, most) {
  if (n === 0 || n === most) return n && SHADES;
  return 1 + Math.floor((Math.log(n) / Math.log(most)) * SHADES);
}

/**
 * What needs a look beside the calls that came out badly: in words, and the page that has the rows
 * behind it.
 * @param {{sessions: {state: string, completeness?: string}[],
 *   credentials: {expiresAt?: string}[] | null, federations: {keys: {failure?: string}}[] | null,
 *   webhooks: {disabledAt?: string, failedAttempts: number}[] | null, service: ServiceState,
 *   waiting: number}} found
 * @param {number} now
 * @returns {{words: string, page: string, argument: string, query: Record<string, string>}[]}
 */
export function needsALook({ sessions, credentials, webhooks, federations, service, waiting }, now) {
  /** @type {ReturnType<typeof needsALook>} */
  const all = [];
  /**
   * @param {number} n
   * @param {string} words
   * @param {string} page
   * @param {Record<string, string>} [query]
   */
  const add = (n, words, page, query = {}) => {
    if (n > 0) all.push({ words, page, argument: '', query });
  };
  add(waiting, `${plural(waiting, 'call')} ${waiting === 1 ? 'waits' : 'wait'} for you`, 'approvals');
  for (const one of wordsOfService(service)) all.push({ argument: '', query: {}, ...one });
  /** @param {string} state */
  const inState = (state) => sessions.filter((one) => completenessOf(one) === state).length;
  const gaps = inState('gap');
  const broken = inState('broken');
  add(gaps, `${plural(gaps, 'session')} with missing steps`, 'sessions');
  add(broken, `${plural(broken, 'session')} whose statements contradict one another`, 'sessions');
  const ends = credentials?.filter(({ expiresAt }) => expiresAt && Date.parse(expiresAt) > now
    && Date.parse(expiresAt) - now < SOON).length ?? 0;
  add(ends, `${plural(ends, 'key or client', 'keys or clients')} will expire within two weeks`, 'keys',
    { sort: 'expiry' });
  const stopped = webhooks?.filter(({ disabledAt, failedAttempts }) => disabledAt || failedAttempts).length ?? 0;
  add(stopped, `${plural(stopped, 'webhook')} failing or disabled`, 'webhooks');
  const unread = federations?.filter(({ keys }) => keys.failure).length ?? 0;
  add(unread, `${plural(unread, 'federation')} whose keys could not be fetched`, 'federation');
  return all;
}
