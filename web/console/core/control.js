// The control log of the company that is signed in, read from its end.
import { FormError, having, json, list } from '../lib/form.js';
import { controlRecordForm } from '../lib/record.js';
import { call } from './api.js';
import { bothLogs } from './logs.js';

const CHUNK = 1000; // records in a request
const WANTED = 100; // that match, before a page is full
const MOST = 20000; // records that are read for a page

/** The control records [from, from + limit). */
export async function changes(from, limit, options) {
  const { records } = await call(having({ records: list(json, limit) }), 'GET', `/v1/chain?log=control&from=${from}&limit=${limit}`, options);
  return records.map(({ node, source }, i) => {
    try {
      const record = controlRecordForm(node, source, 'it');
      if (record.index !== from + i) throw new FormError(`record ${record.index} stands in its place`);
      return record;
    } catch (err) {
      throw new FormError(`Control record ${from + i} is none: ${err.message}`);
    }
  });
}

/**
 * The newest control records below an index that match, the newest first: {found, read, size}. read is the index down to which all were read: 0 at the beginning of the
 * log. Without before, the end of the log is asked for.
 */
export async function searchChanges(matches, before, options) {
  const size = before ?? (await bothLogs()).control.size;
  const found = [];
  let read = size;
  while (read > 0 && found.length < WANTED && size - read < MOST) {
    const from = Math.max(0, read - CHUNK);
    found.push(...(await changes(from, read - from, options)).filter(matches).reverse());
    read = from;
  }
  return { found, read, size };
}
