// @ts-check
// Whether a list of the server has what the control log says that there is: all that was created
// and not deleted since, and nothing else. The server finds the control records, and each is
// checked here; that it left none of them out, only a report shows.
import { member } from '../lib/json.js';
import { table } from '../lib/table.js';
import { allChanges } from './control_log.js';
import { proveSince } from './growth.js';
import { signedIn } from './session.js';

/**
 * What is compared, by the kind in the subject of its control records: its name, and the actions
 * that begin and end it.
 * @type {Record<string, {what: string, created: string, ended: string}>}
 */
export const LISTED = table({
  'api-key': { what: 'API key', created: 'api-key.created', ended: 'api-key.deleted' },
  'oauth-client': { what: 'OAuth client', created: 'oauth-client.created', ended: 'oauth-client.deleted' },
  webhook: { what: 'webhook', created: 'webhook.created', ended: 'webhook.deleted' },
  person: { what: 'person', created: 'person.created', ended: 'person.deleted' },
  federation: { what: 'federation', created: 'federation.created', ended: 'federation.deleted' },
});

/** @param {string} subject */
function named(subject) {
  const [kind] = subject.split(':', 1);
  return { kind, what: LISTED[kind].what, name: subject.slice(kind.length + 1) };
}

/**
 * What some changes, in any order, say of each subject of a kind: {first, last, ended}, of which
 * first has created it and last is the newest. Rows that were adopted or accepted by an operator
 * have a record that says what the row was, or null where there was none.
 * @param {Pick<ControlChange, 'record' | 'subject'>[]} changes
 * @param {string} kind
 * @returns {ListedLives}
 */
export function lives(changes, kind) {
  /** @type {ListedLives} */
  const found = new Map();
  for (const { subject, record } of changes.toSorted((a, b) => a.record.index - b.record.index)) {
    if (!subject.startsWith(`${kind}:`)) continue;
    const before = found.get(subject);
    const ended = record.actionType === LISTED[kind].ended || member(record.inner, 'row')?.type === 'null';
    const first = before && !before.ended ? before.first : record; // a name may be given again
    found.set(subject, { first, last: record, ended });
  }
  return found;
}

/**
 * @param {ListedLives} known
 * @param {string[]} subjects that the server lists
 * @returns {ListedCheck}
 */
export function compare(known, subjects) {
  const listed = new Set(subjects);
  /** @type {ListedDifference[]} */
  const differences = [];
  for (const [subject, { first, ended }] of known)
    if (!ended && !listed.has(subject)) differences.push({ ...named(subject), is: 'lacking', record: first });
  for (const subject of listed) {
    const one = known.get(subject);
    if (!one) differences.push({ ...named(subject), is: 'unknown', record: null });
    else if (one.ended) differences.push({ ...named(subject), is: 'ended', record: one.last });
  }
  if (listed.size < subjects.length) throw new Error('The server lists one thing twice.');
  const ended = [...known.values()].filter((one) => one.ended).length;
  return { differences, created: known.size, ended };
}

/**
 * Compares the subjects that the server lists, of some kinds, with the control log.
 * @param {string[]} kinds
 * @param {string[]} subjects
 */
export async function compareWithLog(kinds, subjects) {
  await proveSince(signedIn().key); // how long the log is, by a checkpoint that the company has signed
  /** @type {ListedLives} */
  const known = new Map();
  for (const kind of kinds) {
    const { created, ended } = LISTED[kind];
    const changes = [];
    for (const asked of [{ action: created }, { action: ended }, { action: 'row.*', q: `${kind}:` }])
      changes.push(...(await allChanges(asked)));
    for (const [subject, life] of lives(changes, kind)) known.set(subject, life);
  }
  return compare(known, subjects);
}
