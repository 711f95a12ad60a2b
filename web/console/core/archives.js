// @ts-check
// The archives that have the payloads of pruned records, as the control log names them. Its records
// are checked here: that a server calls a record pruned says nothing.
import { hash, having, integer, string } from '../lib/form.js';
import { allChanges } from './control_log.js';
import { UNPROVEN, archiveText, archivedRecords, excused, mustBeArchived } from './pruned.js';
import { signedIn } from './session.js';

const ACTION = 'payloads.pruned';
const SUBJECT = 'payloads';

const details = having({ subject: string, records: integer, archive: hash });

/** @returns {Promise<Archive[]>} */
async function askArchives() {
  const changes = await allChanges({ action: ACTION });
  return changes.reverse()
    .filter(({ record, subject }) => record.actionType === ACTION && subject === SUBJECT)
    .map(({ record: { inner, source, index } }) => {
      const { records, archive } = details(inner, source, `control record ${index}`);
      return { records, archive, index };
    })
    .sort((a, b) => a.records - b.records);
}

/** @type {{owner: string, found: Promise<Archive[]>} | null} */
let held = null;

/**
 * The archives in their order: those that were read before where they have the first records, or
 * else all that there are now. A control record names an archive before payloads go.
 * @param {number} records
 * @returns {Promise<Archive[]>}
 */
export async function readArchives(records) {
  const { company, key } = signedIn();
  const owner = `${company.companyId} ${key.fingerprint}`;
  if (held?.owner === owner) {
    const known = await held.found;
    if (records <= archivedRecords(known)) return known;
  }
  const mine = { owner, found: askArchives() };
  held = mine;
  mine.found.catch(() => { if (held === mine) held = null; });
  return mine.found;
}

/**
 * Results of checks in the order of their records, those of pruned records with their archives, or
 * as failures.
 * @template {{pruned?: boolean, reason: string}} Result
 * @param {Result[]} results
 * @param {{index: number}[]} records
 */
export async function excuse(results, records) {
  const last = results.findLastIndex(({ pruned }) => pruned);
  if (last < 0) return results;
  const least = 1 + Math.max(...records.filter((_, i) => results[i].pruned).map(({ index }) => index));
  const archives = await readArchives(least);
  return results.map((result, i) => (result.pruned ? excused({ ...result, pruned: true }, records[i].index, archives)
    : result));
}

/**
 * How many records of a range a search has passed over because they were pruned, as it says. Throws
 * where archives have fewer of them.
 * @param {number} passed
 * @param {{from: number, to: number}} read
 */
export async function passedOver(passed, read) {
  if (passed > 0) mustBeArchived(passed, read, await readArchives(read.from + passed));
  return passed;
}

/**
 * What an answer is that needs the payload of a record; null: of several records. Where one was
 * pruned, the error says which archives have what was asked for, and is no failure.
 * @template T
 * @param {number | null} index
 * @param {() => Promise<T>} ask
 */
export async function needingPayload(index, ask) {
  try {
    return await ask();
  } catch (err) {
    if (err.code !== 'PAYLOAD_PRUNED') throw err;
    const archives = await readArchives((index ?? 0) + 1);
    if (archivedRecords(archives) <= (index ?? 0)) throw new Error(`${err.message}, says the server: ${UNPROVEN}.`);
    throw Object.assign(new Error(`This needs a payload that was pruned. ${archiveText(archives)}`), { pruned: true });
  }
}
