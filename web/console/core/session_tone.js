// @ts-check
// The tone of a session, wherever one is shown: its page, a list, its file.
import { toneOfSet } from './verdict.js';

const BAD = new Set(['fails', 'lacking', 'disobeyed', 'missing']);

/**
 * The tone of a session. is: what was found of it as a whole; tones: those of each of its records
 * and words that this browser checked. Only a complete one is green, and none is of which nothing
 * was checked.
 * @param {SessionWhole['is']} is
 * @param {Tone[]} tones
 * @returns {Tone}
 */
export function toneOfSession(is, tones) {
  if (BAD.has(is) || tones.includes('bad')) return 'bad';
  return is === 'complete' ? toneOfSet(tones) : '';
}

/**
 * What the file of a session of statements says of it as a whole.
 * @param {{disobeyedCount: number, places: {missing: number, sealed: boolean}}} check
 * @returns {SessionWhole['is']}
 */
export function wholeOfFile({ disobeyedCount, places }) {
  if (disobeyedCount > 0) return 'disobeyed';
  return places.missing ? 'missing' : places.sealed ? 'complete' : 'open';
}

/**
 * Why a file does not hold a session; '' where it does. indexes: those of the session's records
 * that are in it; from and to: the time that it encloses, where it has one; shown: records of the
 * session that the server has shown elsewhere.
 * @param {ListedSession} session
 * @param {{indexes: Set<number>, from?: string, to?: string}} file
 * @param {number[]} shown
 */
export function lackingIn({ records, firstAt, lastAt }, { indexes, from, to }, shown) {
  if ((from !== undefined && from > firstAt) || (to !== undefined && to <= lastAt)) return 'it is of another time';
  if (indexes.size < records)
    return `it has ${indexes.size} of the ${records} records that the server lists of this session`;
  const missing = shown.find((index) => !indexes.has(index));
  return missing === undefined ? '' : `it lacks record ${missing}`;
}
