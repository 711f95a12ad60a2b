// @ts-check
// The control log of the company that is signed in: what the server finds in it, and one record.
// That nothing was left out between, of a search, only a report shows.
import { FormError, having, json, list, string } from '../lib/form.js';
import { controlRecordForm } from '../lib/record.js';
import { call } from './api.js';
import { NOTHING } from './asked.js';
import { proveSince } from './growth.js';
import { provenSize } from './heads.js';
import { PAGE_SAYS, mustGoOn } from './search_pages.js';
import { signedIn } from './session.js';

const PAGE = 100; // records that match, before a page is full
const MOST = 20; // requests for a page

const pageForm = having({ records: list(json, PAGE), ...PAGE_SAYS }, { next: string });

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
    throw new FormError(`Control record ${index} is none: record ${record.index} is in its place`);
  return record;
}

/**
 * The newest control records that match, the newest first, after an earlier page: {found, page}.
 * page is {size, read, next}: read.from is the index down to which the server has looked, and next
 * '' at the beginning of the log. asked: {action, since, until, q} for the server; what it cannot
 * be asked for matches decides here.
 * @param {{action?: string, since?: string, until?: string, q?: string}} asked
 * @param {(record: LogRecord) => boolean} matches
 * @param {ControlPage | null} [before]
 */
export async function searchChanges(asked, matches, before = null) {
  const found = [];
  const query = Object.entries({ ...asked, log: 'control', order: 'newest', limit: String(PAGE) })
    .filter(([, value]) => value);
  const whole = query.length === 3; // nothing is asked for: then all records must come, one after the other
  const { key } = signedIn();
  if (!before) await proveSince(key); // how long the log is, by a checkpoint that the company has signed
  const proven = provenSize(key, 'control');
  let last = before;
  let below = before?.below ?? null;
  for (let i = 0; ; i++) {
    const { records, ...says } = await call(
      pageForm,
      'GET',
      `/v1/records?${new URLSearchParams(last ? [...query, ['cursor', last.next]] : query)}`,
      { asked: NOTHING },
    );
    const page = { next: '', ...says, below };
    for (const one of records) {
      const record = recordOf(one, below === null ? 'The newest control record' : `The control record before ${below}`);
      if (below === null && whole && record.index !== page.size - 1)
        throw new FormError(`Of ${page.size} control records the newest that the server shows is ${record.index}.`);
      if (below !== null && (whole ? record.index !== below - 1 : record.index >= below))
        throw new FormError(`Before control record ${below} the server shows record ${record.index}.`);
      below = record.index;
      if (matches(record)) found.push(record);
    }
    mustGoOn(page, last, { ...asked, order: 'newest', proven });
    if (whole && (below ?? page.size) !== page.read.from)
      throw new FormError(
        `The server shows control records down to ${below ?? page.size}, and says that it has shown them down to ` +
          `${page.read.from}.`,
      );
    page.below = below;
    if (i + 1 === MOST || found.length >= PAGE || !page.next) return { found, page };
    last = page;
  }
}
