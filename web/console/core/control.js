// The control log of the company that is signed in: what the server finds in it, and one record. That nothing was left out of a search only a report shows.
import { FormError, having, integer, json, list, string } from '../lib/form.js';
import { controlRecordForm } from '../lib/record.js';
import { call } from './api.js';

const PAGE = 100; // records that match, before a page is full
const MOST = 20; // requests for a page

const pageForm = having({ records: list(json, PAGE), size: integer, read: having({ from: integer, to: integer }) }, { next: string });

function recordOf({ node, source }, what) {
  try {
    return controlRecordForm(node, source, 'it');
  } catch (err) {
    throw new FormError(`${what} is none: ${err.message}`);
  }
}

/** The control record with an index, or undefined where there is none. */
export async function change(index, options) {
  const { records: [found] } = await call(having({ records: list(json, 1) }), 'GET', `/v1/chain?log=control&from=${index}&limit=1`, options);
  if (!found) return undefined;
  const record = recordOf(found, `Control record ${index}`);
  if (record.index !== index) throw new FormError(`Control record ${index} is none: record ${record.index} stands in its place`);
  return record;
}

/**
 * The newest control records that match, the newest first: {found, read, size, next}. read is the index down to which the server has looked, and next the cursor to go on with, ''
 * at the beginning of the log. asked: {action, since, until, q} for the server; what it cannot be asked for matches decides here.
 */
export async function searchChanges(asked, matches, cursor = '') {
  const found = [];
  const query = Object.entries({ ...asked, log: 'control', order: 'newest', limit: PAGE }).filter(([, value]) => value);
  const whole = query.length === 3; // nothing is asked for: then all records must come, one after the other
  let page = { next: cursor };
  let below = null;
  for (let i = 0; i < MOST && found.length < PAGE && (i === 0 || page.next); i++) {
    page = await call(pageForm, 'GET', `/v1/records?${new URLSearchParams(page.next ? [...query, ['cursor', page.next]] : query)}`);
    for (const one of page.records) {
      const record = recordOf(one, below === null ? 'The newest control record' : `The control record before ${below}`);
      if (below !== null && (whole ? record.index !== below - 1 : record.index >= below)) throw new FormError(`Before control record ${below} the server shows record ${record.index}.`);
      below = record.index;
      if (matches(record)) found.push(record);
    }
  }
  return { found, read: page.next ? page.read.from : 0, size: page.size, next: page.next ?? '' };
}
