// @ts-check
// Changes that the control log holds about something: found by the server by a text in them, or by
// their indices, and checked here.
import { having, nullable, string } from '../lib/form.js';
import { checkRecords } from './checker.js';
import { change, controlPage } from './control.js';
import { fail } from './failures.js';
import { controlKey } from './logs.js';
import { refreshKey, session, signedIn } from './session.js';

const about = having({ subject: string, by: nullable(string) }, { agentId: string });

/**
 * Checks records of the control log: {key, results}, with what checkRecords says of each and the
 * key that it was checked with. Where that did not sign one of them the company's keys are asked
 * for again. What fails is a finding.
 * @param {LogRecord[]} records
 */
export async function checkControl(records) {
  const { companyId } = signedIn().key;
  let key = await controlKey();
  let results = records.length ? await checkRecords(records, key, 'control') : [];
  if (results.some(({ hashOK, signatureOK }) => hashOK && !signatureOK)) {
    key = await controlKey(await refreshKey(companyId));
    results = await checkRecords(records, key, 'control');
  }
  if (session.get().company?.companyId === companyId)
    results.forEach(({ ok, reason }, i) => ok || fail(records[i].index, reason, 'here', 'control'));
  return { key, results };
}

/**
 * Records as changes: {record, subject, by, agentId, ok, flaw}; ok and flaw are what was found when
 * the record was checked.
 * @param {LogRecord[]} records
 * @returns {Promise<ControlChange[]>}
 */
async function checked(records) {
  if (!records.length) return []; // no key is asked for in vain
  const { results } = await checkControl(records);
  return records.map((record, i) => ({
    record,
    ...about(record.inner, record.source, `control record ${record.index}`),
    ok: results[i].ok,
    flaw: results[i].reason,
  }));
}

/**
 * The newest changes that the server finds, as of controlPage, checked.
 * @param {{q?: string, action?: string, since?: string}} asked
 * @param {ControlPage | null} before
 * @param {number} limit
 */
async function pageOf(asked, before, limit) {
  const { found, page } = await controlPage(asked, before, limit);
  return { found: await checked(found), page };
}

/**
 * The newest changes that contain a text.
 * @param {string} text
 * @param {ControlPage | null} before
 * @param {number} limit
 */
export const changesWith = (text, before, limit) => pageOf({ q: text }, before, limit);

/**
 * The newest changes.
 * @param {number} limit
 */
export const newestChanges = async (limit) => (await pageOf({}, null, limit)).found;

/**
 * The newest changes of a kind since a time.
 * @param {string} action
 * @param {string} since
 * @param {number} limit
 */
export const newestOf = async (action, since, limit) => (await pageOf({ action, since }, null, limit)).found;

const PAGE = 1000;

/**
 * All changes that the server finds, the newest first. Throws where one of them fails, or where
 * there are more than so many.
 * @param {{q?: string, action?: string, since?: string}} asked
 * @param {number} [most]
 */
export async function allChanges(asked, most = Infinity) {
  const all = [];
  for (let before = null; ;) {
    const { found, page } = await pageOf(asked, before, PAGE);
    const bad = found.find(({ ok }) => !ok);
    if (bad) throw new Error(`Control record ${bad.record.index} fails: ${bad.flaw}.`);
    all.push(...found);
    if (all.length > most) throw new Error(`There are more than ${most} records about it.`);
    if (!page.next) return all;
    before = page;
  }
}

/**
 * The changes at some indices of the control log, by index.
 * @param {number[]} indices
 */
export async function changesAt(indices) {
  const found = await Promise.all([...new Set(indices)].map(async (index) => {
    const record = await change(index);
    if (!record) throw new Error(`The server has no control record ${index}.`);
    return record;
  }));
  return new Map((await checked(found)).map((one) => [one.record.index, one]));
}
