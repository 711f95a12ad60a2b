// @ts-check
// The last day in one sentence: which calls came out badly, and whether the log is intact.
import { clipped, sentenceOf } from './call_words.js';
import { titleOf } from './finding_words.js';
import { plural, timeText } from './format.js';

const LONGEST = 70; // characters of a call

/**
 * What became of calls in the last day.
 * @param {Pick<Overview, 'disobeyed' | 'decided' | 'denied' | 'failed'>} day
 */
function callsOf({ disobeyed, decided, denied, failed }) {
  const said = [];
  if (disobeyed.length) said.push(`${plural(disobeyed.length, 'refused call')} ran all the same`);
  if (decided.deny) said.push(`${plural(decided.deny, 'request')} denied by the service`);
  if (decided.ask) said.push(`${plural(decided.ask, 'request')} without an approval`);
  if (denied.total === 1 && denied.shown.length === 1) {
    said.push(`1 call denied: ${clipped(sentenceOf({ ...denied.shown[0].words, outcome: '' }), LONGEST)}`);
  } else if (denied.total) said.push(`${plural(denied.total, 'call')} denied`);
  if (failed.total) said.push(`${plural(failed.total, 'call')} failed`);
  return said.length ? said.join(', ') : 'No call was denied or failed in the last 24 hours';
}

/**
 * The sentence. since: since when this browser knows the log, and it has grown from what was seen
 * then; '' where that was not found out.
 * @param {Parameters<typeof callsOf>[0]} day
 * @param {Finding[]} found
 * @param {string} since
 */
export function sentenceOfDay(day, found, since) {
  const [finding] = found;
  const log = finding ? titleOf(finding) : since ? `Log intact since ${timeText(since, 16)}.` : '';
  return `${callsOf(day)}. ${log}`.trim();
}
