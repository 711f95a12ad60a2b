// @ts-check
// A session as a story: what it was about, where, and the pauses between its calls.
import { member, textIn } from '../lib/json.js';
import { plural } from './format.js';
import { timesOf } from './session_calls.js';

const PAUSE = 5 * 60_000; // ms without a call that are a pause

/**
 * What a session was about: the first prompt that telemetry has recorded or, as hooks record none,
 * the first command, else the first call. null while there is none.
 * @param {SessionCalls} calls
 * @returns {{words: CallWords, is: 'prompt' | 'command' | 'call'} | null}
 */
export function taskOf({ entries, list }) {
  const prompt = entries.find(({ record, words }) => record.actionType === 'otel.event' && words.kind === 'prompt');
  if (prompt) return { words: prompt.words, is: 'prompt' };
  const command = list.find(({ asked }) => asked?.words.kind === 'command')?.asked;
  if (command) return { words: command.words, is: 'command' };
  const first = list.find(({ asked }) => asked) ?? list.find(({ event, outcome }) => event ?? outcome);
  const entry = first?.asked ?? first?.outcome ?? first?.event;
  return entry ? { words: entry.words, is: 'call' } : null;
}

/**
 * @param {JSONNode | undefined} node
 * @param {string[]} names
 */
const firstText = (node, names) => names.map((name) => textIn(node, name)).find(Boolean) ?? '';

const REPOSITORY = ['vcs.repository.url.full', 'vcs.repository.name'];

/**
 * The repository or folder of a session, where a recorder has it: telemetry in an attribute of
 * OpenTelemetry's conventions, and own records in a member. '' else: hooks record no folder.
 * @param {SessionCalls} calls
 */
export function placeOf({ entries }) {
  for (const { record: { inner } } of entries) {
    const found = firstText(inner, ['repository', 'cwd'])
      || ['attributes', 'resource'].map((name) => firstText(member(inner, name), REPOSITORY)).find(Boolean);
    if (found) return found;
  }
  return '';
}

/**
 * A pause in words.
 * @param {number} ms
 */
export function pauseText(ms) {
  const minutes = Math.round(ms / 60_000);
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  const parts = days ? [[days, 'day'], [hours, 'hour']] : [[hours, 'hour'], [minutes % 60, 'minute']];
  const said = parts.flatMap(([n, name]) => (n ? [plural(Number(n), String(name))] : []));
  return `${said.join(' ')} later`;
}

/**
 * The calls of a session with the pauses between them: {call, at} is one by its place in the list,
 * and {pause, at} the time in ms in which nothing ran before the call at that place.
 * @param {SessionCall[]} list
 * @returns {StoryRow[]}
 */
export function storyOf(list) {
  /** @type {StoryRow[]} */
  const rows = [];
  let busyUntil = Infinity;
  list.forEach((call, at) => {
    const { start, end } = timesOf(call);
    if (start !== null && end !== null) {
      const pause = start - busyUntil;
      if (pause >= PAUSE) rows.push({ pause, at });
      busyUntil = busyUntil === Infinity ? end : Math.max(busyUntil, end);
    }
    rows.push({ call, at });
  });
  return rows;
}
