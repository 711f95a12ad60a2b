// @ts-check
// What "pruned" means, decided in one place: of the check of a record, of an answer that passes
// records over, and in words. A record calls itself pruned, and any server can make it do so. It is
// excused only where a control record that the company has signed says that its payload is in an
// archive; core/archives.js reads these.
import { mustFit } from './asked.js';

/** Why a record or an answer that calls itself pruned is not excused. */
export const UNPROVEN = 'the server says that its payload was pruned, and no signed control record says so';

/**
 * Whether the check of a record says that it fails. That of a record without its payload does not
 * where its archive is known, though it does not hold either.
 * @param {{ok: boolean, pruned?: boolean}} check
 */
export const hasFailed = ({ ok, pruned }) => !ok && !pruned;

/**
 * The verdict on a record of the actions, by its check.
 * @param {Assess} assess
 * @param {number | null | undefined} index
 * @param {{ok: boolean, pruned?: boolean}} check
 */
export const verdictOn = (assess, index, { ok, pruned }) => assess(ok, { log: 'actions', index, pruned });

/**
 * The verdict on what says only that payloads were pruned.
 * @param {Assess} assess
 */
export const verdictOnPruned = (assess) => assess(false, { pruned: true });

/**
 * The archive that has the payload of a record, null where none does. Each archive goes on from the
 * one before it.
 * @param {Archive[]} archives in their order
 * @param {number} index
 */
export const archiveOf = (archives, index) => archives.find(({ records }) => index < records) ?? null;

/** @param {Archive[]} archives */
export const archivedRecords = (archives) => archives.at(-1)?.records ?? 0;

/**
 * What was found out about a record that calls itself pruned, with its archive; a failure where it
 * has none.
 * @template {{pruned: boolean, reason: string}} Result
 * @param {Result} result
 * @param {number} index
 * @param {Archive[]} archives
 * @returns {Result & {archive?: Archive}}
 */
export function excused(result, index, archives) {
  if (!result.pruned) return result;
  const archive = archiveOf(archives, index);
  return archive ? { ...result, archive } : { ...result, pruned: false, reason: UNPROVEN };
}

/**
 * Throws where a search says that it has passed over more records of a range than have an archive.
 * @param {number} passed
 * @param {{from: number, to: number}} read
 * @param {Archive[]} archives
 */
export const mustBeArchived = (passed, { from, to }, archives) =>
  mustFit(passed <= Math.max(0, Math.min(to, archivedRecords(archives)) - from),
    `it says that ${passed} records could not be searched, because they were pruned, and no signed control record ` +
      'says so of so many');

/**
 * Where the payloads are, as sentences around the SHA-256 of each archive: [{text, archive}].
 * @param {Archive[]} archives
 */
export const archiveWords = (archives) => archives.map((archive, i) => {
  const from = i ? archives[i - 1].records : 0;
  const last = archive.records - 1;
  return {
    archive,
    text: `${from === last ? `The payload of record ${from} is`
      : `The payloads of records ${from} to ${last} are`} in the archive with the SHA-256`,
  };
});

/**
 * The same in plain text.
 * @param {Archive[]} archives
 */
export const archiveText = (archives) =>
  archiveWords(archives).map(({ text, archive: { archive } }) => `${text} ${archive}.`).join(' ');
