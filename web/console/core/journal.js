// @ts-check
// What persons at this browser have acknowledged: each finding that does not stand any more, with
// the reason and when. Nothing of it is taken back here.
import { exactly, string, timestamp } from '../lib/form.js';
import { dropFinding, finding, logOf } from './findings.js';
import { forgetHeads } from './heads.js';
import { storedList } from './stored_list.js';

const MOST = 500; // entries, of all companies; beyond it the oldest goes
export const LONGEST = 1000; // characters of a reason

/** All entries of all companies, {finding, at, reason}, the oldest first, as a store of {all}. */
export const journal = storedList('attestd.journal', exactly({ finding, at: timestamp, reason: string }));

/**
 * Ends a finding, for a reason that is kept. What was seen of a log that was rewritten is
 * forgotten: what is shown from now on is remembered again. Throws where no reason is given.
 * @param {Finding} found
 * @param {string} reason
 */
export function acknowledge(found, reason) {
  const given = reason.trim().slice(0, LONGEST);
  if (!given) throw new Error('Enter a reason: it is stored in the journal.');
  journal.change((all) => [...all, { finding: found, at: new Date().toISOString(), reason: given }].slice(-MOST));
  if (found.kind === 'rewritten') forgetHeads(found);
  else dropFinding(found.kind, found.companyId, logOf(found));
}
