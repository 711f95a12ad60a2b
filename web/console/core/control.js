// @ts-check
// The control log of the company that is signed in: what the server finds in it, and one record.
// That nothing was left out between, of a search, only a report shows.
import { FormError, having, json, list, string } from '../lib/form.js';
import { controlRecordForm } from '../lib/record.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';
import { proveSince } from './growth.js';
import { provenSize } from './heads.js';
import { PAGE_SAYS, mustBeInOrder, mustGoOn } from './search_pages.js';
import { signedIn } from './session.js';

const PAGE = 100; // records that match, before a page is full
const MOST = 20; // requests for a page

const pageForm = having({ records: list(json, 1000), ...PAGE_SAYS }, { next: string });

/**
 * @param {JSONText} text
 * @param {string} what
 */
function recordOf({ node, source }, what) {
  try {
    return controlRecordForm(node, source, 'it');
  } catch (err) {
    throw new FormError(`${what} is none: ${err.message}`);
  }
}

/**
 * The control record with an index, or undefined where there is none.
 * @param {number} index
 * @param {CallOptions} [options]
 */
export async function change(index, options) {
  const {
    records: [found],
  } = await call(having({ records: list(json, 1) }), 'GET', `/v1/chain?log=control&from=${index}&limit=1`, {
    ...options,
    asked: NOTHING,
  });
  if (!found) return undefined;
  const record = recordOf(found, `Control record ${index}`);
  if (record.index !== index)
    throw new FormError(`Control record ${index} is missing: record ${record.index} is in its place`);
  return record;
}

/**
 * A page of the newest control records that the server finds, after an earlier one: {found, page}.
 * page is {size, read, next, below}: read.from is the index down to which the server has looked,
 * next is '' at the beginning of the log, and below is the last index that was shown. asked:
 * {action, since, until, q}. Where nothing is asked for, the newest record of the log must come
 * first, and the others one after the other.
 * @param {{action?: string, since?: string, until?: string, q?: string}} asked
 * @param {ControlPage | null} before
 * @param {number} limit
 * @returns {Promise<{found: LogRecord[], page: ControlPage}>}
 */
export async function controlPage(asked, before, limit) {
  const searched = Object.entries(asked).filter(([, value]) => value);
  const whole = searched.length === 0;
  const { key } = signedIn();
  if (whole && !before) await proveSince(key); // how long the log is, by a checkpoint that the company has signed
  const proven = provenSize(key, 'control');
  const query = new URLSearchParams([
    ...searched, ['log', 'control'], ['order', 'newest'], ['limit', String(limit)],
    ...(before?.next ? [['cursor', before.next]] : []),
  ]);
  const { records, ...says } = await call(pageForm, 'GET', `/v1/records?${query}`, { asked: NOTHING });
  let below = before?.below ?? null;
  const found = records.map((one) => {
    const record = recordOf(one, below === null ? 'The newest control record' : `The control record before ${below}`);
    if (below === null && whole && record.index !== says.size - 1)
      throw new FormError(`Of ${says.size} control records the newest that the server shows is ${record.index}.`);
    if (below !== null && (whole ? record.index !== below - 1 : record.index >= below))
      throw new FormError(`Before control record ${below} the server shows record ${record.index}.`);
    below = record.index;
    return record;
  });
  const page = { next: '', ...says, below };
  mustGoOn(page, before, { ...asked, order: 'newest', proven });
  mustBeInOrder(found, page, { order: 'newest' });
  if (whole && (below ?? page.size) !== page.read.from)
    throw new FormError(
      `The server shows control records down to ${below ?? page.size}, and says that it has shown them down to ` +
        `${page.read.from}.`,
    );
  return { found, page };
}

/**
 * The newest control records that match, after an earlier page, as of controlPage; what the server
 * cannot be asked for, matches decides.
 * @param {{action?: string, since?: string, until?: string, q?: string}} asked
 * @param {(record: LogRecord) => boolean} matches
 * @param {ControlPage | null} [before]
 */
export async function searchChanges(asked, matches, before = null) {
  const all = [];
  for (let i = 1, last = before; ; i++) {
    const { found, page } = await controlPage(asked, last, PAGE);
    all.push(...found.filter(matches));
    if (i === MOST || all.length >= PAGE || !page.next) return { found: all, page };
    last = page;
  }
}
