// @ts-check
// Checks records of the log of actions as the company's keys and its control log are now.
import { excuse } from './archives.js';
import { checkRecords } from './checker.js';
import { fail } from './failures.js';
import { hasFailed } from './pruned.js';
import { refreshKey, session, signedIn } from './session.js';

/**
 * Checks records of the log of actions with the key of the session, and where that did not sign one
 * of them with the company's keys as they are now: one may have been rotated. What fails is a
 * failure of the chain, on every page, but for a record whose archive is known. Rejects where the
 * keys or the archives cannot be asked for, for then nothing is known.
 * @param {LogRecord[]} records
 */
export async function checkActions(records) {
  const { key } = signedIn();
  let results = await checkRecords(records, key);
  const late = results.findLastIndex(({ hashOK, signatureOK }, i) =>
    (hashOK || records[i].pruned) && !signatureOK);
  const newer = late < 0 ? key : await refreshKey(key.companyId, records[late].index);
  if (newer !== key) results = await checkRecords(records, newer);
  const found = await excuse(results, records);
  if (session.get().company?.companyId === key.companyId)
    found.forEach((result, i) => { if (hasFailed(result)) fail(records[i].index, result.reason); });
  return found;
}
