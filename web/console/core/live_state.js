// @ts-check
// What the page Live shows, and what every page shows of it: collected, so that a thousand records
// a second are ten renderings and not a thousand.
import { store } from './store.js';

const SHOWN = 400; // entries kept, the newest first

/** @type {LiveState} */
const quiet = {
  connection: 'off',
  since: '',
  entries: [],
  range: null,
  whole: false,
  root: '',
  agreed: false,
  behind: 0,
  unchecked: 0,
  failure: null,
  server: null,
  missed: [],
  problem: '',
  beats: 0,
};

/**
 * connection: off, connecting, open, retrying; since: when that began. range: the records [from,
 * to) that were checked here one after the other, or null; whole: it begins with the first record,
 * and so has a root; agreed: that root is the one that the server names for that length. behind:
 * how many records came since the range, and are fetched and checked after it. failure: the first
 * that failed here or by the server's word, a finding of findings.js that lasts until it is
 * dismissed, or null. server: its last report on its whole chain, {valid, root, length, at} or
 * {valid, failedAt, reason, length, at}, or null. missed: the ranges that did not come over the
 * stream, {from, to, fetched, away}.
 */
export const live = store(quiet);

/**
 * The tone of the chain as far as it is known: bad where a check failed here or the server says one
 * did; ok or warn only where the whole chain was checked here, up to the root that the server
 * names, while the connection is open. The server's word alone has no tone, nor has a part.
 * @param {LiveState} state
 * @param {Assess} assess
 * @returns {Tone}
 */
export function toneOfLive({ connection, whole, agreed, range, failure, server, problem }, assess) {
  const { tone, against } = assess(true);
  if (failure || against) return 'bad';
  if (connection !== 'open' || problem) return '';
  if (server && !server.valid) return 'bad';
  return whole && agreed && range && range.to > 0 ? tone : '';
}

/** @type {LiveEntry[]} */
let fresh = []; // entries since the last flush, the newest last
/** @type {Map<number, WorkerResult>} */
let late = new Map(); // by index, checks of entries that were shown without one
/** @type {Partial<LiveState>} */
let changes = {};
let flushTimer = 0;

/**
 * A member of the store as it is once all changes are shown.
 * @template {keyof LiveState} K
 * @param {K} name
 * @returns {LiveState[K]}
 */
export const state = (name) => ({ ...live.get(), ...changes })[name];

/**
 * Starts again, with nothing of what was shown before.
 * @param {Partial<LiveState>} [patch]
 */
export function clear(patch) {
  fresh = [];
  late = new Map();
  changes = {};
  live.set({ ...quiet, ...patch });
}

/**
 * Changes members of the store soon.
 * @param {Partial<LiveState>} patch
 */
export function change(patch) {
  Object.assign(changes, patch);
  flushTimer ||= setTimeout(() => {
    flushTimer = 0;
    const [added, checks, patch] = [fresh, late, changes];
    fresh = [];
    late = new Map();
    changes = {};
    let { entries } = live.get();
    if (added.length) entries = [...added.toReversed(), ...entries].slice(0, SHOWN);
    if (checks.size)
      entries = entries.map((entry) =>
        entry.check ? entry : { ...entry, check: checks.get(entry.record.index) ?? null },
      );
    live.set({ ...patch, entries, beats: live.get().beats + added.length });
  }, 80);
}

/**
 * Shows an entry, {record, check, late}, with the next change.
 * @param {LiveEntry} entry
 */
export const add = (entry) => fresh.push(entry);

/**
 * Shows the check of a record that was passed on without one, with the next change.
 * @param {number} index
 * @param {WorkerResult} check
 */
export const addCheck = (index, check) => late.set(index, check);

export const dismissMissed = () => live.set({ missed: [] });
