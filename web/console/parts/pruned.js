// @ts-check
// What could not be searched or checked because payloads were pruned, and the archives that have
// these, as signed control records name them.
import { html } from '../vendor/preact-htm.js';
import { readArchives } from '../core/archives.js';
import { plural } from '../core/format.js';
import { archivedRecords, archiveWords, verdictOnPruned } from '../core/pruned.js';
import { href } from '../core/router.js';
import { useSignedIn } from '../core/session.js';
import { Failure, Notice, useResult } from './basic.js';
import { useAssess } from './key_trust.js';

/**
 * The archives, each with its SHA-256 and a link to the control record that names it.
 * @param {{of: Archive[]}} props
 */
export const Archives = ({ of }) => archiveWords(of).map(({ text, archive: { archive, index } }) => html`
  <span data-archive=${archive}>${text} <code>${archive}</code>, says${' '}
    <a href=${href('control', index)}>control record ${index}</a>. </span>`);

/**
 * @param {number | null} count
 * @returns {Promise<{archives: Archive[], error: Error | null} | null>}
 */
const readIfAny = async (count) => (count === 0 ? null : readArchives(count ?? 1).then(
  (archives) => ({ archives, error: null }), (error) => ({ archives: [], error })));

/**
 * What was not searched; nothing where all was. count: how many records, as far as the search says
 * it; null where it says nothing, and finds no record whose payload was pruned.
 * @param {{count: number | null, what?: string}} props
 */
export function Unsearched({ count, what = 'could not be searched, because their payloads were pruned' }) {
  const { key } = useSignedIn();
  const assess = useAssess(key);
  const found = useResult(() => readIfAny(count), [count]);
  if (!found) return null;
  const { archives, error } = found;
  if (error) return html`<${Failure} error=${error} />`;
  const n = count ?? archivedRecords(archives);
  if (!n) return null;
  return html`<div data-unsearched=${n}><${Notice} kind=${verdictOnPruned(assess).tone}>
    <strong>${plural(n, 'record')} ${what}.</strong> <${Archives} of=${archives} /><//></div>`;
}
